"""The buffer of a consumer of one partition, against peers that follow a script."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from bus.clock import SystemClock
from bus.transports.nsq.buffer import InFlightMessage, NodeBuffer, State
from bus.transports.nsq.protocol import commands
from bus.transports.nsq.source import Source
from bus.transports.nsq.topology import Lane, Topology
from tests.harness.waiting import until
from tests.unit.transports.nsq.partition_nodes import PartitionNodes, dependencies
from tests.unit.transports.nsq.scripted_peer import Script, frame, identified, next_line, peer

ID = b"0123456789abcdef"


def delivery(attempts: int, published: int = 1) -> bytes:
    return frame(struct.pack(">qH", published, attempts) + ID + b"body", 2)


class Owner:
    """Takes what comes, and lets one message be in flight."""

    idle = False

    def __init__(self) -> None:
        self.got: list[InFlightMessage] = []
        self.buffer: NodeBuffer | None = None

    def arrived(self, messages: list[InFlightMessage]) -> None:
        self.got += messages

    def reconsider(self) -> None:
        if self.buffer is not None:
            self.buffer.allow(1)

    def rest(self) -> None:
        pass


def leading(heard: list[bytes], *deliveries: bytes) -> Script:
    """Lead a partition: send deliveries once somebody is ready, and write down what is said then."""

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await identified(reader)
        writer.write(frame(b"{}"))
        assert (await next_line(reader)).startswith(b"SUB ")
        writer.write(frame(b"OK"))
        assert await next_line(reader) == b"RDY 1\n"
        writer.write(b"".join(deliveries))
        while line := await next_line(reader):
            heard.append(line)

    return script


@asynccontextmanager
async def reading(source: Source) -> AsyncIterator[tuple[NodeBuffer, Owner]]:
    owner = Owner()
    parts = dependencies(PartitionNodes({}), Topology(), SystemClock())
    buffer = owner.buffer = NodeBuffer(source, Lane("orders", "billing"), owner, parts)
    running = asyncio.create_task(buffer.run())
    try:
        yield buffer, owner
    finally:
        running.cancel()
        await asyncio.wait([running])


async def test_what_is_finished_while_a_partition_moves_does_not_come_twice() -> None:
    before: list[bytes] = []
    after: list[bytes] = []
    async with (
        peer(leading(before, delivery(1))) as old,
        peer(leading(after, delivery(2), delivery(1, 2))) as new,
        reading(Source(old, 0)) as (buffer, owner),
    ):
        await until(lambda: owner.got, within=5.0, what="it comes")
        owner.got[0].state = State.TAKEN
        buffer.turn(Source(new, 0))
        buffer.finish(owner.got)
        await until(lambda: len(owner.got) == 2, within=5.0, what="another message with its id comes")
        await until(lambda: after, within=5.0, what="the first one is finished")
    assert owner.got[1].payload[:8] == struct.pack(">q", 2)
    assert (before, after[0]) == ([], commands.fin(ID))
