"""Power cuts at every write and sync of a workload, on a disk that drops, reorders and tears what was not synced."""

from __future__ import annotations

import asyncio
import itertools
from contextlib import suppress
from random import Random
from typing import TYPE_CHECKING, Any

import apsw
import pytest

from bus.errors import SpoolFailed
from bus.spool import AsyncSpool, BlockingSpool, Options
from bus.spool.driver import LINGER
from bus.spool.recovery.restore import FAILED
from tests.integration.spool.faulty_vfs import FaultyVfs, PowerIsOff
from tests.integration.spool.history import LANES, History, drain, number_of, record

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from bus.ports.spool import Spool

    Workload = Callable[[Path, FaultyVfs, Random, History, dict[str, Any]], None]

NAMES = itertools.count()
OPERATIONS = 60
SIZES = [10, 100, 1000, 6000]


def blocking(directory: Path, vfs: FaultyVfs, random: Random, history: History, settings: dict[str, Any]) -> None:
    """Append, claim, ack, release and settle in one thread."""
    numbers = itertools.count()
    make = settings.pop("spool_class", BlockingSpool)
    spool = make(directory, Options(vfs=vfs.name, **settings))
    try:
        _work(spool, vfs, random, history, numbers)
        spool.close()
        done(vfs, history, "settled", [])
        spool = make(directory, Options(vfs=vfs.name, **settings))
        _work(spool, vfs, random, history, numbers)
    finally:
        spool._engine.crash()


def _work(
    spool: BlockingSpool, vfs: FaultyVfs, random: Random, history: History, numbers: itertools.count[int]
) -> None:
    for _ in range(OPERATIONS // 2):
        action = random.random()
        if action < 0.55:
            call = [next(numbers) for _ in range(random.randint(1, 5))]
            history.add("try", call)
            spool.append([record(number, random.choice(SIZES)) for number in call])
            done(vfs, history, "ok", call)
        elif action < 0.9:
            lane = random.choice(LANES)
            records = spool.claim("send", random.randint(1, 6), lane)
            acked = [found for found in records if random.random() < 0.7]
            history.add("ack", [number_of(found.payload) for found in acked])
            spool.ack("send", acked)
            spool.release("send", records)
        else:
            spool.settle()
            done(vfs, history, "settled", [])


def done(vfs: FaultyVfs, history: History, kind: str, numbers: list[int]) -> None:
    """Note what came back before the cut; what comes back after it was never seen by anyone."""
    if not vfs.off:
        history.add(kind, numbers)


def concurrent(directory: Path, vfs: FaultyVfs, random: Random, history: History, settings: dict[str, Any]) -> None:
    """Eight appenders and a consumer on one event loop."""
    asyncio.run(_concurrent(directory, vfs, random, history, settings))


async def _concurrent(
    directory: Path, vfs: FaultyVfs, random: Random, history: History, settings: dict[str, Any]
) -> None:
    make = settings.pop("spool_class", AsyncSpool)
    spool = await make.open(directory, Options(vfs=vfs.name, **settings))
    numbers = itertools.count()
    appenders = [_append(spool, vfs, random, history, numbers) for _ in range(8)]
    consumer = asyncio.create_task(_consume(spool, vfs, random, history))
    results = await asyncio.gather(*appenders, return_exceptions=True)
    consumer.cancel()
    await asyncio.gather(consumer, return_exceptions=True)
    await spool.close()
    for result in results:
        if isinstance(result, BaseException) and not isinstance(result, SpoolFailed):
            raise result


async def _append(
    spool: Spool, vfs: FaultyVfs, random: Random, history: History, numbers: itertools.count[int]
) -> None:
    for _ in range(OPERATIONS // 8):
        call = [next(numbers) for _ in range(random.randint(1, 3))]
        history.add("try", call)
        await spool.append([record(number, random.choice(SIZES)) for number in call])
        done(vfs, history, "ok", call)


async def _consume(spool: Spool, vfs: FaultyVfs, random: Random, history: History) -> None:
    while True:
        await spool.wait("send")
        for lane in spool.lanes("send"):
            records = await spool.claim("send", 4, lane)
            history.add("ack", [number_of(found.payload) for found in records])
            spool.ack("send", records, synced=random.random() < 0.5)
        if random.random() < 0.3:
            acked = set(history.acked)
            await spool.settle()
            if not vfs.off:
                history.settled |= acked


def cut(
    directory: Path, workload: Workload, seed: int, cut_at: int, settings: dict[str, Any]
) -> tuple[bool, list[str]]:
    """Run a workload up to a cut and check what is found; the flag says that the workload ended before it."""
    random = Random(seed)
    vfs = FaultyVfs(f"faulty-{next(NAMES)}", Random(seed * 7919 + cut_at), cut_at)
    history = History()
    with suppress(SpoolFailed, apsw.Error, PowerIsOff):
        workload(directory, vfs, random, history, dict(settings))
    ended = not vfs.off
    if ended:
        vfs.cut()
    vfs.restore()
    (directory / FAILED).unlink(missing_ok=True)
    return ended, check(directory, history)


def check(directory: Path, history: History) -> list[str]:
    with BlockingSpool(directory) as spool:
        found = drain(spool)
        return history.problems(found, damaged=spool.stats().damaged)


def sweep(
    tmp_path: Path, workload: Workload, *, seed: int, step: int, settings: dict[str, Any] | None = None
) -> list[str]:
    """Cut at every ``step``-th operation until the workload ends before the cut; return the first problems."""
    for cut_at in itertools.count(1 + seed % step, step):
        directory = tmp_path / f"{seed}-{cut_at}"
        ended, problems = cut(directory, workload, seed, cut_at, settings or {})
        if problems:
            return [f"seed {seed}, cut at {cut_at}: {problem}" for problem in problems]
        if ended:
            return []
    return []


@pytest.mark.parametrize("workload", [blocking, concurrent])
@pytest.mark.parametrize("seed", range(2))
def test_nothing_acknowledged_is_lost(tmp_path: Path, workload: Workload, seed: int) -> None:
    assert sweep(tmp_path, workload, seed=seed, step=23) == []


@pytest.mark.proof
@pytest.mark.parametrize("workload", [blocking, concurrent])
@pytest.mark.parametrize("seed", range(30))
def test_nothing_acknowledged_is_lost_at_length(tmp_path: Path, workload: Workload, seed: int) -> None:
    assert sweep(tmp_path, workload, seed=seed, step=3) == []


@pytest.mark.parametrize("settles", [False, True])
async def test_an_ack_without_an_fsync_is_lost_at_most_until_it_is_settled(tmp_path: Path, settles: bool) -> None:
    vfs = FaultyVfs(f"faulty-{next(NAMES)}", Random(0), cut_at=-1)
    spool = await AsyncSpool.open(tmp_path / "spool", Options(vfs=vfs.name))
    await spool.append([record(0), record(1)])
    spool.ack("send", await spool.claim("send", 1, LANES[0]))
    await spool.settle()
    spool.ack("send", await spool.claim("send", 1, LANES[1]), synced=False)
    await asyncio.sleep(2 * LINGER)
    assert not spool._engine.gathered.pending
    assert any(disk.pending for disk in vfs.disks.values())
    if settles:
        await asyncio.wait_for(spool.settle(), 5)
    for disk in vfs.disks.values():
        disk.pending.clear()  # the power goes, with all that was not synced
    vfs.cut()
    spool._engine.crash()
    vfs.restore()
    with BlockingSpool(tmp_path / "spool") as found:
        assert drain(found) == ([] if settles else [1])
        assert found.stats().damaged == 0
