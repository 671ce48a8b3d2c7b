"""A disk that is full: refused clearly, nothing lost, and all is well when there is room again."""

from __future__ import annotations

import asyncio
import itertools
from pathlib import Path

import pytest

from bus.errors import SpoolFull
from bus.spool import AsyncSpool, BlockingSpool
from tests.harness.loop_disk import MIB, loop_disk
from tests.integration.spool.history import drain, number_of, record

SIZE = 30_000


def fill(spool: BlockingSpool, first: int, size: int = SIZE) -> int:
    """Append until the disk is full; return the number of the record that was refused."""
    batch = max(1, 3000 // size)
    for number in itertools.count(first, batch):
        try:
            spool.append([record(number + more, size) for more in range(batch)])
        except SpoolFull:
            return number
    raise AssertionError


async def fill_async(spool: AsyncSpool) -> int:
    for number in itertools.count():
        try:
            await spool.append([record(number, SIZE)])
        except SpoolFull:
            return number
    raise AssertionError


def test_a_full_disk_refuses_and_recovers(tmp_path: Path) -> None:
    with loop_disk(tmp_path, 24 * MIB) as disk:
        ballast = disk.path / "ballast"
        ballast.write_bytes(bytes(6 << 20))
        spool = BlockingSpool(disk.path / "spool")
        refused = fill(spool, 0)
        assert refused > 50
        held = spool.claim("send", 5, "a")
        spool.ack("send", held[:3])
        with pytest.raises(SpoolFull):
            spool.append([record(refused, SIZE)])
        assert spool.stats().records == refused - 3
        spool._engine.crash()
        spool = BlockingSpool(disk.path / "spool")  # opening needs no room
        with pytest.raises(SpoolFull):
            spool.append([record(refused, SIZE)])
        ballast.unlink()
        spool.append([record(refused, SIZE)])
        acked = {number_of(found.payload) for found in held[:3]}
        expected = set(range(refused + 1))
        assert expected - acked <= set(drain(spool)) <= expected
        assert fill(spool, 1000) > 1100
        spool.close()


@pytest.mark.parametrize("size", [pytest.param(3000, marks=pytest.mark.proof), SIZE])
def test_a_full_disk_can_be_drained(tmp_path: Path, size: int) -> None:
    with loop_disk(tmp_path, 24 * MIB) as disk, BlockingSpool(disk.path / "spool") as spool:
        stored = fill(spool, 0, size)
        assert sorted(drain(spool)) == list(range(stored))
        assert spool.stats().records == 0
        assert fill(spool, stored, size) > 1.5 * stored


def test_acks_wait_for_room(tmp_path: Path) -> None:
    async def work() -> None:
        ballast = disk.path / "ballast"
        ballast.write_bytes(bytes(6 << 20))
        async with await AsyncSpool.open(disk.path / "spool") as spool:
            number = await fill_async(spool)
            spool.ack("send", await spool.claim("send", 10, "a"))
            with pytest.raises(SpoolFull):
                await asyncio.gather(*[spool.append([record(number + extra, SIZE)]) for extra in range(9)])
            ballast.unlink()
            await spool.settle()
            assert spool.stats().records == number - 10
            await spool.append([record(number, SIZE)])
        async with await AsyncSpool.open(disk.path / "spool") as spool:
            assert spool.stats().records == number - 9

    with loop_disk(tmp_path, 24 * MIB) as disk:
        asyncio.run(work())
