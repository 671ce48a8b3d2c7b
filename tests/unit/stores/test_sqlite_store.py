"""Promises of the SQLite store alone: files, versions, errors, gatherings, other processes."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from pathlib import Path

import apsw
import msgspec
import pytest

from bus.domain.delivery.delivery import Outcome, Status
from bus.domain.message import Message
from bus.domain.searching.selection import Selection
from bus.domain.times import DAY
from bus.errors import ConfigurationError, StoreError, StoreUnavailable
from bus.stores.gathering import BatchCollector
from bus.stores.sqlite import SqliteStore, control_sql
from bus.stores.sqlite.errors import DAMAGED, REFUSED, UNAVAILABLE, translate
from bus.stores.sqlite.keys import id_key, key_id, time_key
from bus.stores.sqlite.partitions import trace_sql
from bus.testing.contracts import store_compensations
from bus.testing.contracts.store import StoreContract
from bus.testing.contracts.store_traces import search_all
from bus.testing.writes import DESTINATION, NOON, message, outcome, row

LANE = (DESTINATION, "billing")


def test_every_exception_of_apsw_is_mapped() -> None:
    found = {
        value
        for value in vars(apsw).values()
        if isinstance(value, type) and issubclass(value, apsw.Error) and value is not apsw.Error
    }
    assert found == {*UNAVAILABLE, *DAMAGED, *REFUSED}
    assert len(found) == len(UNAVAILABLE) + len(DAMAGED) + len(REFUSED)
    assert all(isinstance(translate(one("x"), "control.db"), StoreUnavailable) for one in UNAVAILABLE)
    assert all(translate(one("x"), "control.db").hint for one in found)
    assert not any(translate(one("x"), "control.db").retriable for one in (*DAMAGED, *REFUSED))


def test_the_numbers_in_the_sql_are_those_of_the_states() -> None:
    assert trace_sql.DELIVERED == 3
    assert [trace_sql.STATUS[status] for status in trace_sql.OPEN] == [0, 1, 2]
    assert set(trace_sql.STATUS) == set(Status)


def test_keys_sort_like_ids_and_times() -> None:
    sent = message(1)
    assert key_id(id_key(sent.id)) == sent.id
    assert time_key(NOON + 1) < id_key(sent.id) < time_key(NOON + 2)


async def test_a_file_of_a_newer_version_stops_the_start(tmp_path: Path) -> None:
    await (await SqliteStore.open(tmp_path)).close()
    with apsw.Connection(str(tmp_path / "control.db")) as connection:
        connection.pragma("user_version", 99)
    with pytest.raises(ConfigurationError, match="99"):
        await SqliteStore.open(tmp_path)


async def test_a_newer_or_damaged_partition_fails_its_writes_and_no_others(tmp_path: Path) -> None:
    store = await SqliteStore.open(tmp_path)
    (tmp_path / "traces-20261121-30d.db").write_bytes(b"not a database" * 1000)
    with pytest.raises(StoreError, match="damaged") as caught:
        await store.write([message()])
    assert not caught.value.retriable
    results = await asyncio.gather(
        store.write([message(1)]), store.write([message(DAY)]), store.write([message(2)]), return_exceptions=True
    )
    assert [isinstance(one, StoreError) for one in results] == [True, False, True]
    assert await store.message(message(DAY).id) == message(DAY)
    await store.close()


async def test_everything_is_there_after_a_restart(tmp_path: Path) -> None:
    sent = [message(day * DAY, retention_days=9 + day % 2) for day in range(20)]
    store = await SqliteStore.open(tmp_path)
    await store.write([*sent, *(outcome(one, "billing", Status.RETRYING) for one in sent)])
    await store.put("c", "k", b"v")
    taken = await store.lease(NOON + 99 * DAY, NOON + 100 * DAY, {LANE: 3}, 9)
    await store.close()
    store = await SqliteStore.open(tmp_path)
    assert [await store.message(one.id) for one in sent] == sent
    assert await search_all(store, Selection(status=Status.RETRYING), 3) == [one.id for one in reversed(sent)]
    assert await store.due(0) == {LANE: 20}
    again = await store.lease(NOON + 99 * DAY, NOON + 100 * DAY, {LANE: 99}, 99)
    assert {one.message_id for one in again} == {one.id for one in sent} - {one.message_id for one in taken}
    await store.close()


async def test_close_commits_what_waits_and_refuses_the_rest(tmp_path: Path) -> None:
    store = await SqliteStore.open(tmp_path)
    write = asyncio.create_task(store.write([message()]))
    await asyncio.sleep(0)
    await store.close()
    await write
    with pytest.raises(StoreUnavailable):
        await store.write([message(1)])
    store = await SqliteStore.open(tmp_path)
    assert await store.message(message().id) == message()
    await store.close()


async def test_a_full_gathering_does_not_linger(tmp_path: Path) -> None:
    store = await SqliteStore.open(tmp_path, gather=10)
    await asyncio.wait_for(asyncio.gather(*(store.write([message(n)]) for n in range(10))), 60)
    await store.close()


async def test_a_dropped_file_that_a_crash_left_goes_at_the_start(tmp_path: Path) -> None:
    left = tmp_path / "traces-20261121-30d.db.dropped"
    left.touch()
    store = await SqliteStore.open(tmp_path)
    assert not left.exists()
    await store.close()


async def test_another_process_may_write_documents(tmp_path: Path) -> None:
    store, other = await SqliteStore.open(tmp_path), await SqliteStore.open(tmp_path)
    await asyncio.gather(*(one.put("keys", f"{n}", b"") for n in range(20) for one in (store, other)))
    assert [document.version for document in await store.list("keys")] == [2] * 20
    await other.close()
    await store.close()


async def test_the_loop_goes_on_while_another_process_holds_the_file(tmp_path: Path) -> None:
    store = await SqliteStore.open(tmp_path)
    other = apsw.Connection(str(tmp_path / "control.db"))
    other.execute("BEGIN IMMEDIATE")
    put = asyncio.create_task(store.put("c", "k", b""))
    for _ in range(50):
        await asyncio.sleep(0)
    assert not put.done()
    released = threading.Thread(target=other.execute, args=("COMMIT",))
    released.start()
    assert await put == 1
    released.join()
    other.close()
    await store.close()


async def test_a_failed_commit_fails_its_callers_and_no_others() -> None:
    async def commit(items: list[int]) -> list[int | Exception]:
        await asyncio.sleep(0)
        if 13 in items:
            raise StoreUnavailable("no")
        return [ValueError() if item < 0 else item * 2 for item in items]

    gathering: BatchCollector[int, int] = BatchCollector(commit, limit=2)
    results = await asyncio.gather(*map(gathering.add, (1, 2, 13, 3, -1, 4)), return_exceptions=True)
    names = [type(one).__name__ if isinstance(one, Exception) else one for one in results]
    assert names == [2, 4, "StoreUnavailable", "StoreUnavailable", "ValueError", 8]
    assert gathering.idle
    await gathering.close()


async def test_what_was_canceled_before_a_failure_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = await SqliteStore.open(tmp_path / "store")
    sent = [message(n) for n in range(600)]
    await store.write(sent)
    told: list[str] = []
    plain, turns = store._open_deliveries._write, iter(range(9))

    async def write(writes: Sequence[Message | Outcome]) -> None:
        if next(turns) == 1:
            raise StoreUnavailable("down")
        await plain(writes)

    monkeypatch.setattr(store._open_deliveries, "_write", write)
    with pytest.raises(StoreUnavailable):
        await store.cancel(*LANE, NOON * 2, lambda ended: told.extend(one.message_id for one in ended))
    assert 0 < len(told) < len(sent)
    await store.cancel(*LANE, NOON * 2, lambda ended: told.extend(one.message_id for one in ended))
    assert sorted(told) == [one.id for one in sent]
    await store.close()


async def test_a_broken_cursor_is_refused(tmp_path: Path) -> None:
    store = await SqliteStore.open(tmp_path)
    with pytest.raises(ValueError, match="cursor"):
        await store.search(Selection(), cursor="not hex")
    await store.close()


@pytest.mark.proof
async def test_fifty_thousand_failures_of_one_do_not_starve_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_compensations, "MANY", 50_000)
    store = await SqliteStore.open(tmp_path)
    await StoreContract().test_lease_goes_round_robin_within_room_and_limit(store)
    await store.close()


async def test_a_row_of_a_subscription_that_is_not_asked_for_stays(tmp_path: Path) -> None:
    store = await SqliteStore.open(tmp_path)
    await store.compensate([row(message())])
    assert await store.lease(NOON * 2, NOON * 3, {(DESTINATION, "mail"): 9}, 9) == []
    assert await store.due(0) == {LANE: 1}
    await store.close()


@pytest.mark.parametrize(("prefix", "after"), [("", "k09990"), ("k0999", ""), ("k0999", "k09990"), ("", "k")])
def test_a_page_of_documents_costs_the_same_wherever_it_begins(prefix: str, after: str) -> None:
    with apsw.Connection(":memory:") as connection:
        for step in control_sql.STEPS:
            connection.execute(step)
        keys = [("c", f"k{number:05d}", 1, b"") for number in range(10_000)]
        connection.executemany("INSERT INTO document VALUES (?, ?, ?, ?)", keys)
        hundreds = 0

        def count() -> bool:
            nonlocal hundreds
            hundreds += 1
            return False

        connection.set_progress_handler(count, 100)
        bindings = ("c", prefix, after, f"{prefix}\U0010ffff", 5)
        rows = connection.execute(control_sql.LIST_DOCUMENTS, bindings).fetchall()
    assert len(rows) == 5
    assert min(key for key, _, _ in rows) > after
    assert hundreds < 10


async def test_leases_and_the_ends_of_rows_cost_no_fsync_of_their_own(tmp_path: Path) -> None:
    store = await SqliteStore.open(tmp_path)

    def is_synced() -> bool:
        return bool(store._control._writer.pragma("synchronous") == 2)

    sent = message()
    failed, delivered = (outcome(sent, "billing", status) for status in (Status.RETRYING, Status.DELIVERED))
    await store.write([sent, failed])
    assert is_synced()
    rows = await store.lease(failed.due_at, failed.due_at + 60_000, {LANE: 1}, 1, owner="one")
    assert len(rows) == 1
    assert not is_synced()
    await store.write([msgspec.structs.replace(delivered, attempts=2)])
    assert not is_synced()
    assert await store.due(NOON) == {}
    await store.write([outcome(sent, "mail", Status.RETRYING), delivered])
    assert is_synced()
    await store.reclaim("one")
    assert not is_synced()
    await asyncio.gather(store.put("c", "k", b""), store.reclaim("one"))
    assert is_synced()
    await store.close()
