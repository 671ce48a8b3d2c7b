"""One contract, three spools."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from bus.spool import AsyncSpool, BlockingSpool
from bus.testing.contracts.spool import LIMIT, SpoolContract
from bus.testing.spool import MemorySpool
from tests.contract.threaded import Threaded

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path


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
        async with await AsyncSpool.open(tmp_path, limit=LIMIT, cache_bytes=cache) as spool:
            yield spool


class TestBlockingSpool(SpoolContract):
    @pytest.fixture
    async def spool(self, tmp_path: Path) -> AsyncIterator[Threaded]:
        with BlockingSpool(tmp_path, limit=LIMIT) as spool:
            yield Threaded(spool)
