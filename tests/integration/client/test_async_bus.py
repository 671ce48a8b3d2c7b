"""The SDK for event loops."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bus import AsyncBus, InvalidDestination, SpoolFull
from bus.client.spooling.home import homes
from bus.client.sync import Bus
from bus.errors import SpoolClosed
from tests.integration.client.fake_receiver import FakeReceiver


@pytest.fixture
def receiver() -> Iterator[FakeReceiver]:
    with FakeReceiver() as made:
        yield made


async def test_many_tasks_share_commits(
    receiver: FakeReceiver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []
    store = Bus.store

    def counted(self: Bus, records: list[Any]) -> None:
        sizes.append(len(records))
        store(self, records)

    monkeypatch.setattr(Bus, "store", counted)
    async with AsyncBus(receiver.url, spool=tmp_path, source="loop") as bus:
        ids = await asyncio.gather(*(bus.send("a", n, key=str(n), routing_key="eu") for n in range(500)))
        assert await bus.flush(60)
        assert (bus.pending, bus.rejected) == (0, 0)
    assert set(ids) == receiver.ids()
    assert len(receiver.taken) == 500
    assert {line["routing_key"] for line in receiver.taken} == {"eu"}
    assert len(sizes) < 50
    assert homes(tmp_path) == []


async def test_the_loop_is_never_blocked_by_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gate = threading.Event()
    store = Bus.store

    def slow(self: Bus, records: list[Any]) -> None:
        gate.wait()
        store(self, records)

    monkeypatch.setattr(Bus, "store", slow)
    async with AsyncBus("http://127.0.0.1:9", spool=tmp_path) as bus:
        sending = asyncio.create_task(bus.send("a", 1))
        for _ in range(100):
            await asyncio.sleep(0)
        assert not sending.done()
        gate.set()
        await sending
        begin = time.monotonic()
        assert not await bus.flush(0.1)
        assert time.monotonic() - begin < 20
        assert bus.pending == 1


async def test_cancelling_one_send_leaves_the_others(receiver: FakeReceiver, tmp_path: Path) -> None:
    async with AsyncBus(receiver.url, spool=tmp_path) as bus:
        tasks = [asyncio.create_task(bus.send("a", n)) for n in range(50)]
        await asyncio.sleep(0)
        for task in tasks[::2]:
            task.cancel()
        found = await asyncio.gather(*tasks, return_exceptions=True)
        kept = {given for given in found if isinstance(given, str)}
        assert len(kept) >= 25
        assert await bus.flush(60)
        assert kept <= receiver.ids()
        flushing = asyncio.create_task(bus.flush())
        flushing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await flushing


async def test_errors_reach_the_task_that_caused_them(tmp_path: Path) -> None:
    async with AsyncBus("http://127.0.0.1:9", spool=tmp_path, spool_limit=50_000) as bus:
        with pytest.raises(InvalidDestination):
            await bus.send("a/b", 1)
        found = await asyncio.gather(*(bus.send("a", b"x" * 3000) for _ in range(20)), return_exceptions=True)
        full = [error for error in found if isinstance(error, SpoolFull)]
        stored = [given for given in found if isinstance(given, str)]
        assert len(full) + len(stored) == 20
        assert full
        assert bus.pending == len(stored) > 5
        assert len({id(error) for error in full}) == len(full)


async def test_a_closed_bus_says_so(receiver: FakeReceiver, tmp_path: Path) -> None:
    bus = AsyncBus(receiver.url, spool=tmp_path)
    assert await bus.flush()
    await bus.start()
    sending = [asyncio.create_task(bus.send("a", n)) for n in range(10)]
    await asyncio.sleep(0)
    await bus.close()
    assert len(await asyncio.gather(*sending)) == 10
    await bus.close()
    with pytest.raises(SpoolClosed):
        await bus.send("a", 1)


def test_one_bus_serves_one_loop_after_another(receiver: FakeReceiver, tmp_path: Path) -> None:
    bus = AsyncBus(receiver.url, spool=tmp_path)
    ids = {asyncio.run(bus.send("a", n)) for n in range(3)}
    assert asyncio.run(bus.flush(60))
    asyncio.run(bus.close())
    assert ids == receiver.ids()
