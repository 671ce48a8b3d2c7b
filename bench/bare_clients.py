"""Each broker's own client with nothing of the bus around it, on the servers and in the topic that the transport uses.

Each publishes the bodies of a batch at once, and returns when the broker confirmed every one.
"""

from __future__ import annotations

import asyncio
import json
import struct
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from itertools import cycle
from typing import Any, NamedTuple

import aio_pika
from aiokafka import AIOKafkaProducer

from bus.ports.transport import OutgoingMessage
from bus.settings import Settings
from bus.transports.kafka.names import topic_of
from bus.transports.nsq.config import NsqdAddress, parse_nsqd
from bus.transports.rabbitmq.names import exchange_of

Publish = Callable[[Sequence[OutgoingMessage]], Coroutine[Any, Any, None]]
PERSISTENT = 2


class BareClient(NamedTuple):
    """What it is called, and what opens it to publish to a destination's topic."""

    name: str
    open: Callable[[Settings, str], AbstractAsyncContextManager[Publish]]


@asynccontextmanager
async def _kafka(settings: Settings, code: str) -> AsyncIterator[Publish]:
    """Produce with all in-sync copies confirming, and idempotently."""
    topic = topic_of(code, settings.kafka_prefix)
    servers = settings.kafka_bootstrap
    async with AIOKafkaProducer(bootstrap_servers=servers, acks="all", enable_idempotence=True) as producer:

        async def publish(batch: Sequence[OutgoingMessage]) -> None:
            await asyncio.gather(*[await producer.send(topic, item.message.body) for item in batch])

        yield publish


@asynccontextmanager
async def _rabbitmq(settings: Settings, code: str) -> AsyncIterator[Publish]:
    """Publish persistently on one channel, each message confirmed and mandatory."""
    async with await aio_pika.connect(settings.rabbitmq_primary) as connection:
        channel = await connection.channel(publisher_confirms=True, on_return_raises=True)
        exchange = await channel.get_exchange(exchange_of(code))

        async def publish(batch: Sequence[OutgoingMessage]) -> None:
            messages = [aio_pika.Message(item.message.body, delivery_mode=PERSISTENT) for item in batch]
            await asyncio.gather(*[exchange.publish(message, "", mandatory=True) for message in messages])

        yield publish


@asynccontextmanager
async def _nsq(settings: Settings, code: str) -> AsyncIterator[Publish]:
    """Send each batch as one MPUB, to one nsqd after the other."""
    async with AsyncExitStack() as stack:
        nsqds = [await stack.enter_async_context(_nsqd(place)) for place in parse_nsqd(settings.nsq_nsqd)]
        turn = cycle(nsqds)
        command = f"MPUB {code}\n".encode()

        async def publish(batch: Sequence[OutgoingMessage]) -> None:
            bodies = [item.message.body for item in batch]
            parts = [part for body in bodies for part in (struct.pack(">I", len(body)), body)]
            content = struct.pack(">I", len(bodies)) + b"".join(parts)
            await next(turn)(command, content)

        yield publish


@asynccontextmanager
async def _nsqd(place: NsqdAddress) -> AsyncIterator[Callable[[bytes, bytes], Coroutine[Any, Any, None]]]:
    """Give what sends a command with its body to an nsqd and waits for its OK; heartbeats are off."""
    reader, writer = await asyncio.open_connection(place.tcp.host, place.tcp.port)

    async def call(command: bytes, body: bytes) -> None:
        writer.write(b"%b%b%b" % (command, struct.pack(">I", len(body)), body))
        await writer.drain()
        size, _ = struct.unpack(">II", await reader.readexactly(8))
        answer = await reader.readexactly(size - 4)
        if answer != b"OK":
            raise RuntimeError(f"nsqd answered {answer!r}")

    try:
        writer.write(b"  V2")
        await call(b"IDENTIFY\n", json.dumps({"heartbeat_interval": -1}).encode())
        yield call
    finally:
        writer.close()
        await writer.wait_closed()


BARE_CLIENTS = {
    "kafka": BareClient("bare aiokafka", _kafka),
    "rabbitmq": BareClient("bare aio-pika", _rabbitmq),
    "nsq": BareClient("bare MPUB loop", _nsq),
}
