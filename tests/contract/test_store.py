"""Every store keeps the contract; and the suite catches stores that do not."""

from __future__ import annotations

import copy
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest
from msgspec.structs import replace

from bus.domain.delivery.delivery import Outcome, Status
from bus.domain.message import Message
from bus.domain.searching.selection import Selection
from bus.domain.times import DAY
from bus.domain.tracing.failures import FailureCount, FailureGroup, Failures, failures_in
from bus.domain.tracing.trace import Trace
from bus.ports.store import Ended, Page, SearchedRange, Store, untold
from bus.stores.sqlite import SqliteStore
from bus.testing.contracts.store import StoreContract
from bus.testing.store import MemoryStore
from tests.contract.alternating import Alternating


class TestMemoryStore(StoreContract):
    @pytest.fixture
    async def store(self) -> MemoryStore:
        return MemoryStore()


class TestSqliteStore(StoreContract):
    @pytest.fixture
    async def store(self, tmp_path: Path) -> AsyncIterator[SqliteStore]:
        store = await SqliteStore.open(tmp_path / "store")
        yield store
        await store.close()


class TestSqliteStoreThatForgets(StoreContract):
    """Documents that memory no longer holds, and searches that run out of time."""

    @pytest.fixture
    async def store(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[SqliteStore]:
        monkeypatch.setattr("bus.stores.sqlite.partitions.partition._RECENT", 2)
        monkeypatch.setattr("bus.stores.sqlite.search.PATIENCE", 0)
        store = await SqliteStore.open(tmp_path / "store")
        yield store
        await store.close()


class TestTwoSqliteStores(StoreContract):
    """Two stores share the directory, and each call goes to any of them."""

    @pytest.fixture
    async def store(self, tmp_path: Path) -> AsyncIterator[Alternating]:
        store = await Alternating.open(tmp_path / "store")
        yield store
        await store.close()


class LateOutcomesWin(MemoryStore):
    """Takes the state of whatever outcome comes last."""

    async def write(self, writes: Sequence[Message | Outcome]) -> None:
        await super().write(writes)
        for write in writes:
            if isinstance(write, Outcome):
                self._traces[write.message_id].deliveries[write.subscription].status = write.status


class ForgetsRows(MemoryStore):
    """Writes the state of a failed delivery without the row that carries it on."""

    def _follow(self, outcome: Outcome) -> None:
        if outcome.status is not Status.RETRYING:
            super()._follow(outcome)


class KeepsRows(MemoryStore):
    def _end(self, name: tuple[str, str], generation: int) -> None: ...


class NoFence(MemoryStore):
    async def unlease(self, rows) -> None:
        await super().unlease([self._rows[row.message_id, row.subscription] for row in rows])


class RewindsWhatSomebodyChose(MemoryStore):
    async def rewind(self, now: int, skew: int) -> int:
        chosen = {name: row for name, row in self._rows.items() if not row.subscription and row.set_at > now + skew}
        count = await super().rewind(now, skew)
        self._rows |= {name: replace(row, due_at=now, set_at=now) for name, row in chosen.items()}
        return count


class ListsOutcomesOnly(MemoryStore):
    async def trace(self, message_id: str) -> Trace | None:
        trace = await super().trace(message_id)
        return trace if trace is not None and trace.message is not None else None


class CancelsLaterMessages(MemoryStore):
    async def cancel(self, destination: str, subscription: str, now: int, ended: Ended = untold) -> int:
        return await super().cancel(destination, subscription, now + DAY, ended)


class TellsNobodyOfEnds(MemoryStore):
    async def cancel(self, destination: str, subscription: str, now: int, ended: Ended = untold) -> int:  # noqa: ARG002
        return await super().cancel(destination, subscription, now)


class ForgetsHowItFailed(MemoryStore):
    async def search(self, selection: Selection, *, cursor: str | None = None, limit: int = 50) -> Page:
        return await super().search(replace(selection, signature=None), cursor=cursor, limit=limit)


class LooksIntoNoBody(MemoryStore):
    async def search(self, selection: Selection, *, cursor: str | None = None, limit: int = 50) -> Page:
        return await super().search(replace(selection, body_text=None), cursor=cursor, limit=limit)


class SaysItLookedAtAll(MemoryStore):
    async def search(self, selection: Selection, *, cursor: str | None = None, limit: int = 50) -> Page:
        page = await super().search(selection, cursor=cursor, limit=limit)
        return page._replace(searched=SearchedRange(selection.since, selection.before))


class CountsWhatIsOver(MemoryStore):
    """Leaves a delivery in the groups of all its failures."""

    async def failures(self, selection: Selection, *, limit: int = 1000) -> Failures:  # noqa: ARG002
        count = FailureCount()
        for one in self._failed:
            count.add(copy.copy(one))
        return count.largest(limit)

    async def write(self, writes: Sequence[Message | Outcome]) -> None:
        await super().write(writes)
        for trace in self._traces.values():
            self._failed += failures_in(trace)

    def __init__(self) -> None:
        super().__init__()
        self._failed: list[FailureGroup] = []


class OverwritesStatistics(MemoryStore):
    """Gives the sheets of all processes one name."""

    async def put(self, collection: str, key: str, value: bytes, *, version: int | None = None) -> int:
        return await super().put(collection, key.partition("/")[0] + "/all", value, version=version)


@pytest.mark.parametrize(
    ("broken", "check"),
    [
        (LateOutcomesWin, "test_a_later_outcome_never_undoes_a_newer_state"),
        (LateOutcomesWin, "test_every_order_gives_the_same_document_and_the_same_rows"),
        (ForgetsRows, "test_a_failed_outcome_makes_a_row_that_carries_the_delivery_on"),
        (ForgetsRows, "test_each_end_of_a_delivery_deletes_its_row"),
        (KeepsRows, "test_a_transport_outcome_deletes_the_row_of_a_claim"),
        (NoFence, "test_unlease_is_fenced"),
        (RewindsWhatSomebodyChose, "test_what_a_clock_set_that_was_ahead_keeps_its_wait"),
        (ListsOutcomesOnly, "test_an_outcome_may_come_first"),
        (CancelsLaterMessages, "test_cancel_leaves_messages_received_later_alone"),
        (CancelsLaterMessages, "test_cancel_ends_messages_to_publish_but_not_later_ones"),
        (TellsNobodyOfEnds, "test_cancel_tells_once_of_each_delivery_that_it_ended"),
        (ForgetsHowItFailed, "test_a_search_finds_what_a_group_has"),
        (LooksIntoNoBody, "test_what_is_in_the_body_selects"),
        (SaysItLookedAtAll, "test_a_page_says_what_it_looked_at"),
        (CountsWhatIsOver, "test_a_group_is_left_when_the_delivery_fails_otherwise_or_no_longer"),
        (OverwritesStatistics, "test_processes_add_up_whatever_the_order"),
        (OverwritesStatistics, "test_what_comes_late_is_added"),
    ],
)
async def test_the_contract_catches(broken: type[Store], check: str) -> None:
    with pytest.raises(AssertionError):
        await getattr(StoreContract(), check)(broken())
    await getattr(StoreContract(), check)(MemoryStore())
