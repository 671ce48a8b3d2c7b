"""Records that are not ours, messages that are too large, names: quarantine or a clear error, and the others go on."""

from __future__ import annotations

import logging

import pytest
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

from bus.domain.destination import Destination
from bus.domain.message import Message
from bus.errors import InvalidDestination
from bus.testing.quarantine import MemoryQuarantine
from bus.testing.writes import message
from bus.transports.kafka import KafkaConfig, KafkaTransport
from tests.integration.kafka.kafka_world import (
    CODE,
    ensure,
    eventually,
    ids_of,
    numbered,
    operator,
    publish,
    publish_all,
    receive_ids,
    stranger,
    subscription,
    topic,
)
from tests.servers.kafka_fixtures import changed, opened

MEBIBYTE = 1_048_576


async def test_records_of_others_go_into_quarantine_and_the_rest_goes_on(config: KafkaConfig) -> None:
    aside = MemoryQuarantine()
    config = changed(config, partitions=1)
    async with opened(config, aside) as transport:
        await ensure(transport)
        await publish_all(transport, numbered(2))
        async with stranger(config) as producer:
            await producer.send_and_wait(topic(config), b"plain text")
            await producer.send_and_wait(topic(config), b"{}", headers=[("ce_id", b"\xff\xfe")])
            half = [("ce_id", b"x"), ("ce_type", b"orders"), ("content-type", b"text/plain"), ("ce_busmeta", b"{")]
            await producer.send_and_wait(topic(config), b"half", headers=half)
            await producer.send_and_wait(topic(config), None, key=b"a tombstone", headers=[("note", None)])
        await publish_all(transport, numbered(2, first=10))
        consumer = await transport.consume(CODE, "billing")
        await receive_ids(consumer, ids_of([*numbered(2), *numbered(2, first=10)]))
        await eventually(lambda: (transport.lags() or {})[CODE, "billing"] == (0, None), what="they count as finished")
    assert [record.payload for record in aside.kept] == [b"plain text", b"{}", b"half", b""]
    assert [record.place for record in aside.kept] == [f"{topic(config)}/0@{offset}" for offset in (2, 3, 4, 5)]
    first, _, damaged, _ = aside.kept
    assert first.transport == "kafka"
    assert first.reason == "not a message of the bus: without id, type, datacontenttype, busmeta"
    assert "busmeta" in damaged.reason
    assert damaged.headers["ce_type"] == "orders"


async def test_a_record_that_cannot_be_set_aside_stays_in_the_topic(config: KafkaConfig) -> None:
    aside = MemoryQuarantine(is_full=True)
    async with opened(config, aside) as transport:
        await ensure(transport)
        async with stranger(config) as producer:
            await producer.send_and_wait(topic(config), b"who is this")
        await publish_all(transport, numbered(3))
        consumer = await transport.consume(CODE, "billing")
        await receive_ids(consumer, ids_of(numbered(3)))
        await eventually(lambda: (transport.lags() or {})[CODE, "billing"].records == 1)
        aside.is_full = False
        await eventually(lambda: (transport.lags() or {})[CODE, "billing"] == (0, None))
    assert [record.payload for record in aside.kept] == [b"who is this"]


async def test_what_cannot_be_set_aside_does_not_fill_the_memory(config: KafkaConfig) -> None:
    aside = MemoryQuarantine(is_full=True)
    config = changed(config, partitions=1, buffer_bytes=MEBIBYTE)
    async with opened(config, aside) as transport:
        await ensure(transport)
        async with stranger(config) as producer:
            for _ in range(20):
                await producer.send_and_wait(topic(config), bytes(MEBIBYTE // 2))
        await publish_all(transport, numbered(3))
        consumer = await transport.consume(CODE, "billing")
        await eventually(lambda: not consumer._buffer.has_room, what="it fetches no more", within=30)
        aside.is_full = False
        await receive_ids(consumer, ids_of(numbered(3)))
        await eventually(lambda: (transport.lags() or {})[CODE, "billing"] == (0, None))
    assert len(aside.kept) == 20


async def test_a_message_larger_than_the_topic_takes_is_not_confirmed_and_others_are(
    transport: KafkaTransport, caplog: pytest.LogCaptureFixture
) -> None:
    await ensure(transport)
    large = message(1, body=bytes(2 * MEBIBYTE))
    with caplog.at_level(logging.WARNING, logger="bus"):
        assert await publish(transport, message(0), large, message(2)) == [True, False, True]
    (warning,) = [record.getMessage() for record in caplog.records if record.name.startswith("bus")]
    assert large.id in warning
    assert "is not published" in warning
    assert await publish(transport, message(3)) == [True]


async def test_a_topic_grows_with_the_destination(transport: KafkaTransport) -> None:
    await ensure(transport)
    large = message(1, body=bytes(3 * MEBIBYTE))
    assert await publish(transport, large) == [False]
    await transport.ensure(Destination(code=CODE, max_bytes=4 * MEBIBYTE), [subscription()])
    assert await publish(transport, large) == [True]
    consumer = await transport.consume(CODE, "billing")
    (found,) = await receive_ids(consumer, {large.id})
    assert found.message == large


async def test_a_limit_that_was_lowered_behind_our_back_is_raised_again(
    config: KafkaConfig, transport: KafkaTransport
) -> None:
    """The broker refuses a batch, after which an idempotent producer of aiokafka is of no use any more."""
    await ensure(transport)
    await transport.ensure(Destination(code="other"), [subscription("mail")])
    assert all(await publish(transport, *numbered(10)))
    await set_topic(config, {"max.message.bytes": "2000", "cleanup.policy": "delete"})
    large: list[Message] = []
    refused = False
    while not refused:  # the broker takes the setting over in its own time
        some = numbered(3, first=20 + len(large), body=bytes(5000))
        large += some
        refused = await publish(transport, *some) == [False] * 3
    assert await publish(transport, *numbered(1, destination="other")) == [True], (
        "another topic has nothing to do with it"
    )
    await publish_all(transport, large)
    later = numbered(10, first=1000)
    await publish_all(transport, later)
    consumer = await transport.consume(CODE, "billing")
    await receive_ids(consumer, ids_of([*numbered(10), *large, *later]))


async def test_codes_that_kafka_would_confuse_are_apart(transport: KafkaTransport) -> None:
    codes = ["a.b", "a_b", "a-b", "a--b", "a-u", "a_u", "_", "A.B"]
    for code in codes:
        await transport.ensure(Destination(code=code), [subscription("billing")])
    sent = {code: message(n, destination=code) for n, code in enumerate(codes)}
    assert await publish(transport, *sent.values()) == [True] * len(codes)
    for code in codes:
        consumer = await transport.consume(code, "billing")
        (found,) = await receive_ids(consumer, {sent[code].id})
        assert found.message == sent[code]
        await consumer.close()


async def test_a_code_that_kafka_cannot_name_is_refused_before_anything_is_made(transport: KafkaTransport) -> None:
    code = "_" * 128
    with pytest.raises(InvalidDestination, match="takes 249") as refused:
        transport.check(Destination(code=code))
    assert refused.value.field == "code"
    with pytest.raises(InvalidDestination):
        await transport.ensure(Destination(code=code), [subscription()])
    assert transport.lags() == {} or transport.lags() is None


async def set_topic(config: KafkaConfig, settings: dict[str, str]) -> None:
    async with operator(config) as client:
        await client.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic(config), settings)])
