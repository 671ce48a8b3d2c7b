"""Helpers for tests of NSQ: an open transport, numbered messages, and waits for conditions."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from bus.clock import SystemClock
from bus.domain.destination import Destination
from bus.domain.message import encode_message
from bus.domain.subscription import Subscription
from bus.ports.clock import Clock
from bus.ports.transport import Consumer, IncomingMessage, OutgoingMessage
from bus.testing.quarantine import MemoryQuarantine
from bus.testing.writes import message
from bus.transports.nsq import NsqConfig, NsqTransport, parse_lookupd, parse_nsqd
from tests.servers.nsq import NsqdServer, NsqLookupServer

PATIENCE = 60.0


def config(nsqds: Iterable[NsqdServer] = (), lookupds: Iterable[NsqLookupServer] = (), **changes: Any) -> NsqConfig:
    """Return settings that notice everything soon."""
    quick = {"heartbeat": 2.0, "timeout": 4.0, "msg_timeout": 2.0, "lookup_interval": 0.2, "stats_interval": 0.1}
    return NsqConfig(
        nsqd=parse_nsqd(",".join(nsqd.place for nsqd in nsqds)),
        lookupd=parse_lookupd(",".join(lookupd.http for lookupd in lookupds)),
        **quick | changes,
    )


@asynccontextmanager
async def opened(
    settings: NsqConfig, shelf: MemoryQuarantine | None = None, clock: Clock | None = None
) -> AsyncIterator[NsqTransport]:
    """Give a transport that runs."""
    transport = NsqTransport(settings, shelf or MemoryQuarantine(), clock or SystemClock(), lambda: 0.5)
    running = asyncio.create_task(transport.run())
    try:
        yield transport
    finally:
        ended_by_itself = running.done()
        running.cancel()
        await asyncio.wait([running])
        await transport.close()
    assert not ended_by_itself, running


def subscribed(code: str, *names: str) -> tuple[Destination, list[Subscription]]:
    """Return what ``ensure`` takes."""
    return Destination(code=code), [Subscription(destination=code, name=name, url="http://s/hook") for name in names]


def outgoing(code: str, numbers: Iterable[int], body: bytes = b"") -> list[OutgoingMessage]:
    """Return messages whose biz ids tell them apart."""
    messages = [message(n, destination=code, body=body or b"body %d" % n) for n in numbers]
    return [OutgoingMessage(one, encode_message(one)) for one in messages]


async def publish(transport: NsqTransport, code: str, numbers: Iterable[int]) -> None:
    """Publish as the receiver does: again and again until everything is confirmed."""
    batch = outgoing(code, numbers)
    async with asyncio.timeout(PATIENCE):
        while batch := await _unconfirmed(transport, batch):  # noqa: ASYNC110 - an answer, not an event
            await asyncio.sleep(0.05)  # as long as the receiver waits at first


async def _unconfirmed(transport: NsqTransport, batch: Sequence[OutgoingMessage]) -> list[OutgoingMessage]:
    confirmed = await transport.publish(batch)
    return [item for item, done in zip(batch, confirmed, strict=True) if not done]


async def receive(consumer: Consumer, count: int, *, limit: int = 100, ack: bool = True) -> list[IncomingMessage]:
    """Receive until there are so many different messages, with a deadline."""
    found: list[IncomingMessage] = []
    async with asyncio.timeout(PATIENCE):
        while len(set(numbers(found))) < count:
            items = await consumer.receive(limit)
            found += items
            if ack:
                consumer.ack(items)
    return found


def numbers(incoming: Iterable[IncomingMessage]) -> list[int]:
    """Return the numbers that ``outgoing`` gave."""
    return [int(item.message.biz_id.removeprefix("order-")) for item in incoming]


def source(item: IncomingMessage) -> str:
    """Return the nsqd that a message came from."""
    return str(item.token.buffer.address)


async def eventually(check: Callable[[], object], within: float = PATIENCE) -> None:
    """Wait for a condition with a deadline."""
    async with asyncio.timeout(within):
        while not check():  # noqa: ASYNC110 - servers tell nobody when something changed
            await asyncio.sleep(0.02)


def well(transport: NsqTransport) -> bool:
    """Whether the transport has no trouble."""
    return not any(transport.conditions().values())


def in_flight(nsqd: NsqdServer, code: str) -> int:
    """Return how many messages an nsqd waits to hear of."""
    return nsqd.stats(code, "billing")["in_flight_count"]


async def stop(task: asyncio.Task) -> None:
    """Cancel a task and wait until it is gone."""
    task.cancel()
    await asyncio.wait([task])
