"""A transport on real clusters, and somebody else's connection to them."""

from __future__ import annotations

import asyncio
import itertools
import os
import random
import time
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

import aio_pika

from bus.clock import SystemClock
from bus.domain.destination import Destination
from bus.domain.message import Message
from bus.domain.subscription import Subscription
from bus.errors import TransportUnavailable
from bus.ports.clock import Clock
from bus.ports.transport import Consumer, IncomingMessage, OutgoingMessage
from bus.testing.quarantine import MemoryQuarantine
from bus.testing.writes import message
from bus.transports.rabbitmq import Patience, RabbitmqConfig, RabbitmqTransport, parse_cluster
from bus.transports.rabbitmq.names import Lane, exchange_of, queue_of

# Looks and repairs come often; a deadline passes only where nobody answers, not where the machine is slow.
QUICK = Patience(
    connect=10.0,
    answer=10.0,
    confirm=10.0,
    probe_every=0.2,
    poll_every=0.1,
    repair_every=0.1,
    longest_backoff=0.5,
    close=10.0,
    well_for=1.0,
    spared=0.5,
    forget_after=1.0,
)
# For tests of the deadlines themselves: a machine that stalls for that long makes them publish again, not fail.
HASTY = QUICK._replace(answer=3.0, confirm=3.0)
# How much longer than its deadline a slow machine may take, and how long it may take for what should be done at once.
SLACK = 15.0
LONG = 60.0
_codes = itertools.count()


def new_code() -> str:
    """Return a destination that no other test uses."""
    return f"test.{os.getpid()}.{next(_codes)}"


class World:
    """A running transport and the destination of one test."""

    def __init__(self, urls: Sequence[str], patience: Patience, clock: Clock) -> None:
        config = RabbitmqConfig(*(parse_cluster(url, "test") for url in urls))._replace(patience=patience)
        self.code = new_code()
        self.quarantine = MemoryQuarantine()
        self.transport = RabbitmqTransport(config, self.quarantine, clock, random.Random(1).random)
        self._numbers = itertools.count()
        self._ensured: set[str] = set()

    @property
    def lane(self) -> Lane:
        return Lane(self.code, "billing")

    @property
    def queue(self) -> str:
        return queue_of(self.lane)

    def queue_of(self, name: str) -> str:
        return queue_of(Lane(self.code, name))

    @property
    def exchange(self) -> str:
        return exchange_of(self.code)

    def messages(self, count: int, **changes: Any) -> list[Message]:
        """Return messages that no other test sends; the biz id tells their order."""
        return [
            message(n, **{"destination": self.code, "id": f"{self.code}-{n}", **changes})
            for n in itertools.islice(self._numbers, count)
        ]

    async def ensure(self, *names: str, pattern: str = "#") -> None:
        subscriptions = [
            Subscription(destination=self.code, name=name, url="http://subscriber/hook", routing_pattern=pattern)
            for name in names
        ]
        self._ensured.update(names)
        await self.transport.ensure(Destination(code=self.code), subscriptions)

    async def publish(self, *messages: Message) -> list[bool]:
        return await self.transport.publish([OutgoingMessage(one, b"") for one in messages])

    async def consume(self, name: str = "billing") -> Consumer:
        return await self.transport.consume(self.code, name)

    async def clean_up(self) -> None:
        if self._ensured:
            await eventually(lambda: not all(self.transport.conditions().values()), what="a cluster is well")
        for name in self._ensured:
            await self._remove(name)

    async def _remove(self, name: str) -> None:
        """Remove a queue, again and again while the broker is busy, as the bus does."""
        async with asyncio.timeout(LONG):
            while True:
                with suppress(TransportUnavailable):
                    return await self.transport.remove(self.code, name)


@asynccontextmanager
async def world(
    *urls: str, patience: Patience = QUICK, tidy: bool = True, clock: Clock | None = None
) -> AsyncIterator[World]:
    """Run a transport on one or two clusters; ``tidy`` removes its queues, for which a cluster must answer."""
    found = World(urls, patience, clock or SystemClock())
    running = asyncio.create_task(found.transport.run())
    try:
        yield found
        if tidy:
            await found.clean_up()
    finally:
        running.cancel()
        await asyncio.wait([running])
        await found.transport.close()


async def receive(consumer: Consumer, count: int, *, within: float = LONG) -> list[IncomingMessage]:
    """Receive exactly so many messages, with a deadline."""
    found: list[IncomingMessage] = []
    async with asyncio.timeout(within):
        while len(found) < count:
            found += await consumer.receive(count - len(found))
    return found


async def drain(found: World, consumer: Consumer, expected: Iterable[str], *, within: float = LONG) -> list[str]:
    """Receive and ack until all that is expected came and the transport holds nothing more; return the ids that came.

    What has not come in time is missing in the result.
    """
    received: list[str] = []
    missing = {*expected}
    with suppress(TimeoutError):
        async with asyncio.timeout(within):
            while missing or (found.transport.lags() or {}).get(found.lane) != (0, None):
                with suppress(TimeoutError):
                    async with asyncio.timeout(0.1):
                        incoming = await consumer.receive(500)
                        received += ids(incoming)
                        missing.difference_update(ids(incoming))
                        consumer.ack(incoming)
    return received


async def nothing_comes(consumer: Consumer, *, within: float = 0.5) -> bool:
    try:
        async with asyncio.timeout(within):
            await consumer.receive(1)
    except TimeoutError:
        return True
    return False


async def eventually(check: Callable[[], object], *, within: float = LONG, what: str = "") -> float:
    """Wait until something is true and return after how many seconds it was."""
    started = time.monotonic()
    while not check():
        assert time.monotonic() - started < within, f"not within {within:g} s: {what}"
        await asyncio.sleep(0.01)
    return time.monotonic() - started


async def confirmed(found: World, *messages: Message, within: float = LONG) -> int:
    """Publish until all are confirmed, as the receiver does; return how many rounds it took."""
    waiting, rounds = list(messages), 0
    async with asyncio.timeout(within):
        while waiting:
            rounds += 1
            results = await found.publish(*waiting)
            waiting = [one for one, done in zip(waiting, results, strict=True) if not done]
            await asyncio.sleep(0.05 if waiting else 0)
    return rounds


@asynccontextmanager
async def somebody_else(url: str) -> AsyncIterator[aio_pika.abc.AbstractChannel]:
    """Give a channel of a connection that is not the transport's."""
    connection = await aio_pika.connect(url, timeout=5)
    try:
        yield await connection.channel()
    finally:
        await connection.close()


def ids(found: Sequence[IncomingMessage] | Sequence[Message]) -> list[str]:
    return [one.message.id if isinstance(one, IncomingMessage) else one.id for one in found]
