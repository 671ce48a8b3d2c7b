"""The SQLite store does what the dictionaries do, whatever the order of calls, restarts and failed commits."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from bus.domain.delivery.delivery import Compensation, Origin, Status
from bus.domain.identity import new_id
from bus.domain.searching.selection import Selection
from bus.domain.times import DAY
from bus.domain.tracing.signature import UNKNOWN
from bus.errors import Conflict, StoreUnavailable
from bus.ports.store import Store
from bus.stores.sqlite import SqliteStore
from bus.testing.contracts.store_traces import search_all
from bus.testing.store import MemoryStore
from bus.testing.writes import DESTINATION, NOON, message, outcome, row

NUMBERS = st.integers(0, 5)
NAMES = st.sampled_from(["billing", "mail", "late"])
LANES = [(DESTINATION, name) for name in ("billing", "mail", "late")]


def sent(number: int, **changes: Any):
    """Make one of two messages a day, in two retention classes."""
    day, retention = divmod(number, 2)
    at = NOON + day * DAY
    late = changes.pop("late", 0)
    return message(
        number, id=new_id(at, bytes([number] * 10)), retention_days=1 + 2 * retention, received_at=at + late, **changes
    )


def written():
    messages = st.builds(
        sent,
        NUMBERS,
        late=st.integers(0, 2),
        expected=st.sampled_from([(), ("billing",), ("billing", "mail")]),
    )
    outcomes = st.builds(
        lambda number, name, status, attempts, generation: outcome(
            sent(number), name, status, attempts, generation=generation
        ),
        NUMBERS,
        NAMES,
        st.sampled_from(Status),
        st.integers(1, 3),
        st.integers(0, 1),
    )
    return st.lists(messages | outcomes, min_size=1, max_size=8)


class StoreMachine(RuleBasedStateMachine):
    @initialize()
    def start(self) -> None:
        self.directory = Path(tempfile.mkdtemp())
        self.runner = asyncio.Runner()
        self.model = MemoryStore()
        self.leased: list[Compensation] = []
        self.now = NOON + 3 * DAY  # after every id, as clocks are
        self.open()

    def open(self) -> None:
        self.store = self.runner.run(SqliteStore.open(self.directory, gather=4))

    def both(self, call: str, *arguments: Any) -> Any:
        expected = self.runner.run(getattr(self.model, call)(*arguments))
        found = self.runner.run(getattr(self.store, call)(*arguments))
        assert found == expected, call
        return found

    @rule(writes=written())
    def write(self, writes: list) -> None:
        self.both("write", writes)

    @rule(writes=written(), more=written())
    def write_at_the_same_time(self, writes: list, more: list) -> None:
        async def together() -> None:
            await asyncio.gather(self.store.write(writes), self.store.write(more))

        self.runner.run(together())
        self.runner.run(self.model.write([*writes, *more]))

    @rule(writes=written())
    def a_failed_commit_changes_no_document(self, writes: list) -> None:
        """Rows may be there already, as after a crash; so the writes are repeated, as the spool does."""
        writer = self.store._writer
        executor, writer._executor = writer._executor, _BrokenExecutor()
        with pytest.raises(StoreUnavailable):
            self.runner.run(self.store.write(writes))
        writer._executor = executor
        self.same_documents()
        self.both("write", writes)

    @rule(number=NUMBERS, name=NAMES, generation=st.integers(0, 1), attempts=st.integers(0, 3), due=st.integers(0, 50))
    def compensate(self, number: int, name: str, generation: int, attempts: int, due: int) -> None:
        fields = {"generation": generation, "attempts": attempts, "due_at": NOON + due, "by": Origin.STUCK}
        self.both("compensate", [row(sent(number), name, **fields)])

    @rule(room=st.sampled_from([1000, 0]), step=st.integers(1, 30))
    def lease(self, room: int, step: int) -> None:
        self.now += step
        arguments = (self.now, self.now + 20, dict.fromkeys(LANES[:2], 1000) | {LANES[2]: room}, 1000)
        expected = self.runner.run(self.model.lease(*arguments))
        found = self.runner.run(self.store.lease(*arguments))
        assert sorted(found, key=_name) == sorted(expected, key=_name)
        self.leased += found

    @rule(data=st.data(), call=st.sampled_from(["unlease", "finish"]))
    def give_back(self, data: st.DataObject, call: str) -> None:
        if self.leased:
            self.both(call, data.draw(st.lists(st.sampled_from(self.leased), max_size=4)))

    @rule(name=NAMES)
    def cancel(self, name: str) -> None:
        self.both("cancel", DESTINATION, name, self.now)

    @rule(days=st.integers(0, 3))
    def expire(self, days: int) -> None:
        dropped, kept = self.runner.run(self.store.expire(NOON + days * DAY + 100))
        expected = self.runner.run(self.model.expire(NOON + days * DAY + 100))
        assert (sorted(dropped), sorted(kept)) == tuple(map(sorted, expected))

    @rule(key=st.sampled_from("ab"), value=st.binary(max_size=2), version=st.none() | st.integers(0, 2))
    def put(self, key: str, value: bytes, version: int | None) -> None:
        try:
            expected = self.runner.run(self.model.put("c", key, value, version=version))
        except Conflict:
            with pytest.raises(Conflict):
                self.runner.run(self.store.put("c", key, value, version=version))
        else:
            assert self.runner.run(self.store.put("c", key, value, version=version)) == expected

    @rule(key=st.sampled_from("ab"))
    def delete(self, key: str) -> None:
        self.both("delete", "c", key)

    @rule()
    def restart(self) -> None:
        self.runner.run(self.store.close())
        self.open()

    @rule(
        status=st.none() | st.sampled_from(Status),
        name=st.none() | NAMES,
        destination=st.sampled_from([None, DESTINATION]),
        text=st.sampled_from([None, "order-1"]),
        signature=st.sampled_from([None, "<n>", UNKNOWN]),
        undelivered=st.booleans(),
        limit=st.integers(1, 4),
    )
    def search(
        self,
        status: Status | None,
        name: str | None,
        destination: str | None,
        text: str | None,
        signature: str | None,
        undelivered: bool,
        limit: int,
    ):
        selection = Selection(
            status=status,
            subscription=name,
            destination=destination,
            text=text,
            signature=signature,
            undelivered=undelivered,
        )
        expected = self.runner.run(search_all(self.model, selection, limit))
        assert self.runner.run(search_all(self.store, selection, limit)) == expected

    @rule(name=NAMES, before=st.integers(NOON, NOON + 3))
    def unsettled(self, name: str, before: int) -> None:
        self.both("unsettled", DESTINATION, name, before, 10)

    @invariant()
    def same_documents(self) -> None:
        if hasattr(self, "store"):
            assert self.runner.run(_documents(self.store)) == self.runner.run(_documents(self.model))

    @invariant()
    def same_rows(self) -> None:
        if hasattr(self, "store"):
            self.same_failures()
            self.both("due", self.now)
            self.both("next_due")
            self.both("list", "c")

    def same_failures(self) -> None:
        """On a slow machine an answer may be of the newest days only; then it says so, and is whole for these."""
        found = self.runner.run(self.store.failures(Selection()))
        expected = self.runner.run(self.model.failures(Selection(since=found.since)))
        assert found.groups == expected.groups

    def teardown(self) -> None:
        if hasattr(self, "store"):
            self.runner.run(self.store.close())
            self.runner.close()
            shutil.rmtree(self.directory)


async def _documents(store: Store) -> list:
    return [(await store.trace(sent(number).id), await store.message(sent(number).id)) for number in range(6)]


class _BrokenExecutor:
    """Takes commits and fails, as a full disk does."""

    def submit(self, *_: object) -> None:
        raise StoreUnavailable("no space left")


def _name(one: Compensation) -> tuple[str, str]:
    return (one.message_id, one.subscription)


def _run(examples: int, steps: int, **changes: Any) -> None:
    checks = [HealthCheck.too_slow, HealthCheck.data_too_large]
    run_state_machine_as_test(
        StoreMachine,
        settings=settings(
            max_examples=examples, stateful_step_count=steps, deadline=None, suppress_health_check=checks, **changes
        ),
    )


def test_the_store_is_its_model() -> None:
    _run(25, 25)


@pytest.mark.proof
@pytest.mark.timeout(900)
def test_the_store_is_its_model_for_long() -> None:
    _run(150, 50)
