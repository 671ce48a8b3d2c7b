"""A group on a real cluster of three nodes, and the strictly ordered destination of one test."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from bus.clock import SystemClock
from bus.domain.destination import Destination, Ordering
from bus.domain.message import Message
from bus.domain.subscription import Subscription
from bus.errors import TransportUnavailable
from bus.ports.broker_group import GroupReader, GroupStatus, GroupWriter
from bus.testing.contracts.broker_group import eventually
from bus.testing.quarantine import MemoryQuarantine
from bus.testing.writes import message
from bus.transports.rabbitmq import Patience, parse_cluster
from bus.transports.rabbitmq.names import Lane
from bus.transports.rabbitmq.strict import PATIENCE, RabbitmqGroup
from bus.transports.rabbitmq.strict.names import queue_of
from tests.harness.waiting import until
from tests.integration.rabbitmq.rabbitmq_world import new_code
from tests.servers.rabbitmq import RabbitmqServer
from tests.servers.rabbitmq_cluster import RabbitmqCluster

# Who is paused is missed within seconds; a machine that stalls for as long has a test ask again, not fail.
QUICK = PATIENCE._replace(
    connect=2.0, answer=2.0, confirm=2.0, probe_every=0.2, poll_every=0.1, repair_every=0.1, longest_backoff=0.5
)
LONG = 60.0
WHOLE = GroupStatus(is_whole=True, is_empty=False)
WHOLE_AND_EMPTY = GroupStatus(is_whole=True, is_empty=True)


class GroupWorld:
    """A running group and what a test asks of it."""

    def __init__(self, cluster: RabbitmqCluster, patience: Patience, code: str) -> None:
        self.code = code
        self.cluster = cluster
        self.quarantine = MemoryQuarantine()
        url = parse_cluster(cluster.url, "test")
        self.group = RabbitmqGroup("a", url, self.quarantine, SystemClock(), random.Random(1).random, patience)
        self._numbers = itertools.count()

    @property
    def queue(self) -> str:
        return queue_of(Lane(self.code, "billing"))

    def messages(self, count: int) -> list[Message]:
        """Return messages whose ids are their numbers."""
        return [message(n, destination=self.code, id=f"{n}") for n in itertools.islice(self._numbers, count)]

    async def ensure(self, *names: str, pattern: str = "#") -> None:
        """Make queues, again and again while a node is not back yet."""
        subscriptions = [
            Subscription(destination=self.code, name=name, url="http://subscriber/hook", routing_pattern=pattern)
            for name in names or ("billing",)
        ]
        async with asyncio.timeout(LONG):
            while True:
                try:
                    return await self.group.ensure(Destination(code=self.code, ordering=Ordering.STRICT), subscriptions)
                except TransportUnavailable:
                    await asyncio.sleep(0.1)

    async def writer(self) -> GroupWriter:
        """Return a writer, as soon as the group gives one."""
        async with asyncio.timeout(LONG):
            while True:
                try:
                    return await self.group.writer(self.code)
                except TransportUnavailable:
                    await asyncio.sleep(0.1)

    async def reader(self) -> GroupReader:
        return await self.group.reader(self.code, "billing")

    async def standing(self) -> GroupStatus:
        return await self.group.standing(self.code, ["billing"])

    async def stands(self, wanted: GroupStatus) -> None:
        """Wait until the group stands so."""

        async def stands() -> bool:
            return await self.standing() == wanted

        await eventually(stands)

    async def remembered(self) -> None:
        """Wait until each node would find its copy of the queue after a SIGKILL."""
        for node in self.cluster.nodes:
            await until(lambda node=node: node.remembers(self.queue), what="the queue is on disk")

    async def leader(self) -> RabbitmqServer:
        """Return the node that leads the queue."""
        async with asyncio.timeout(LONG):
            while True:
                for node in self.cluster.nodes:
                    if node.child.running and await asyncio.to_thread(_leads, node, self.queue):
                        return node
                await asyncio.sleep(0.05)


@asynccontextmanager
async def group_world(
    cluster: RabbitmqCluster, *, patience: Patience = QUICK, code: str = ""
) -> AsyncIterator[GroupWorld]:
    """Run a group; the destination is a new one unless it is given."""
    found = GroupWorld(cluster, patience, code or new_code())
    running = asyncio.create_task(found.group.run())
    try:
        yield found
    finally:
        running.cancel()
        await asyncio.wait([running])
        await found.group.close()


async def read(reader: GroupReader, count: int) -> list[str]:
    """Receive and ack so many messages, one after another; return their ids."""
    found: list[str] = []
    async with asyncio.timeout(LONG):
        while len(found) < count:
            incoming = await reader.receive(1)
            reader.ack(incoming)
            found += ids(incoming)
    return found


async def read_all(world: GroupWorld, reader: GroupReader) -> list[str]:
    """Receive and ack until the reader is drained; return the ids, each where it came first."""
    found: list[str] = []
    async with asyncio.timeout(LONG):
        while True:
            try:
                async with asyncio.timeout(0.2):
                    incoming = await reader.receive(10)
            except TimeoutError:
                if await reader.is_drained():
                    return list(dict.fromkeys(found))
            else:
                reader.ack(incoming)
                found += ids(incoming)


def ids(found: Sequence[object]) -> list[str]:
    """Return the ids of messages, or of what came with one."""
    return [getattr(one, "message", one).id for one in found]


def _leads(node: RabbitmqServer, queue: str) -> bool:
    try:
        node.eval(f"{{ok, _, {{_, L}}}} = ra:members({{'%2F_{queue}', node()}}, 1000), true = L =:= node(), ok")
    except AssertionError:
        return False
    return True
