"""One contract for all spools."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bus.spool import AsyncSpool, BlockingSpool, Journal, Options, SectionOptions
from bus.testing.contracts.spool import LIMIT, SpoolContract, new, payloads
from bus.testing.spool import MemorySpool
from tests.contract.threaded import Threaded


class Telling:
    """Notes that it was told."""

    def __init__(self, told: list[str], name: str) -> None:
        self._told = told
        self._name = name

    def done(self) -> bool:
        return False

    def set_result(self, _: list[int], /) -> None:
        self._told.append(self._name)

    def set_exception(self, error: Exception, /) -> None:
        raise error


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

    async def test_of_a_commit_waiters_are_told_before_consumers_are_woken(self, spool: AsyncSpool) -> None:
        told: list[str] = []
        woken = asyncio.create_task(spool.wait("send", "a"))
        woken.add_done_callback(lambda _: told.append("consumer"))
        for name in ("first", "second"):
            spool.append_with([new(b"")], Telling(told, name))
        await woken
        await asyncio.sleep(0)
        assert told == ["first", "second", "consumer"]

    async def test_what_lingers_shares_the_commit_of_others_or_has_one_of_its_own_soon(self, spool: AsyncSpool) -> None:
        first, second = (asyncio.get_running_loop().create_future() for _ in range(2))
        spool.append_with([new(b"1")], first, lingers=True)
        await asyncio.sleep(0)
        assert not first.done()
        await spool.append([new(b"2")])
        assert first.done()
        spool.append_with([new(b"3")], second, lingers=True)
        async with asyncio.timeout(5):
            assert [*await first, *await second] == sorted([*await first, *await second])
        assert payloads(await spool.claim("send", 9, "a")) == [b"1", b"2", b"3"]


class TestSectionOfAJournal(SpoolContract):
    """A section beside another one in the same file, with the same lane, which keeps its record throughout."""

    @pytest.fixture(params=["cached", "uncached"])
    async def spool(self, tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[AsyncSpool]:
        cache = 0 if request.param == "uncached" else 1 << 20
        sections = {"one": SectionOptions(("send",), LIMIT), "other": SectionOptions(("send", "store"), 1 << 20)}
        journal = await Journal.open(tmp_path, Options(sections=sections, cache_bytes=cache))
        other = journal.sections["other"]
        await other.append([new(b"neighbour", "a")])
        yield journal.sections["one"]
        if not journal.is_closed:
            assert [found.records for found in other.stats().consumers] == [1, 1]
            (record,) = await other.claim("send", 9, "a")
            assert record.payload == b"neighbour"
        await journal.close()


class TestBlockingSpool(SpoolContract):
    @pytest.fixture
    async def spool(self, tmp_path: Path) -> AsyncIterator[Threaded]:
        with BlockingSpool(tmp_path, Options(limit=LIMIT)) as spool:
            yield Threaded(spool)
