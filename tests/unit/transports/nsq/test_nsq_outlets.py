"""Publishing to partitions, each against a peer that follows a script."""

from __future__ import annotations

import asyncio
import logging
import struct
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager

import pytest

from bus.clock import SystemClock
from bus.domain.message import encode_message
from bus.ports.clock import Clock
from bus.ports.transport import OutgoingMessage
from bus.testing.clock import ManualClock
from bus.testing.writes import message
from bus.transports.nsq.config import Address
from bus.transports.nsq.partitions.layout import Layout, Place
from bus.transports.nsq.partitions.outlet import Outlet, Outlets
from bus.transports.nsq.partitions.publisher import PartitionPublisher
from bus.transports.nsq.topology import Topology
from tests.harness.process import free_port
from tests.harness.waiting import until
from tests.unit.transports.nsq.partition_nodes import PartitionNodes, dependencies
from tests.unit.transports.nsq.scripted_peer import Script, frame, identified, next_line, peer

TOPIC = "orders"
OUTLET = "bus.transports.nsq.partitions.outlet"


def taking(answer: Callable[[str], bytes | None], commands: list[str] | None = None) -> Script:
    """Agree, and answer each publish, whose line is given."""

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await identified(reader)
        writer.write(frame(b"{}"))
        while line := (await next_line(reader)).decode().strip():
            await reader.readexactly(int.from_bytes(await reader.readexactly(4)))
            if commands is not None:
                commands.append(line)
            if found := answer(line):
                writer.write(found)

    return script


async def silent(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
    await reader.read()


@asynccontextmanager
async def outlet_to(address: Address, clock: Clock, **changes: float) -> AsyncIterator[Outlet]:
    place = Place(address, 4151)
    nodes = PartitionNodes({TOPIC: {0: place}})
    outlets = Outlets(dependencies(nodes, Topology(), clock, **changes))
    running = asyncio.create_task(outlets.run())
    await asyncio.sleep(0)
    try:
        yield outlets.of(TOPIC, 0, place)
    finally:
        running.cancel()
        await asyncio.wait([running])
        await outlets.close()


async def test_only_the_first_messages_wait_for_an_nsqd_that_hangs() -> None:
    async with peer(silent) as address, outlet_to(address, SystemClock(), timeout=600.0) as outlet:
        began = time.monotonic()
        for _ in range(20):
            assert await outlet.publish({1: b"one"}, {}) == []
        assert time.monotonic() - began < 5.0


async def test_a_partition_that_refuses_is_told_of_and_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, OUTLET)
    clock, answers = ManualClock(), [frame(b"E_PUB_FAILED write of the log failed", 1)]
    async with peer(taking(lambda _: answers[0])) as address, outlet_to(address, clock) as outlet:
        assert outlet.trouble == ""
        for _ in range(5):
            assert await outlet.publish({1: b"one"}, {}) == []
            await clock.advance(6.0)
            await until(lambda: outlet._connection, within=5.0, what="it is connected to again")
        said = f"partition 0 at nsqd {address} takes no messages: E_PUB_FAILED write of the log failed"
        assert str(outlet.trouble) == f"{said}; messages of its keys wait"
        answers[0] = frame(b"OK")
        assert await outlet.publish({1: b"one"}, {}) == [1]
        assert outlet.trouble == ""
    told = [record.getMessage() for record in caplog.records]
    assert told == [
        f"partition 0 of orders at nsqd {address}: E_PUB_FAILED write of the log failed",
        f"partition 0 of orders at nsqd {address} takes messages",
    ]


async def test_a_partition_that_nobody_tries_any_more_is_not_told_of() -> None:
    clock = ManualClock()
    async with peer(taking(lambda _: frame(b"E_PUB_FAILED", 1))) as address, outlet_to(address, clock) as outlet:
        await outlet.publish({1: b"one"}, {})
        assert outlet.trouble
        await clock.advance(31.0)
        assert outlet.trouble == ""


async def test_a_message_that_fits_only_without_its_trace_id_goes_without(caplog: pytest.LogCaptureFixture) -> None:
    said: list[str] = []
    traced = b"OK" + struct.pack(">QQQI", 1, 7, 0, 60)
    script = taking(lambda line: frame(traced if line.startswith("PUB_TRACE") else b"OK"), said)
    bodies = {index: b"x" * size for index, size in enumerate((1016, 1017, 1024, 1025))}
    async with peer(script) as address, outlet_to(address, ManualClock()) as outlet:
        assert await outlet.publish(bodies, dict.fromkeys(bodies, 7)) == [0, 1, 2]
    assert said == ["PUB_TRACE orders 0", "MPUB orders 0", "MPUB orders 0"]
    told = "with its trace id 7 a message is larger than nsqd takes, and goes without"
    assert [told in record.getMessage() for record in caplog.records] == [True, True]


class _Known:
    """Partitions that are all open."""

    def __init__(self, places: Mapping[int, Place]) -> None:
        self._places = places

    def layout(self, _topic: str) -> Layout:
        return Layout(readable=self._places, writable=self._places, count=len(self._places))

    def open_partitions(self, _topic: str) -> Mapping[int, Place]:
        return self._places


async def test_what_is_too_large_is_told_though_an_nsqd_is_away(caplog: pytest.LogCaptureFixture) -> None:
    async with peer(taking(lambda _: frame(b"OK"))) as address:
        places = {0: Place(Address("127.0.0.1", free_port()), 4151), 1: Place(address, 4152)}
        parts = dependencies(PartitionNodes({TOPIC: places}), Topology())
        publisher = PartitionPublisher(_Known(places), parts)
        running = asyncio.create_task(publisher.run())
        await asyncio.sleep(0)
        large = message(1, destination=TOPIC, body=b"x" * 2000, key="")
        assert await publisher.publish(TOPIC, {0: OutgoingMessage(large, encode_message(large))}) == set()
        running.cancel()
        await asyncio.wait([running])
        await publisher.close()
    assert "is larger than nsqd takes" in caplog.text
