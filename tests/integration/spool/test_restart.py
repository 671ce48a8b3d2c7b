"""The state of a spool after a close or a kill, and how little it needs."""

from __future__ import annotations

import threading
import tracemalloc
from collections.abc import Iterable
from pathlib import Path

import apsw
import pytest

from bus.errors import SpoolError
from bus.ports.spool import NewRecord, Record
from bus.spool import AsyncSpool, BlockingSpool, Options
from bus.spool.cursors import WINDOW
from bus.spool.file import SpoolFile
from bus.spool.transaction import SWEEP, SWEEP_BYTES


def records(count: int, lane: str = "a", size: int = 10) -> list[NewRecord]:
    return [NewRecord(lane, bytes(size), number) for number in range(count)]


def take(spool: BlockingSpool, count: int, consumer: str = "send", lane: str = "a") -> list[Record]:
    found: list[Record] = []
    while len(found) < count and (more := spool.claim(consumer, count - len(found), lane)):
        found += more
    return found


def query(directory: Path, sql: str) -> list[tuple[object, ...]]:
    db = apsw.Connection(str(directory / "spool.db"))
    try:
        return list(db.execute(sql))
    finally:
        db.close()


def commit(spool: BlockingSpool) -> None:
    """Make one commit, and no further one."""
    spool._engine.write()
    spool._engine.commit()
    spool._engine.committed()


@pytest.mark.parametrize("clean", [True, False])
def test_positions_are_not_used_again_after_everything_left(tmp_path: Path, clean: bool) -> None:
    seen: set[int] = set()
    for _ in range(3):
        spool = BlockingSpool(tmp_path)
        positions = spool.append(records(5))
        assert not seen.intersection(positions)
        seen.update(positions)
        spool.ack("send", take(spool, 5))
        spool.settle()
        assert spool.stats().records == 0
        if clean:
            spool.close()
        else:
            spool._engine.crash()


def test_after_a_clean_end_only_what_was_held_is_recovered(tmp_path: Path) -> None:
    with BlockingSpool(tmp_path) as spool:
        spool.append(records(10))
        found = take(spool, 5)
        spool.ack("send", [found[0], found[2]])
        spool.release("send", [found[3]])
    with BlockingSpool(tmp_path) as spool:
        again = take(spool, 20)
        assert [record.position for record in again] == [
            record.position for record in (found[1], found[3], found[4])
        ] + [found[4].position + more for more in range(1, 6)]
        assert [spool.recovered("send", record) for record in again] == [True] * 3 + [False] * 5


@pytest.mark.parametrize("claimed", [1, WINDOW // 2 + 3, 2 * WINDOW + 7])
def test_after_a_kill_all_that_was_claimed_is_recovered_and_not_much_more(tmp_path: Path, claimed: int) -> None:
    spool = BlockingSpool(tmp_path)
    spool.append(records(5 * WINDOW))
    found = take(spool, claimed)
    spool.ack("send", found[::2])
    spool.settle()
    spool._engine.crash()
    with BlockingSpool(tmp_path) as spool:
        fresh = spool.append(records(5))
        again = take(spool, 6 * WINDOW)
        assert len(again) == 5 * WINDOW + 5 - len(found[::2])
        recovered = [record.position for record in again if spool.recovered("send", record)]
        assert {record.position for record in found[1::2]} <= set(recovered)
        assert len(recovered) <= claimed + 2 * WINDOW
        assert not set(fresh) & set(recovered)
        assert spool.stats().damaged == 0


def test_what_may_have_been_claimed_before_a_kill_stays_so_over_a_clean_end(tmp_path: Path) -> None:
    spool = BlockingSpool(tmp_path)
    spool.append(records(50))
    take(spool, 20)
    spool._engine.crash()
    BlockingSpool(tmp_path).close()
    with BlockingSpool(tmp_path) as spool:
        assert all(spool.recovered("send", record) for record in take(spool, 20))


def test_the_window_needs_a_commit_now_and_then(tmp_path: Path) -> None:
    with BlockingSpool(tmp_path) as spool:
        spool.append(records(3 * WINDOW))
        assert len(spool.claim("send", 9 * WINDOW, "a")) <= WINDOW
        take(spool, 2 * WINDOW)
        ((saved,),) = query(tmp_path, "SELECT next FROM cursor WHERE consumer = 'send'")
        cursor = spool._section.find("a", "send")
        assert cursor is not None
        assert cursor.next - int(str(saved)) <= WINDOW


def test_two_consumers_go_on_where_each_was(tmp_path: Path) -> None:
    spool = BlockingSpool(tmp_path, Options(consumers=("send", "store")))
    spool.append(records(10))
    sent = take(spool, 10)
    spool.ack("send", sent[3:])
    stored = take(spool, 5, "store")
    spool.ack("store", stored[1:])
    spool.settle()
    spool._engine.crash()
    with BlockingSpool(tmp_path, Options(consumers=("send", "store"))) as spool:
        first = sent[0].position
        assert [record.position - first for record in take(spool, 20)] == [0, 1, 2]
        assert [record.position - first for record in take(spool, 20, "store")] == [0, 5, 6, 7, 8, 9]
        assert spool.stats().records == 8
        counts = {row.consumer: row.records for row in spool.stats().consumers}
        assert counts == {"send": 3, "store": 6}


def test_a_consumer_that_is_new_at_a_restart_begins_with_the_next_record(tmp_path: Path) -> None:
    with BlockingSpool(tmp_path) as spool:
        spool.append(records(3))
    with BlockingSpool(tmp_path, Options(consumers=("send", "store"))) as spool:
        (position,) = spool.append(records(1))
        assert [record.position for record in take(spool, 9, "store")] == [position]
        assert len(take(spool, 9)) == 4


def test_a_detached_consumer_is_swept_in_bounded_steps_and_over_a_kill(tmp_path: Path) -> None:
    spool = BlockingSpool(tmp_path, Options(consumers=("send", "slow")))
    spool.append(records(3 * SWEEP))
    for _ in range(30):
        spool.ack("send", take(spool, SWEEP))
    spool.settle()
    held = take(spool, 7, "slow")
    spool.ack("slow", held[:2])
    spool.settle()
    spool.detach("a", "slow")
    commit(spool)
    left = spool.stats().records
    assert 3 * SWEEP - 2 - SWEEP - 7 <= left < 3 * SWEEP
    spool._engine.crash()
    with BlockingSpool(tmp_path) as spool:
        assert [row.consumer for row in spool.stats().consumers] == ["send"]
        spool.settle()
        assert spool.stats().records > 0
        while spool.stats().records:
            spool.settle()
        spool.settle()
        assert query(tmp_path, "SELECT count(*) FROM record") == [(0,)]
        assert query(tmp_path, "SELECT consumer FROM cursor") == [("send",)]
        assert spool.stats().damaged == 0


async def test_nothing_waits_for_the_backlog_of_a_detached_consumer(tmp_path: Path) -> None:
    async with await AsyncSpool.open(tmp_path, Options(consumers=())) as spool:
        spool.attach("big", "gone")
        spool.attach("other", "store")
        await spool.append(records(20 * SWEEP, "big"))
        await spool.append(records(2 * WINDOW, "other"))
        spool.detach("big", "gone")
        spool.attach("new", "sub")
        await spool.settle()
        for _ in range(2):
            found = await spool.claim("store", WINDOW, "other")
            assert len(found) == WINDOW
            spool.ack("store", found)
        assert spool.stats().records > 5 * SWEEP
        while spool.stats().records:
            await spool.settle()


def test_one_commit_sweeps_many_consumers_that_were_detached(tmp_path: Path) -> None:
    lanes = [f"lane {number}" for number in range(50)]
    with BlockingSpool(tmp_path, Options(consumers=())) as spool:
        for lane in lanes:
            spool.attach(lane, "sub")
            spool.append(records(2, lane))
            spool.detach(lane, "sub")
        commit(spool)
        assert spool.stats().records == 0


def test_a_commit_sweeps_few_large_records_and_reads_none_of_them(tmp_path: Path) -> None:
    with BlockingSpool(tmp_path, Options(consumers=("sub",), cache_bytes=0)) as spool:
        for _ in range(16):
            spool.append(records(1, size=1 << 20))
        held = take(spool, 8, "sub")
        spool.ack("sub", held[:1])
    with BlockingSpool(tmp_path, Options(consumers=())) as spool:
        spool.detach("a", "sub")
        reads = spool._engine.file.db.status
        reads(apsw.SQLITE_DBSTATUS_CACHE_MISS, True)
        spool._engine.write()
        assert reads(apsw.SQLITE_DBSTATUS_CACHE_MISS)[0] < 100
        spool._engine.commit()
        spool._engine.committed()
        assert 15 > spool.stats().records >= 15 - SWEEP_BYTES // 2**20 - 1
        while spool.stats().records:
            spool.settle()
        assert query(tmp_path, "SELECT count(*) FROM record") == [(0,)]


async def test_what_is_swept_is_deleted_in_the_thread_that_commits(tmp_path: Path) -> None:
    threads: list[str] = []

    class Watched(SpoolFile):
        def delete(self, ranges: Iterable[tuple[int, int]]) -> None:
            threads.append(threading.current_thread().name)
            super().delete(ranges)

    async with await AsyncSpool.open(tmp_path, Options(consumers=("sub",), file_class=Watched)) as spool:
        await spool.append(records(10))
        spool.detach("a", "sub")
        while spool.stats().records:
            await spool.settle()
    assert threads == ["spool-commit"]


def test_a_long_reader_costs_no_checkpoint_with_each_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bus.spool.engine.CHECKPOINT_PAGES", 50)
    copied: list[int] = []

    class Counted(SpoolFile):
        def checkpoint(self, mode: int = apsw.SQLITE_CHECKPOINT_PASSIVE) -> int:
            copied.append(self.wal_pages)
            return super().checkpoint(mode)

    with BlockingSpool(tmp_path, Options(file_class=Counted)) as spool:
        spool.append(records(1))
        reader = apsw.Connection(str(tmp_path / "spool.db"))
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM record").fetchall()
        copied.clear()
        for _ in range(100):
            spool.append(records(1, size=10_000))
        assert len(copied) < 20
        assert spool._engine.file.wal_pages > 300, "the log cannot begin anew"
        reader.close()
        for _ in range(100):
            spool.append(records(1, size=10_000))
        assert spool._engine.file.wal_pages < 100, "it does again"


def test_a_lane_without_a_consumer_is_refused(tmp_path: Path) -> None:
    with BlockingSpool(tmp_path, Options(consumers=())) as spool:
        with pytest.raises(SpoolError, match="no consumer"):
            spool.append(records(1))
        spool.attach("a", "sub")
        spool.append(records(1))
        spool.detach("a", "sub")
        with pytest.raises(SpoolError, match="no consumer"):
            spool.append(records(1))


def test_opening_a_large_backlog_loads_nothing_of_it(tmp_path: Path) -> None:
    with BlockingSpool(tmp_path) as spool:
        for _ in range(10):
            spool.append(records(2000, size=1000))
    tracemalloc.start()
    try:
        with BlockingSpool(tmp_path) as spool:
            assert spool.stats()[:2] == (20_000, 20_000 * 1032)
            spool.claim("send", 100, "a")
            _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 2 << 20


async def test_memory_is_bounded_by_the_cache_and_the_window(tmp_path: Path) -> None:
    async with await AsyncSpool.open(tmp_path, Options(cache_bytes=1 << 20)) as spool:
        tracemalloc.start()
        try:
            for _ in range(20):
                await spool.append(records(1000, size=1000))
            current, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert current < 3 << 20
        assert spool._cursors.cache.bytes <= 1 << 20


def test_a_newer_format_is_refused_and_left_alone(tmp_path: Path) -> None:
    BlockingSpool(tmp_path).close()
    query(tmp_path, "PRAGMA user_version = 2")
    with pytest.raises(SpoolError, match="format 2"):
        BlockingSpool(tmp_path)
    assert query(tmp_path, "PRAGMA user_version") == [(2,)]
    assert SpoolFile.synchronous == "FULL"


def test_what_is_left_is_counted_right_where_a_second_consumer_has_come(tmp_path: Path) -> None:
    """The acks of one alone only delete; what its row says is put right when it is no longer alone."""
    with BlockingSpool(tmp_path) as spool:
        spool.append([NewRecord("a", b"1", 1)] * 3)
        spool.claim("send", 3, "a")
    with BlockingSpool(tmp_path) as spool:
        spool.ack("send", spool.claim("send", 3, "a"))
        spool.append([NewRecord("a", b"2", 1)] * 2)
        spool.attach("a", "store")
    with BlockingSpool(tmp_path) as spool:
        assert {found.consumer: found.records for found in spool.stats().consumers} == {"send": 2, "store": 0}
        assert len(spool.claim("send", 9, "a")) == 2
