"""What tests on a Kafka do again and again."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

from aiokafka import AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.structs import OffsetAndMetadata

from bus.domain.destination import Destination
from bus.domain.message import Message, encode_message
from bus.domain.subscription import Subscription
from bus.errors import TransportUnavailable
from bus.ports.transport import Consumer, Incoming, Outgoing
from bus.testing.writes import message
from bus.transports.kafka import KafkaConfig, KafkaTransport
from bus.transports.kafka.names import group_of, topic_of

CODE = "orders"
PATIENCE = 45.0


def subscription(name: str = "billing", **changes: object) -> Subscription:
    return Subscription(destination=CODE, name=name, url="http://subscriber/hook", **changes)


async def ensure_once(road: KafkaTransport, *names: str) -> None:
    await road.ensure(Destination(code=CODE), [subscription(name) for name in names or ("billing",)])


async def ensure(road: KafkaTransport, *names: str) -> None:
    """Make subscriptions, again and again while the broker does not answer, as the bus does."""
    async with asyncio.timeout(PATIENCE):
        while True:
            try:
                return await ensure_once(road, *names)
            except TransportUnavailable:
                await asyncio.sleep(0.1)


def outgoing(messages: Sequence[Message]) -> list[Outgoing]:
    return [Outgoing(one, encode_message(one)) for one in messages]


async def publish(road: KafkaTransport, *messages: Message) -> list[bool]:
    return await road.publish(outgoing(messages))


async def publish_all(road: KafkaTransport, messages: Sequence[Message]) -> int:
    """Publish until every message is confirmed, as the receiver does; return how often one was not."""
    unconfirmed, left = 0, list(messages)
    async with asyncio.timeout(PATIENCE):
        while left:
            held = await publish(road, *left)
            left = [one for one, done in zip(left, held, strict=True) if not done]
            unconfirmed += len(left)
            if left:
                await asyncio.sleep(0.05)
    return unconfirmed


async def receive(consumer: Consumer, *, count: int = 1, limit: int = 100) -> list[Incoming]:
    """Receive until there are so many."""
    found: list[Incoming] = []
    async with asyncio.timeout(PATIENCE):
        while len(found) < count:
            found += await consumer.receive(limit)
    return found


async def receive_ids(consumer: Consumer, ids: set[str]) -> list[Incoming]:
    """Receive and ack until every one of these messages came."""
    found: list[Incoming] = []
    missing = set(ids)
    try:
        async with asyncio.timeout(PATIENCE):
            while missing:
                some = await consumer.receive(100)
                consumer.ack(some)
                found += some
                missing -= {item.message.id for item in some}
    except TimeoutError:
        raise AssertionError(f"{len(missing)} of {len(ids)} messages did not come: {sorted(missing)[:5]}") from None
    return found


async def nothing_comes(consumer: Consumer, *, within: float) -> None:
    """Assert that no message comes for a while."""
    try:
        async with asyncio.timeout(within):
            found = await consumer.receive(100)
    except TimeoutError:
        return
    raise AssertionError(f"{len(found)} messages came")


async def eventually(check: Callable[[], object], *, within: float = PATIENCE, what: str = "a condition") -> float:
    """Wait until something is true and return the seconds it took."""
    started = time.monotonic()
    while not check():
        if time.monotonic() - started > within:
            raise AssertionError(f"not within {within:g} s: {what}")
        await asyncio.sleep(0.01)
    return time.monotonic() - started


def ids_of(messages: Sequence[Message]) -> set[str]:
    return {one.id for one in messages}


def numbered(count: int, *, first: int = 0, **changes: object) -> list[Message]:
    return [message(first + n, **changes) for n in range(count)]


def topic(config: KafkaConfig) -> str:
    return topic_of(CODE, config.prefix)


def group(config: KafkaConfig, name: str = "billing") -> str:
    return group_of(topic(config), name)


@asynccontextmanager
async def operator(config: KafkaConfig) -> AsyncIterator[AIOKafkaAdminClient]:
    """Yield a client that looks at the cluster, and changes it, behind the road's back."""
    client = AIOKafkaAdminClient(bootstrap_servers=list(config.bootstrap), client_id=f"operator-{next(_numbers)}")
    try:
        await client.start()
        yield client
    finally:
        await client.close()


@asynccontextmanager
async def stranger(config: KafkaConfig) -> AsyncIterator[AIOKafkaProducer]:
    """Yield a producer that is none of ours."""
    async with AIOKafkaProducer(bootstrap_servers=list(config.bootstrap), max_request_size=10_000_000) as producer:
        yield producer


async def commits(config: KafkaConfig, name: str = "billing") -> dict[int, OffsetAndMetadata]:
    """Return what a subscription's group has committed, by partition."""
    async with operator(config) as client:
        found = await client.list_consumer_group_offsets(group(config, name))
    return {place.partition: commit for place, commit in found.items()}


async def members(config: KafkaConfig, name: str = "billing") -> list[str]:
    """Return the ids of the members of a subscription's group."""
    async with operator(config) as client:
        (answer,) = await client.describe_consumer_groups([group(config, name)])
    return sorted(member_id for _, _, _, _, _, found, *_ in answer.groups for member_id, *_ in found)


_numbers = itertools.count()
