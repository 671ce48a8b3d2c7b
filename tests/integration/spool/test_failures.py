"""Errors of the database while a spool works, injected where SQLite would raise them; both drivers."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, ClassVar

import apsw
import pytest

from bus.errors import SpoolClosed, SpoolFailed, SpoolFull
from bus.ports.spool import NewRecord, Record
from bus.spool import AsyncSpool, BlockingSpool, Options
from bus.spool.file import SpoolFile
from bus.spool.recovery.restore import FAILED
from bus.spool.recovery.salvage import EVIDENCE
from tests.contract.threaded import Threaded


class Faulty(SpoolFile):
    """Raises what is planned for a method, once for each entry; None lets a call pass."""

    plan: ClassVar[dict[str, list[Exception | None]]] = {}
    calls: ClassVar[list[str]] = []

    def _meet(self, name: str) -> None:
        self.calls.append(name)
        queue = self.plan.get(name)
        error = queue.pop(0) if queue else None
        if error is not None:
            raise error

    def insert(self, rows: Any) -> None:
        self._meet("insert")
        super().insert(rows)

    def begin(self, *, synced: bool = True) -> None:
        self._meet("begin")
        super().begin(synced=synced)

    def commit(self) -> None:
        self._meet("commit")
        super().commit()

    def checkpoint(self, mode: int = apsw.SQLITE_CHECKPOINT_PASSIVE) -> int:
        self._meet("checkpoint")
        return super().checkpoint(mode)

    def read(self, first: int, last: int, limit: int, max_bytes: int) -> Any:
        self._meet("read")
        return super().read(first, last, limit, max_bytes)

    def sizes(self, first: int, last: int, limit: int, max_bytes: int) -> Any:
        self._meet("sizes")
        return super().sizes(first, last, limit, max_bytes)


class Acking:
    """Acks records once its append is durable."""

    def __init__(self, spool: AsyncSpool, held: list[Record]) -> None:
        self._spool = spool
        self._held = held

    def done(self) -> bool:
        return False

    def set_result(self, _: list[int], /) -> None:
        self._spool.ack("send", self._held)

    def set_exception(self, error: Exception, /) -> None:
        raise error


@pytest.fixture
def plan() -> dict[str, list[Exception | None]]:
    Faulty.plan = {}
    Faulty.calls.clear()
    return Faulty.plan


@pytest.fixture(params=["async", "blocking"])
async def spool(request: pytest.FixtureRequest, tmp_path: Path, plan: Any) -> AsyncIterator[Any]:
    settings = {"file_class": Faulty, "cache_bytes": 0}
    if request.param == "async":
        async with await AsyncSpool.open(tmp_path, Options(**settings)) as spool:
            yield spool
    else:
        with BlockingSpool(tmp_path, Options(**settings)) as spool:
            yield Threaded(spool)


def new(*bodies: bytes, lane: str = "a") -> list[NewRecord]:
    return [NewRecord(lane, body, 1) for body in bodies]


async def everything(spool: Any) -> list[bytes]:
    found: list[Record] = []
    while more := await spool.claim("send", 100, "a"):
        found += more
    return [record.payload for record in found]


@pytest.mark.parametrize("where", ["begin", "insert", "commit"])
async def test_a_full_disk_refuses_one_call_and_keeps_acks(spool: Any, plan: Any, where: str, tmp_path: Path) -> None:
    positions = await spool.append(new(b"1", b"2"))
    claimed = await spool.claim("send", 1, "a")
    spool.ack("send", claimed)
    plan[where] = [apsw.FullError("no room")]
    with pytest.raises(SpoolFull, match="disk"):
        await spool.append(new(b"3"))
    assert await spool.append(new(b"4")) == [positions[-1] + 1]
    await spool.settle()
    assert spool.stats().records == 2
    assert await everything(spool) == [b"2", b"4"]
    assert not (tmp_path / FAILED).exists()


async def test_a_busy_file_is_waited_for(spool: Any, plan: Any) -> None:
    plan["begin"] = [apsw.BusyError("locked")]
    await spool.append(new(b"1"))
    assert await everything(spool) == [b"1"]


@pytest.mark.parametrize("where", ["insert", "commit"])
async def test_a_failed_disk_ends_everything(spool: Any, plan: Any, where: str, tmp_path: Path) -> None:
    await spool.append(new(b"1"))
    waiting = asyncio.create_task(spool.wait("send", "nothing-here"))
    plan[where] = [apsw.IOError("EIO")]
    results = await asyncio.gather(*[spool.append(new(b"x")) for _ in range(4)], return_exceptions=True)
    assert [type(result) for result in results] == [SpoolFailed] * 4
    syncs = Faulty.calls.count("commit")
    with pytest.raises(SpoolFailed):
        await waiting
    for call in (spool.append(new(b"y")), spool.claim("send", 1, "a"), spool.settle(), spool.wait("send")):
        with pytest.raises(SpoolFailed):
            await call
    await spool.close()
    assert Faulty.calls.count("commit") == syncs, "the commit was tried again"
    assert (tmp_path / FAILED).exists()
    with BlockingSpool(tmp_path) as again:
        assert [record.payload for record in again.claim("send", 9, "a")][:1] == [b"1"]
    assert list((tmp_path / EVIDENCE).glob("*/spool.db"))
    assert not (tmp_path / FAILED).exists()


async def test_a_failed_checkpoint_fails_the_spool(
    spool: Any, plan: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("bus.spool.engine.CHECKPOINT_PAGES", 1)
    plan["checkpoint"] = [apsw.IOError("EIO")]
    await spool.append(new(b"1"))
    await asyncio.gather(spool.append(new(b"2")), return_exceptions=True)
    with pytest.raises(SpoolFailed):
        await spool.append(new(b"3"))
    assert (tmp_path / FAILED).exists()


async def test_corruption_found_in_use_is_salvaged(
    spool: Any, plan: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    await spool.append(new(*[b"%d" % number for number in range(20)]))
    spool.ack("send", (await spool.claim("send", 3, "a"))[1:])
    await spool.append(new(b"unsettled"))
    plan["read"] = [apsw.CorruptError("malformed")]
    with caplog.at_level(logging.ERROR, "bus.spool"):
        found = await everything(spool)
    assert found == [b"%d" % number for number in range(3, 20)] + [b"unsettled"]
    assert "salvaged" in caplog.text
    assert len(list((tmp_path / EVIDENCE).glob("*/spool.db"))) == 1
    assert spool.stats().damaged == 0
    assert spool.stats().records == 19
    await spool.append(new(b"after"))
    assert await everything(spool) == [b"after"]


@pytest.mark.parametrize("where", ["insert", "commit"])
async def test_corruption_found_by_an_append_is_salvaged_and_the_append_done(spool: Any, plan: Any, where: str) -> None:
    await spool.append(new(b"1", b"2"))
    claimed = await spool.claim("send", 1, "a")
    plan[where] = [apsw.CorruptError("malformed")]
    spool.ack("send", claimed)
    await asyncio.gather(spool.append(new(b"3")), spool.append(new(b"4")))
    await spool.settle()
    assert sorted(await everything(spool)) == [b"2", b"3", b"4"]
    assert spool.stats().records == 3


async def test_the_spool_goes_on_while_it_is_salvaged(tmp_path: Path, plan: Any) -> None:
    loop, counting, may_count = asyncio.get_running_loop(), asyncio.Event(), threading.Event()

    class Slow(Faulty):
        def count(self, first: int, last: int) -> tuple[int, int, int]:
            loop.call_soon_threadsafe(counting.set)
            may_count.wait(60)
            return super().count(first, last)

    async with await AsyncSpool.open(tmp_path, Options(file_class=Slow)) as spool:
        await spool.append(new(*[b"%d" % number for number in range(20)]))
        held = await spool.claim("send", 5, "a")
        spool.ack("send", held[:1])
        plan["commit"] = [apsw.CorruptError("malformed")]
        appends = [asyncio.create_task(spool.append(new(b"first")))]
        await counting.wait()
        appends += [asyncio.create_task(spool.append(new(b"x", lane=f"lane {number}"))) for number in range(20)]
        spool.attach("a", "late")
        spool.ack("send", held[1:3])
        held += await spool.claim("send", 3, "a")
        await asyncio.sleep(0)
        may_count.set()
        await asyncio.gather(*appends)
        await spool.settle()
        counts = {(found.lane, found.consumer): found.records for found in spool.stats().consumers}
        assert counts["a", "send"] == 18
        assert counts["a", "late"] == 1, "what was appended since it takes part"
        assert spool.stats().records == 18 + 20
        spool.ack("send", held)
        assert await everything(spool) == [b"%d" % number for number in range(8, 20)] + [b"first"]
    with BlockingSpool(tmp_path) as again:
        assert {found.lane: found.records for found in again.stats().consumers if found.consumer == "send"} == {
            "a": 13,
            **{f"lane {number}": 1 for number in range(20)},
        }


def test_an_exchange_that_fails_leaves_the_records_held(tmp_path: Path, plan: Any) -> None:
    with BlockingSpool(tmp_path, Options(file_class=Faulty, cache_bytes=0)) as spool:
        spool.append(new(b"1", b"2"))
        claimed = spool.claim("send", 2, "a")
        plan["commit"] = [apsw.FullError("no room")]
        rejected = new(b"1", lane="rejected")
        with pytest.raises(SpoolFull):
            spool.exchange("send", claimed[:1], rejected)
        assert spool.stats().records == 2
        assert spool.lanes("send") == ()
        (position,) = spool.exchange("send", claimed[:1], rejected)
        assert spool.stats().records == 2
        (moved,) = spool.claim("send", 9, "rejected")
        assert (moved.position, moved.payload) == (position, b"1")
        spool.release("send", claimed)
        assert [record.payload for record in spool.claim("send", 9, "a")] == [b"2"]


def test_an_exchange_is_one_step(tmp_path: Path) -> None:
    spool = BlockingSpool(tmp_path)
    spool.append(new(b"1", b"2"))
    spool.exchange("send", spool.claim("send", 1, "a"), new(b"1", lane="rejected"))
    spool._engine.crash()
    with BlockingSpool(tmp_path) as spool:
        assert [record.payload for record in spool.claim("send", 9, "a")] == [b"2"]
        assert [record.payload for record in spool.claim("send", 9, "rejected")] == [b"1"]


async def test_an_append_and_the_acks_with_it_are_one_step(tmp_path: Path) -> None:
    spool = await AsyncSpool.open(tmp_path)
    await spool.append(new(b"1", b"2"))
    waiter: asyncio.Future[list[int]] = asyncio.get_running_loop().create_future()
    spool.append_with(new(b"3"), waiter, consumer="send", done=await spool.claim("send", 1, "a"))
    await waiter
    spool._engine.crash()
    async with await AsyncSpool.open(tmp_path) as again:
        assert await everything(again) == [b"2", b"3"]


async def test_the_reserve_is_for_urgent_records(tmp_path: Path) -> None:
    free, now, asked = 1000, 0.0, 0

    def free_space(_: Path) -> int:
        nonlocal asked
        asked += 1
        return free

    async with await AsyncSpool.open(tmp_path, Options(reserve=500, free_space=free_space, now=lambda: now)) as spool:
        await asyncio.gather(*[spool.append(new(b"1")) for _ in range(20)])
        assert asked == 1, "the disk is asked too often"
        free = 100
        await spool.append(new(b"not yet noticed"))
        now = 1.0
        with pytest.raises(SpoolFull, match="500 bytes are free"):
            await spool.append(new(b"2"))
        await spool.append(new(b"3"), urgent=True)
        free, now = 1000, 2.0
        await spool.append(new(b"4"))


async def test_close_commits_what_waits(tmp_path: Path) -> None:
    spool = await AsyncSpool.open(tmp_path)
    await spool.append(new(b"0"))
    spool.ack("send", await spool.claim("send", 1, "a"))
    calls = [asyncio.create_task(spool.append(new(b"%d" % number))) for number in range(1, 9)]
    await asyncio.sleep(0)
    await spool.close()
    assert len(await asyncio.gather(*calls)) == 8
    with pytest.raises(SpoolClosed):
        await spool.append(new(b"late"))
    with BlockingSpool(tmp_path) as again:
        assert sorted(record.payload for record in again.claim("send", 99, "a")) == [b"%d" % n for n in range(1, 9)]


async def test_an_append_during_a_checkpoint_is_committed_right_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also when an ack set its timer before the checkpoint began, and that ends in it."""
    loop, began, may_end = asyncio.get_running_loop(), asyncio.Event(), threading.Event()

    class Slow(SpoolFile):
        def checkpoint(self, mode: int = apsw.SQLITE_CHECKPOINT_PASSIVE) -> int:
            loop.call_soon_threadsafe(began.set)
            may_end.wait(60)
            return super().checkpoint(mode)

    may_end.set()
    async with await AsyncSpool.open(tmp_path, Options(file_class=Slow)) as spool:
        await spool.append(new(b"1"))
        held = await spool.claim("send", 1, "a")
        may_end.clear()
        began.clear()
        monkeypatch.setattr("bus.spool.engine.CHECKPOINT_PAGES", 1)
        spool.append_with(new(b"2"), Acking(spool, held))
        await began.wait()
        late = asyncio.create_task(spool.append(new(b"3")))
        while spool._driver._timer is not None:  # noqa: ASYNC110
            await asyncio.sleep(0.001)
        monkeypatch.setattr("bus.spool.engine.CHECKPOINT_PAGES", 1000)
        monkeypatch.setattr("bus.spool.driver.LINGER", 3600)
        may_end.set()
        async with asyncio.timeout(30):
            await late


@pytest.mark.parametrize("where", ["begin", "insert", "commit"])
async def test_close_ends_when_the_disk_fails_at_the_last_commit(tmp_path: Path, plan: Any, where: str) -> None:
    spool = await AsyncSpool.open(tmp_path, Options(file_class=Faulty))
    waiter: asyncio.Future[list[int]] = asyncio.get_running_loop().create_future()
    spool.append_with(new(b"1"), waiter, lingers=True)
    plan[where] = [apsw.IOError("EIO")]
    async with asyncio.timeout(30):
        await spool.close()
    with pytest.raises(SpoolFailed):
        await waiter
    assert (tmp_path / FAILED).exists()


async def test_a_spool_that_is_closed_while_it_sweeps_is_whole_and_answers_every_append(tmp_path: Path) -> None:
    for turns in range(0, 60, 5):
        spool = await AsyncSpool.open(tmp_path / str(turns), Options(consumers=()))
        spool.attach("gone", "sub")
        spool.attach("a", "send")
        await spool.append(new(*[b"x"] * 3000, lane="gone"))
        spool.detach("gone", "sub")
        closing = asyncio.create_task(spool.close())
        calls = []
        for _ in range(turns):
            calls.append(asyncio.create_task(spool.append(new(b"1"))))
            await asyncio.sleep(0)
        async with asyncio.timeout(30):
            await closing
            results = await asyncio.gather(*calls, return_exceptions=True)
        stored = [result for result in results if isinstance(result, list)]
        assert {type(result) for result in results} <= {list, SpoolClosed}
        assert not (tmp_path / str(turns) / FAILED).exists()
        async with await AsyncSpool.open(tmp_path / str(turns), Options(consumers=())) as again:
            assert len(await again.claim("send", 100, "a")) == len(stored)


async def test_a_sweep_that_fails_in_the_middle_removes_all_the_same(tmp_path: Path, plan: Any) -> None:
    async with await AsyncSpool.open(tmp_path, Options(consumers=(), file_class=Faulty)) as spool:
        spool.attach("a", "sub")
        await spool.append(new(*[b"x"] * 10))
        await spool.claim("sub", 4, "a")
        plan["sizes"] = [None, None, apsw.BusyError("locked")]
        spool.detach("a", "sub")
        async with asyncio.timeout(30):
            while spool.totals().records:  # noqa: ASYNC110 - nothing tells of it
                await asyncio.sleep(0.01)
        assert not plan["sizes"]


async def test_an_ack_alone_is_committed_soon(tmp_path: Path) -> None:
    async with await AsyncSpool.open(tmp_path) as spool:
        await spool.append(new(b"1"))
        spool.ack("send", await spool.claim("send", 1, "a"))
        while spool._engine.gathered.pending or spool._driver.busy:  # noqa: ASYNC110
            await asyncio.sleep(0.001)
        assert spool._engine.file.count(0, 1 << 62)[0] == 0


@pytest.mark.parametrize(
    "record",
    [NewRecord("a", "text", 1), NewRecord("a", b"", 1.5), NewRecord("a", b"", 1 << 64), NewRecord(5, b"", 1)],  # type: ignore[arg-type]
)
async def test_what_is_no_record_is_refused_at_once(spool: Any, record: NewRecord) -> None:
    with pytest.raises((TypeError, ValueError)):
        await spool.append([NewRecord("a", b"good", 1), record])
    assert spool.stats().records == 0
    await spool.append(new(b"fine"))
    assert await everything(spool) == [b"fine"]
