"""One contract, three spools."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bus.spool import AsyncSpool, BlockingSpool, Options
from bus.testing.contracts.spool import LIMIT, SpoolContract, new
from bus.testing.spool import MemorySpool
from tests.contract.threaded import Threaded


class TestMemorySpool(SpoolContract):
    @pytest.fixture
    async def spool(self) -> AsyncIterator[MemorySpool]:
        spool = MemorySpool(limit=LIMIT)
        yield spool
        await spool.close()


class TestAsyncSpool(SpoolContract):
    @pytest.fixture(params=["cached", "uncached"])
    async def spool(self, tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[AsyncSpool]:
        cache = 0 if request.param == "uncached" else 1 << 20
        async with await AsyncSpool.open(tmp_path, Options(limit=LIMIT, cache_bytes=cache)) as spool:
            yield spool

    async def test_room_counts_what_is_being_appended(self, spool: AsyncSpool) -> None:
        for rounds in range(1, 4):
            appending = [asyncio.ensure_future(spool.append([new(bytes(1000))])) for _ in range(3)]
            await asyncio.sleep(0)
            assert spool.room("a").held == spool.room("a").total >= rounds * 3000
            await asyncio.gather(*appending)
            assert spool.room("a").held == spool.stats().bytes >= rounds * 3000


class TestBlockingSpool(SpoolContract):
    @pytest.fixture
    async def spool(self, tmp_path: Path) -> AsyncIterator[Threaded]:
        with BlockingSpool(tmp_path, Options(limit=LIMIT)) as spool:
            yield Threaded(spool)
