"""Topics that are there already or are made, and where a subscription starts in them."""

from __future__ import annotations

import asyncio

import pytest
from aiokafka.admin import NewTopic

from bus.clock import SystemClock
from bus.domain.destination import Destination
from bus.errors import TransportRefused
from bus.testing.writes import message
from bus.transports.kafka import KafkaConfig, KafkaTransport
from tests.integration.kafka.kafka_world import (
    CODE,
    ensure,
    eventually,
    ids_of,
    nothing_comes,
    numbered,
    operator,
    publish,
    publish_all,
    receive,
    receive_ids,
    settings_of,
    subscription,
    topic,
)
from tests.servers.kafka_fixtures import changed, opened

MEBIBYTE = 1_048_576


async def test_a_broker_that_does_not_tell_a_topics_settings_is_used(
    config: KafkaConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def nothing(*_: object) -> dict[str, object]:
        return {}

    monkeypatch.setattr("bus.transports.kafka.topology.topic_settings", nothing)
    async with opened(config) as transport:
        await ensure(transport)
        await publish_all(transport, numbered(3))
        await receive_ids(await transport.consume(CODE, "billing"), ids_of(numbered(3)))


async def test_a_topic_that_is_there_with_a_smaller_limit_is_adapted_and_keeps_its_settings(
    config: KafkaConfig, transport: KafkaTransport
) -> None:
    settings = {"max.message.bytes": "1000", "retention.ms": "86400000", "segment.bytes": "2097152"}
    await make_topic(config, settings, partitions=3)
    await ensure(transport)
    large = message(1, body=bytes(MEBIBYTE))
    assert await publish(transport, large) == [True]
    assert len((await describe(config))["partitions"]) == 3
    now = await settings_of(config, topic(config))
    assert int(now["max.message.bytes"]) > MEBIBYTE
    assert {name: now[name] for name in ("retention.ms", "segment.bytes")} == {
        name: settings[name] for name in ("retention.ms", "segment.bytes")
    }


async def test_a_topic_that_compresses_is_read(config: KafkaConfig, transport: KafkaTransport) -> None:
    await make_topic(config, {"compression.type": "zstd"})
    await ensure(transport)
    await publish_all(transport, numbered(10))
    await receive_ids(await transport.consume(CODE, "billing"), ids_of(numbered(10)))


async def test_a_topic_that_drops_messages_of_its_own_accord_is_refused(
    config: KafkaConfig, transport: KafkaTransport
) -> None:
    await make_topic(config, {"cleanup.policy": "compact"})
    with pytest.raises(TransportRefused, match="keeps only the last message of a key") as refused:
        await ensure(transport)
    assert "cleanup.policy=delete" in refused.value.hint
    assert await publish(transport, message(0)) == [False]
    assert "cleanup.policy" in str(transport.conditions()["kafka"])
    await transport.ensure(Destination(code="other"), [subscription("mail")])
    assert await publish(transport, message(0, destination="other")) == [True], "the others go on"


async def test_a_topic_is_made_as_it_was_asked_for(config: KafkaConfig) -> None:
    config = changed(config, partitions=4, replication=1, min_insync_replicas=1, retention=3600.0)
    async with opened(config) as transport:
        await ensure(transport)
    assert len((await describe(config))["partitions"]) == 4
    settings = await settings_of(config, topic(config))
    assert settings["min.insync.replicas"] == "1"
    assert settings["retention.ms"] == "3600000"
    assert settings["cleanup.policy"] == "delete"


async def test_more_copies_than_brokers_are_refused_in_words(config: KafkaConfig) -> None:
    async with opened(changed(config, replication=3)) as transport:
        with pytest.raises(TransportRefused, match="making destination orders"):
            await ensure(transport)


async def test_a_subscription_may_start_at_a_time(transport: KafkaTransport) -> None:
    await ensure(transport)
    await publish_all(transport, numbered(5))
    before = now()
    await eventually(lambda: now() > before, what="another millisecond")
    start = now()
    later = numbered(5, first=10)
    await publish_all(transport, later)
    await transport.ensure(Destination(code=CODE), [subscription("replay", start_at=start)])
    found = await receive_ids(await transport.consume(CODE, "replay"), ids_of(later))
    assert {item.message.id for item in found} == ids_of(later)
    assert not any(item.suspect for item in found)


async def test_a_time_ahead_is_the_next_message(transport: KafkaTransport) -> None:
    await ensure(transport)
    await publish_all(transport, numbered(5))
    await transport.ensure(Destination(code=CODE), [subscription("later", start_at=now() + 3_600_000)])
    await publish_all(transport, numbered(1, first=10))
    found = await receive_ids(await transport.consume(CODE, "later"), ids_of(numbered(1, first=10)))
    assert len(found) == 1


async def test_processes_that_start_together_miss_nothing(config: KafkaConfig) -> None:
    """Each publishes as soon as its own ensure has returned, while the others are still at theirs."""
    async with opened(config) as one, opened(config) as two, opened(config) as three:
        transports = [one, two, three]

        async def start(n: int) -> None:
            await ensure(transports[n])
            assert await publish(transports[n], *numbered(20, first=100 * n)) == [True] * 20

        await asyncio.gather(*(start(n) for n in range(3)))
        expected = {one.id for n in range(3) for one in numbered(20, first=100 * n)}
        await receive_ids(await one.consume(CODE, "billing"), expected)


async def test_a_consumer_of_a_subscription_that_nobody_made_waits_for_it(config: KafkaConfig) -> None:
    async with opened(config) as transport, opened(config) as other:
        consumer = await other.consume(CODE, "billing")
        await nothing_comes(consumer, within=0.5)
        await ensure(transport)
        await publish_all(transport, numbered(3))
        await receive_ids(consumer, ids_of(numbered(3)))


async def test_a_subscription_removed_elsewhere_is_deleted_though_it_is_being_consumed(config: KafkaConfig) -> None:
    async with opened(config) as transport, opened(config) as other:
        await ensure(transport, "billing", "mail")
        await publish_all(transport, numbered(3))
        consumer = await other.consume(CODE, "billing")  # a process that has not heard of the subscription
        consumer.ack(await receive(consumer, count=3))
        await transport.remove(CODE, "billing")
        await eventually(lambda: not consumer._buffer.partitions, what="it notices that it is out of the group")
        await publish_all(transport, numbered(3, first=10))
        await nothing_comes(consumer, within=1.5)
        await ensure(transport, "billing")
        await publish_all(transport, numbered(3, first=20))
        found = await receive_ids(consumer, ids_of(numbered(3, first=20)))
        assert {item.message.id for item in found} == ids_of(numbered(3, first=20))


def now() -> int:
    return SystemClock().now()


async def make_topic(config: KafkaConfig, settings: dict[str, str], *, partitions: int = 1) -> None:
    async with operator(config) as client:
        await client.create_topics([NewTopic(topic(config), partitions, 1, topic_configs=settings)])


async def describe(config: KafkaConfig) -> dict:
    async with operator(config) as client:
        (found,) = await client.describe_topics([topic(config)])
    return found
