"""A broker that is killed, stopped, wiped or cut off while messages flow."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from bus.errors import TransportUnavailable
from bus.ports.transport import Consumer
from bus.transports.kafka import KafkaConfig, KafkaTransport
from bus.transports.kafka.codec import record_of
from tests.integration.kafka.kafka_world import (
    CODE,
    ensure,
    ensure_once,
    eventually,
    flowing,
    ids_of,
    members,
    numbered,
    operator,
    publish,
    publish_all,
    receive,
    receive_ids,
    stranger,
    topic,
)
from tests.servers import need
from tests.servers.kafka import KafkaServer
from tests.servers.kafka_fixtures import changed, opened, quick
from tests.servers.toxiproxy import Toxiproxy

pytestmark = pytest.mark.timeout(300)
LONG = 40.0
GONE_WITHIN = 20.0
"""A wait, in seconds, that a test which means "at once" sets everything to, and must not wait for."""


@contextmanager
def at_once() -> Iterator[None]:
    """Assert that something does not wait for what takes ``LONG``."""
    started = time.monotonic()
    yield
    assert time.monotonic() - started < LONG / 2


@pytest.fixture
def config(broker: KafkaServer) -> KafkaConfig:
    return quick(broker.bootstrap)


@pytest.fixture
async def transport(config: KafkaConfig) -> AsyncIterator[KafkaTransport]:
    async with opened(config) as transport:
        yield transport


@pytest.fixture(scope="module")
def toxiproxy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Toxiproxy]:
    with Toxiproxy(need("toxiproxy"), tmp_path_factory.mktemp("toxiproxy")) as server:
        yield server


@pytest.mark.parametrize("kills", [1, pytest.param(3, marks=pytest.mark.proof)])
async def test_what_is_confirmed_while_the_broker_dies_is_held(
    broker: KafkaServer, transport: KafkaTransport, kills: int
) -> None:
    await ensure(transport)
    consumer = await transport.consume(CODE, "billing")
    async with flowing(transport, consumer) as flow:
        for _ in range(kills):
            await flow.goes_on()
            await asyncio.to_thread(broker.kill)
            await flow.falters()
            await asyncio.to_thread(broker.start)
        await flow.goes_on()
    assert not flow.unexplained()


async def test_a_broker_that_is_dead_fails_all_at_once_and_soon_works_again(
    broker: KafkaServer, config: KafkaConfig
) -> None:
    patient = changed(config, request_timeout=LONG, publish_timeout=LONG, ensure_timeout=LONG)
    async with opened(patient) as transport:
        await ensure(transport)
        assert await publish(transport, *numbered(3)) == [True] * 3
        with at_once():
            await asyncio.to_thread(broker.kill)
            await eventually(lambda: transport.lags() is None, what="the transport notices")
        with at_once():
            assert await publish(transport, *numbered(3)) == [False] * 3
        assert "kafka" in str(transport.conditions()["kafka"])
        with at_once(), pytest.raises(TransportUnavailable):
            await ensure_once(transport)
        async with opened(quick(broker.bootstrap)) as early:
            consumer = await starts_before_its_broker(early)
            await asyncio.to_thread(broker.start)
            with at_once():
                await publish_all(transport, numbered(3))
            assert transport.conditions() == {"kafka": ""}
            await eventually(lambda: transport.lags() is not None)
            await publish_all(early, numbered(3))
            await receive_ids(consumer, ids_of(numbered(3)))


async def starts_before_its_broker(transport: KafkaTransport) -> Consumer:
    assert transport.lags() is None
    with pytest.raises(TransportUnavailable, match=r"connecting to 127\.0\.0\.1"):
        await ensure_once(transport)
    assert await publish(transport, *numbered(1)) == [False], "what could not be ensured yet is not confirmed"
    return await transport.consume(CODE, "billing")


@pytest.mark.proof
async def test_a_consumer_knocks_seldom_at_a_broker_that_is_dead_and_says_so_once(
    broker: KafkaServer, config: KafkaConfig, caplog: pytest.LogCaptureFixture
) -> None:
    async with opened(changed(config, request_timeout=3.0)) as transport:
        await ensure(transport)
        consumer = await transport.consume(CODE, "billing")
        await publish_all(transport, numbered(3))
        await receive_ids(consumer, ids_of(numbered(3)))
        await asyncio.to_thread(broker.kill)
        started = time.monotonic()
        await eventually(lambda: caplog.text.count("Unable connect to node") >= 60, what="it knocks")
        assert time.monotonic() - started > 3
        consumer.restart()
        with caplog.at_level(logging.DEBUG, logger="bus"):
            await eventually(lambda: len(tries(caplog)) >= 5, what="it tries to join again")
    loud = [record.getMessage() for record in tries(caplog) if record.levelno >= logging.INFO]
    assert len(loud) == len(set(loud))


def tries(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    return [record for record in caplog.records if "is joined again" in record.getMessage()]


async def test_publishing_to_a_broker_that_hangs_ends_in_time(broker: KafkaServer, config: KafkaConfig) -> None:
    """Nothing else notices before the publish time-out that it hangs."""
    async with opened(changed(config, request_timeout=LONG, publish_timeout=2.0)) as transport:
        await ensure(transport)
        broker.pause()
        with at_once():
            assert await publish(transport, *numbered(3)) == [False] * 3
        broker.resume()


async def test_a_broker_that_hangs_bounds_every_wait(broker: KafkaServer, config: KafkaConfig) -> None:
    """The transport notices by the request time-out, and ends what waits for longer ones."""
    config = changed(config, request_timeout=3.0, publish_timeout=LONG, ensure_timeout=LONG)
    async with opened(config) as transport:
        await ensure(transport)
        broker.pause()
        with at_once():
            assert await publish(transport, *numbered(3)) == [False] * 3
        await eventually(lambda: transport.lags() is None)
        with at_once():
            assert await publish(transport, *numbered(3)) == [False] * 3
        with at_once(), pytest.raises(TransportUnavailable):
            await ensure_once(transport, "mail")
        broker.resume()
        with at_once():
            await publish_all(transport, numbered(3))
        consumer = await transport.consume(CODE, "billing")
        await receive_ids(consumer, ids_of(numbered(3)))


async def test_a_transport_leaves_in_time_though_the_broker_hangs(broker: KafkaServer, config: KafkaConfig) -> None:
    async with opened(changed(config, request_timeout=3.0)) as transport:
        await ensure(transport)
        await publish_all(transport, numbered(5))
        consumer = await transport.consume(CODE, "billing")
        consumer.ack(await receive(consumer, count=5))
        broker.pause()
        started = time.monotonic()
    assert time.monotonic() - started < LONG
    broker.resume()


async def test_a_wiped_broker_gets_its_topics_and_groups_back(broker: KafkaServer, transport: KafkaTransport) -> None:
    await ensure(transport, "billing", "mail")
    consumer = await transport.consume(CODE, "billing")
    await publish_all(transport, numbered(30))
    old = await receive(consumer, count=30)
    consumer.ack(old[:10])
    past = quick(broker.bootstrap)
    async with opened(past) as ended:
        await ensure(ended)
        await publish_all(ended, numbered(5))
    await asyncio.to_thread(broker.wipe)
    # Nobody calls ensure: the transport mends what it had made, and nothing published from now on is missed.
    after = numbered(50, first=100)
    await publish_all(transport, after)
    consumer.ack(old[10:])
    found = await receive_ids(consumer, ids_of(after))
    assert {item.message.id for item in found} == ids_of(after)
    mail = await transport.consume(CODE, "mail")
    assert {item.message.id for item in await receive_ids(mail, ids_of(after))} == ids_of(after)
    await eventually(lambda: (transport.lags() or {}).get((CODE, "billing")) == (0, None))
    async with opened(past) as new:
        await works_for_a_process_that_is_new(new)


async def works_for_a_process_that_is_new(transport: KafkaTransport) -> None:
    await ensure(transport)
    assert await publish(transport, *numbered(5, first=10)) == [True] * 5
    consumer = await transport.consume(CODE, "billing")
    assert [item.message.id for item in await receive(consumer, count=5)] == [m.id for m in numbered(5, first=10)]


async def test_a_topic_that_was_deleted_and_made_anew_is_read_from_its_beginning(config: KafkaConfig) -> None:
    """What others put into the new one at once lies at offsets that were finished in the old one."""
    config = changed(config, partitions=1)
    async with opened(config) as transport, operator(config) as client:
        await ensure(transport, "billing", "mail")
        consumer = await transport.consume(CODE, "billing")
        await publish_all(transport, numbered(10))
        consumer.ack(await receive(consumer, count=10))
        await eventually(lambda: (transport.lags() or {}).get((CODE, "billing")) == (0, None))
        await client.delete_topics([topic(config)])
        await make_anew(client, topic(config))
        async with stranger(config) as producer:
            for one in numbered(30, first=100):
                record = record_of(one)
                await producer.send(topic(config), record.value, headers=record.headers)
            await producer.flush()
        await publish_all(transport, numbered(10, first=200))
        expected = ids_of([*numbered(30, first=100), *numbered(10, first=200)])
        await receive_ids(consumer, expected)
        await eventually(lambda: (transport.lags() or {}).get((CODE, "billing")) == (0, None))
        # One that did not read meanwhile, and whose commits the broker may have deleted with the topic.
        await receive_ids(await transport.consume(CODE, "mail"), expected)


async def test_a_topic_that_was_deleted_is_made_anew(config: KafkaConfig) -> None:
    async with opened(config) as transport, operator(config) as client:
        await ensure(transport)
        consumer = await transport.consume(CODE, "billing")
        await publish_all(transport, numbered(10))
        consumer.ack(await receive(consumer, count=10))
        await client.delete_topics([topic(config)])
        await publish_all(transport, numbered(40, first=100))
        await receive_ids(consumer, ids_of(numbered(40, first=100)))


async def make_anew(client: AIOKafkaAdminClient, name: str) -> None:
    """Make a topic as soon as the one of that name is gone; one that never goes is new: the transport was faster."""
    with suppress(TimeoutError):
        async with asyncio.timeout(GONE_WITHIN):
            while True:
                answer = await client.create_topics([NewTopic(name, 1, 1)])
                if not answer.topic_errors[0][1]:
                    return
                await asyncio.sleep(0.01)


async def test_a_slow_network_holds_up_nothing_but_time(
    broker: KafkaServer, config: KafkaConfig, toxiproxy: Toxiproxy
) -> None:
    config = changed(config, request_timeout=LONG, publish_timeout=LONG, session_timeout=LONG)
    proxy = toxiproxy.proxy("slow", broker.behind_proxy, port=broker.proxy_port)
    try:
        async with opened(changed(config, bootstrap=(proxy.address,))) as transport:
            for stream in ("upstream", "downstream"):
                proxy.add("latency", stream=stream, latency=100, jitter=50)
            await ensure(transport)
            consumer = await transport.consume(CODE, "billing")
            messages = numbered(200)
            for n in range(0, len(messages), 50):
                assert await publish(transport, *messages[n : n + 50]) == [True] * 50
            found = await receive_ids(consumer, ids_of(messages))
            assert len(found) == len(messages), "nothing came twice"
            await eventually(lambda: (transport.lags() or {}).get((CODE, "billing")) == (0, None))
    finally:
        proxy.delete()


async def test_a_network_that_is_cut_again_and_again_loses_nothing(
    broker: KafkaServer, config: KafkaConfig, toxiproxy: Toxiproxy
) -> None:
    proxy = toxiproxy.proxy("cut", broker.behind_proxy, port=broker.proxy_port)
    try:
        async with opened(changed(config, bootstrap=(proxy.address,))) as transport:
            await ensure(transport)
            consumer = await transport.consume(CODE, "billing")
            async with flowing(transport, consumer, batch=100) as flow:
                for _ in range(2):
                    await flow.goes_on()
                    proxy.disable()
                    await flow.falters()
                    proxy.enable()
            assert not flow.unexplained()
    finally:
        proxy.delete()


async def test_a_connection_that_is_half_open_is_given_up(
    broker: KafkaServer, config: KafkaConfig, toxiproxy: Toxiproxy
) -> None:
    config = changed(config, request_timeout=3.0, publish_timeout=LONG)
    proxy = toxiproxy.proxy("kafka", broker.behind_proxy, port=broker.proxy_port)
    try:
        async with opened(changed(config, bootstrap=(proxy.address,))) as transport:
            await ensure(transport)
            assert await publish(transport, *numbered(2)) == [True] * 2
            swallowing = [proxy.add("timeout", stream=stream, timeout=0) for stream in ("upstream", "downstream")]
            with at_once():
                assert await publish(transport, *numbered(2)) == [False] * 2
            for toxic in swallowing:
                proxy.remove(toxic)
            with at_once():
                await publish_all(transport, numbered(2))
    finally:
        proxy.delete()


@pytest.mark.proof
async def test_a_broker_that_comes_back_elsewhere_is_found(tmp_path: Path) -> None:
    """The addresses that clients learned are of no use any more; those they were configured with are."""
    before, after = (KafkaServer(need("kafka"), tmp_path) for _ in range(2))  # the same node with other ports
    config = changed(quick(before.bootstrap), bootstrap=(before.bootstrap, after.bootstrap), revive_after=2.0)
    config = changed(config, partitions=1)
    with ExitStack() as servers:
        servers.callback(after.close)
        servers.enter_context(before)
        async with opened(config) as transport, opened(config) as other:
            await ensure(transport)
            await ensure(other)
            consumers = [await each.consume(CODE, "billing") for each in (transport, other)]
            async with flowing(transport, *consumers) as flow:
                await flow.goes_on()
                await members_come(before, config, 2)
                await asyncio.to_thread(before.stop)
                await asyncio.to_thread(after.start)
                await flow.goes_on()
            # The one to whom no partition fell has nothing to read, and is back nevertheless.
            await members_come(after, config, 2)


async def members_come(server: KafkaServer, config: KafkaConfig, count: int) -> None:
    """Wait until a group has so many members."""
    async with asyncio.timeout(60):
        while True:
            if len(await members(changed(config, bootstrap=(server.bootstrap,)))) == count:
                return
            await asyncio.sleep(0.2)
