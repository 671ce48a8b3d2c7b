"""Helpers for tests on a Kafka."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import trustme
from aiokafka import AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.structs import OffsetAndMetadata

from bus.domain.destination import Destination
from bus.domain.message import Message, encode_message
from bus.domain.subscription import Subscription
from bus.errors import TransportUnavailable
from bus.ports.transport import Consumer, IncomingMessage, OutgoingMessage
from bus.testing.writes import message
from bus.transports.kafka import KafkaConfig, KafkaTransport
from bus.transports.kafka.names import group_of, topic_of
from tests.servers.kafka import KafkaServer
from tests.servers.kafka_fixtures import changed, quick

CODE = "orders"
PATIENCE = 100.0
"""Seconds after which a test is taken to hang; longer than a slow machine takes to start a broker."""


def subscription(name: str = "billing", **changes: object) -> Subscription:
    return Subscription(destination=CODE, name=name, url="http://subscriber/hook", **changes)


async def ensure_once(transport: KafkaTransport, *names: str) -> None:
    await transport.ensure(Destination(code=CODE), [subscription(name) for name in names or ("billing",)])


async def ensure(transport: KafkaTransport, *names: str) -> None:
    """Make subscriptions, again and again while the broker does not answer, as the bus does."""
    async with asyncio.timeout(PATIENCE):
        while True:
            try:
                return await ensure_once(transport, *names)
            except TransportUnavailable:
                await asyncio.sleep(0.1)


def outgoing(messages: Sequence[Message]) -> list[OutgoingMessage]:
    return [OutgoingMessage(one, encode_message(one)) for one in messages]


async def publish(transport: KafkaTransport, *messages: Message) -> list[bool]:
    return await transport.publish(outgoing(messages))


async def publish_all(
    transport: KafkaTransport, messages: Sequence[Message], unconfirmed: Counter[str] | None = None
) -> None:
    """Publish until every message is confirmed, as the receiver does; count how often each was not."""
    left = list(messages)
    async with asyncio.timeout(PATIENCE):
        while left:
            held = await publish(transport, *left)
            left = [one for one, done in zip(left, held, strict=True) if not done]
            if unconfirmed is not None:
                unconfirmed.update(one.id for one in left)
            if left:
                await asyncio.sleep(0.05)


async def receive(consumer: Consumer, *, count: int = 1, limit: int = 100) -> list[IncomingMessage]:
    """Receive until there are so many."""
    found: list[IncomingMessage] = []
    async with asyncio.timeout(PATIENCE):
        while len(found) < count:
            found += await consumer.receive(limit)
    return found


async def receive_ids(consumer: Consumer, ids: set[str]) -> list[IncomingMessage]:
    """Receive and ack until every one of these messages came."""
    found: list[IncomingMessage] = []
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


class Flow:
    """Messages that are published, received and acked batch by batch until ``over`` is set.

    Attributes
    ----------
    published
        What was confirmed.
    unconfirmed
        How often each message was not confirmed, and published again.
    received, receivers
        Each delivery, and the consumers that got any.
    """

    def __init__(self, transport: KafkaTransport, batch: int) -> None:
        self._transport = transport
        self._batch = batch
        self.published: list[Message] = []
        self.unconfirmed: Counter[str] = Counter()
        self.received: list[IncomingMessage] = []
        self.receivers: set[Consumer] = set()
        self.over = False

    async def publish(self) -> None:
        """Publish until it is over."""
        while not self.over:
            some = numbered(self._batch, first=len(self.published))
            await publish_all(self._transport, some, self.unconfirmed)
            self.published += some

    async def receive(self, consumer: Consumer) -> None:
        """Receive and ack until cancelled."""
        while True:
            some = await consumer.receive(100)
            self.received += some
            self.receivers.add(consumer)
            consumer.ack(some)

    async def goes_on(self) -> None:
        """Wait until some batches more are confirmed and come in."""
        published, received = len(self.published) + 5 * self._batch, len(self.received)
        await eventually(lambda: len(self.published) >= published, what="publishing goes on")
        await eventually(lambda: len(self.received) > received, what="messages come in")

    async def falters(self) -> None:
        """Wait until a message is not confirmed."""
        so_far = self.unconfirmed.total()
        await eventually(lambda: self.unconfirmed.total() > so_far, what="publishing fails")

    def unexplained(self) -> set[str]:
        """Return what came again though it was neither published again nor marked as suspect."""
        fresh = Counter(item.message.id for item in self.received if not item.suspect)
        return {name for name, times in fresh.items() if times > 1 + self.unconfirmed[name]}


@asynccontextmanager
async def flowing(transport: KafkaTransport, *consumers: Consumer, batch: int = 20) -> AsyncIterator[Flow]:
    """Keep messages flowing meanwhile, and wait until everything that was confirmed has come in."""
    flow = Flow(transport, batch)
    async with asyncio.TaskGroup() as group:
        publishing = group.create_task(flow.publish())
        receiving = [group.create_task(flow.receive(consumer)) for consumer in consumers]
        yield flow
        flow.over = True
        await publishing
        await eventually(
            lambda: ids_of(flow.published) <= {item.message.id for item in flow.received},
            what="all that was confirmed came",
        )
        for task in receiving:
            task.cancel()


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
    """Yield a client that looks at the cluster, and changes it, behind the transport's back."""
    client = AIOKafkaAdminClient(bootstrap_servers=list(config.bootstrap), client_id=f"operator-{next(_numbers)}")
    try:
        await client.start()
        yield client
    finally:
        await client.close()


async def settings_of(config: KafkaConfig, name: str) -> dict[str, str]:
    """Return how a topic is set."""
    async with operator(config) as client:
        (answer,) = await client.describe_configs([ConfigResource(ConfigResourceType.TOPIC, name)])
    return {name: value for _, _, _, _, entries in answer.resources for name, value, *_ in entries}


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


def encrypted(broker: KafkaServer, trusted: trustme.CA, shown: trustme.CA, folder: Path) -> KafkaConfig:
    """Return settings that trust one authority and show a certificate of another."""
    trusted.cert_pem.write_to_path(folder / "ca.pem")
    cert = shown.issue_cert("bus.example")
    cert.private_key_pem.write_to_path(folder / "key.pem")
    (folder / "cert.pem").write_bytes(b"".join(pem.bytes() for pem in cert.cert_chain_pems))
    return changed(
        quick(broker.tls_bootstrap),
        tls=True,
        ca_file=folder / "ca.pem",
        cert_file=folder / "cert.pem",
        key_file=folder / "key.pem",
    )
