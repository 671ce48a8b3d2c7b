"""What is not ours, too large, refused or set up otherwise: a clear error or quarantine, and the others go on."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import trustme
from aiokafka.admin import NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.protocol.admin import CreateAclsRequest

from bus.clock import SystemClock
from bus.domain.destination import Destination
from bus.domain.message import Message
from bus.errors import InvalidDestination, TransportError, TransportRefused
from bus.testing.quarantine import MemoryQuarantine
from bus.testing.writes import message
from bus.transports.kafka import KafkaConfig, KafkaTransport
from tests.integration.kafka.kafka_world import (
    CODE,
    ensure,
    ensure_once,
    eventually,
    group,
    ids_of,
    nothing_comes,
    numbered,
    operator,
    publish,
    publish_all,
    receive,
    receive_ids,
    stranger,
    subscription,
    topic,
)
from tests.servers.kafka import PASSWORD, USER, KafkaServer
from tests.servers.kafka_fixtures import changed, opened, quick, shared

MEBIBYTE = 1_048_576


@pytest.fixture
def config() -> KafkaConfig:
    return quick(shared())


@pytest.fixture
async def road(config: KafkaConfig) -> AsyncIterator[KafkaTransport]:
    async with opened(config) as road:
        yield road


# --- records that are not ours -------------------------------------------------------------------------------


async def test_records_of_others_go_into_quarantine_and_the_rest_goes_on(config: KafkaConfig) -> None:
    aside = MemoryQuarantine()
    config = changed(config, partitions=1)
    async with opened(config, aside) as road:
        await ensure(road)
        await publish_all(road, numbered(2))
        async with stranger(config) as producer:
            await producer.send_and_wait(topic(config), b"plain text")
            await producer.send_and_wait(topic(config), b"{}", headers=[("ce_id", b"\xff\xfe")])
            half = [("ce_id", b"x"), ("ce_type", b"orders"), ("content-type", b"text/plain"), ("ce_busmeta", b"{")]
            await producer.send_and_wait(topic(config), b"half", headers=half)
            await producer.send_and_wait(topic(config), None, key=b"a tombstone", headers=[("note", None)])
        await publish_all(road, numbered(2, first=10))
        consumer = await road.consume(CODE, "billing")
        await receive_ids(consumer, ids_of([*numbered(2), *numbered(2, first=10)]))
        await eventually(lambda: (road.lags() or {})[CODE, "billing"] == (0, None), what="they count as finished")
    assert [record.payload for record in aside.kept] == [b"plain text", b"{}", b"half", b""]
    assert [record.place for record in aside.kept] == [f"{topic(config)}/0@{offset}" for offset in (2, 3, 4, 5)]
    first, _, damaged, _ = aside.kept
    assert first.road == "kafka"
    assert first.reason == "not a message of the bus: without id, type, datacontenttype, busmeta"
    assert "busmeta" in damaged.reason
    assert damaged.headers["ce_type"] == "orders"


async def test_a_record_that_cannot_be_set_aside_stays_in_the_topic(config: KafkaConfig) -> None:
    aside = MemoryQuarantine(is_full=True)
    async with opened(config, aside) as road:
        await ensure(road)
        async with stranger(config) as producer:
            await producer.send_and_wait(topic(config), b"who is this")
        await publish_all(road, numbered(3))
        consumer = await road.consume(CODE, "billing")
        await receive_ids(consumer, ids_of(numbered(3)))
        await eventually(lambda: (road.lags() or {})[CODE, "billing"].records == 1)
        aside.is_full = False
        await eventually(lambda: (road.lags() or {})[CODE, "billing"] == (0, None))
    assert [record.payload for record in aside.kept] == [b"who is this"]


async def test_what_cannot_be_set_aside_does_not_fill_the_memory(config: KafkaConfig) -> None:
    aside = MemoryQuarantine(is_full=True)
    config = changed(config, partitions=1, buffer_bytes=MEBIBYTE)
    async with opened(config, aside) as road:
        await ensure(road)
        async with stranger(config) as producer:
            for _ in range(20):
                await producer.send_and_wait(topic(config), bytes(MEBIBYTE // 2))
        await publish_all(road, numbered(3))
        consumer = await road.consume(CODE, "billing")
        await eventually(lambda: not consumer._holdings.has_room, what="it fetches no more", within=30)
        aside.is_full = False
        await receive_ids(consumer, ids_of(numbered(3)))
        await eventually(lambda: (road.lags() or {})[CODE, "billing"] == (0, None))
    assert len(aside.kept) == 20


# --- sizes ---------------------------------------------------------------------------------------------------


async def test_a_message_larger_than_the_topic_takes_is_not_confirmed_and_others_are(
    road: KafkaTransport, caplog: pytest.LogCaptureFixture
) -> None:
    await ensure(road)
    large = message(1, body=bytes(2 * MEBIBYTE))
    with caplog.at_level(logging.WARNING, logger="bus"):
        assert await publish(road, message(0), large, message(2)) == [True, False, True]
    (warning,) = [record.getMessage() for record in caplog.records if record.name.startswith("bus")]
    assert large.id in warning
    assert "is not published" in warning
    assert await publish(road, message(3)) == [True]


async def test_a_topic_grows_with_the_destination(road: KafkaTransport) -> None:
    await ensure(road)
    large = message(1, body=bytes(3 * MEBIBYTE))
    assert await publish(road, large) == [False]
    await road.ensure(Destination(code=CODE, max_bytes=4 * MEBIBYTE), [subscription()])
    assert await publish(road, large) == [True]
    consumer = await road.consume(CODE, "billing")
    (found,) = await receive_ids(consumer, {large.id})
    assert found.message == large


async def test_a_limit_that_was_lowered_behind_our_back_is_raised_again(
    config: KafkaConfig, road: KafkaTransport
) -> None:
    """The broker refuses a batch, after which an idempotent producer of aiokafka is of no use any more."""
    await ensure(road)
    await road.ensure(Destination(code="other"), [subscription("mail")])
    assert all(await publish(road, *numbered(10)))
    await set_topic(config, {"max.message.bytes": "2000", "cleanup.policy": "delete"})
    large: list[Message] = []
    refused = False
    while not refused:  # the broker takes the setting over in its own time
        some = numbered(3, first=20 + len(large), body=bytes(5000))
        large += some
        refused = await publish(road, *some) == [False] * 3
    assert await publish(road, *numbered(1, destination="other")) == [True], "another topic has nothing to do with it"
    await publish_all(road, large)
    later = numbered(10, first=1000)
    await publish_all(road, later)
    consumer = await road.consume(CODE, "billing")
    await receive_ids(consumer, ids_of([*numbered(10), *large, *later]))


# --- topics with other settings ------------------------------------------------------------------------------


async def test_a_broker_that_does_not_tell_a_topics_settings_is_used(
    config: KafkaConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def nothing(*_: object) -> dict[str, object]:
        return {}

    monkeypatch.setattr("bus.transports.kafka.places.topic_settings", nothing)
    async with opened(config) as road:
        await ensure(road)
        await publish_all(road, numbered(3))
        await receive_ids(await road.consume(CODE, "billing"), ids_of(numbered(3)))


async def test_a_topic_that_is_there_with_a_smaller_limit_is_adapted_and_keeps_its_settings(
    config: KafkaConfig, road: KafkaTransport
) -> None:
    settings = {"max.message.bytes": "1000", "retention.ms": "86400000", "segment.bytes": "2097152"}
    await make_topic(config, settings, partitions=3)
    await ensure(road)
    large = message(1, body=bytes(MEBIBYTE))
    assert await publish(road, large) == [True]
    assert len((await describe(config))["partitions"]) == 3
    now = await settings_of(config)
    assert int(now["max.message.bytes"]) > MEBIBYTE
    assert {name: now[name] for name in ("retention.ms", "segment.bytes")} == {
        name: settings[name] for name in ("retention.ms", "segment.bytes")
    }


async def test_a_topic_that_compresses_is_read(config: KafkaConfig, road: KafkaTransport) -> None:
    await make_topic(config, {"compression.type": "zstd"})
    await ensure(road)
    await publish_all(road, numbered(10))
    await receive_ids(await road.consume(CODE, "billing"), ids_of(numbered(10)))


async def test_a_topic_that_drops_messages_of_its_own_accord_is_refused(
    config: KafkaConfig, road: KafkaTransport
) -> None:
    await make_topic(config, {"cleanup.policy": "compact"})
    with pytest.raises(TransportRefused, match="keeps only the last message of a key") as refused:
        await ensure(road)
    assert "cleanup.policy=delete" in refused.value.hint
    assert await publish(road, message(0)) == [False]
    assert "cleanup.policy" in road.conditions()["kafka"]
    await road.ensure(Destination(code="other"), [subscription("mail")])
    assert await publish(road, message(0, destination="other")) == [True], "the others go on"


async def test_a_topic_is_made_as_it_was_asked_for(config: KafkaConfig) -> None:
    config = changed(config, partitions=4, replication=1, min_insync_replicas=1, retention=3600.0)
    async with opened(config) as road:
        await ensure(road)
    assert len((await describe(config))["partitions"]) == 4
    settings = await settings_of(config)
    assert settings["min.insync.replicas"] == "1"
    assert settings["retention.ms"] == "3600000"
    assert settings["cleanup.policy"] == "delete"


async def test_more_copies_than_brokers_are_refused_in_words(config: KafkaConfig) -> None:
    async with opened(changed(config, replication=3)) as road:
        with pytest.raises(TransportRefused, match="making destination orders"):
            await ensure(road)


# --- names ---------------------------------------------------------------------------------------------------


async def test_codes_that_kafka_would_confuse_are_apart(road: KafkaTransport) -> None:
    codes = ["a.b", "a_b", "a-b", "a--b", "a-u", "a_u", "_", "A.B"]
    for code in codes:
        await road.ensure(Destination(code=code), [subscription("billing")])
    sent = {code: message(n, destination=code) for n, code in enumerate(codes)}
    assert await publish(road, *sent.values()) == [True] * len(codes)
    for code in codes:
        consumer = await road.consume(code, "billing")
        (found,) = await receive_ids(consumer, {sent[code].id})
        assert found.message == sent[code]
        await consumer.close()


async def test_a_code_that_kafka_cannot_name_is_refused_before_anything_is_made(road: KafkaTransport) -> None:
    code = "_" * 128
    with pytest.raises(InvalidDestination, match="takes 249") as refused:
        road.check(Destination(code=code))
    assert refused.value.field == "code"
    with pytest.raises(InvalidDestination):
        await road.ensure(Destination(code=code), [subscription()])
    assert road.lags() == {} or road.lags() is None


# --- credentials ---------------------------------------------------------------------------------------------


async def test_wrong_credentials_are_said_to_be_wrong(broker: KafkaServer) -> None:
    login = changed(quick(broker.sasl_bootstrap), username=USER, password="guess")
    async with opened(login) as road:
        with pytest.raises(TransportRefused, match="connecting to ") as refused:
            await ensure(road)
        assert "password" in refused.value.hint
        assert "guess" not in f"{refused.value} {refused.value.hint} {login}"
        assert road.lags() is None
        assert road.conditions()["kafka"]
        assert await publish(road, message(0)) == [False]


async def test_right_credentials_publish_and_consume(broker: KafkaServer) -> None:
    async with opened(changed(quick(broker.sasl_bootstrap), username=USER, password=PASSWORD)) as road:
        await ensure(road)
        assert await publish(road, *numbered(3)) == [True] * 3
        await receive_ids(await road.consume(CODE, "billing"), ids_of(numbered(3)))


async def test_a_mechanism_that_the_broker_does_not_know_is_named(broker: KafkaServer) -> None:
    login = changed(quick(broker.sasl_bootstrap), username=USER, password=PASSWORD, mechanism="SCRAM-SHA-512")
    async with opened(login) as road:
        with pytest.raises(TransportRefused):
            await ensure(road)


async def test_a_destination_that_is_forbidden_harms_no_other(broker: KafkaServer) -> None:
    config = changed(quick(broker.sasl_bootstrap), username=USER, password=PASSWORD)
    await forbid(changed(config, bootstrap=(broker.bootstrap,), username=None, password=None), USER)
    async with opened(config) as road:
        await road.ensure(Destination(code="other"), [subscription("mail")])
        with pytest.raises(TransportRefused, match="making destination orders") as refused:
            await ensure(road)
        assert "grant" in refused.value.hint
        consumer = await road.consume("other", "mail")
        for n in range(5):  # figures are as of another look at the topics
            assert await publish(road, message(n, destination="other")) == [True]
            await eventually(lambda: (road.lags() or {})["other", "mail"].records == 1)
            consumer.ack(await receive(consumer))
            await eventually(lambda: (road.lags() or {})["other", "mail"] == (0, None))
        assert await publish(road, message(0)) == [False]
        assert "orders" in road.conditions()["kafka"]


async def test_the_lag_of_a_group_that_may_not_be_asked_for_is_unknown(broker: KafkaServer) -> None:
    """Else the bus would take what waits there for lost."""
    config = changed(quick(broker.sasl_bootstrap), username=USER, password=PASSWORD)
    async with opened(config) as road:
        await ensure(road)
        await eventually(lambda: (road.lags() or {})[CODE, "billing"] == (0, None))
        await forbid(changed(config, bootstrap=(broker.bootstrap,), username=None, password=None), USER, group(config))
        await publish_all(road, numbered(3))
        await eventually(lambda: (road.lags() or {})[CODE, "billing"].oldest == 0, within=30)


# --- encryption ----------------------------------------------------------------------------------------------


async def test_an_encrypted_connection_publishes_and_consumes(broker: KafkaServer, tmp_path: Path) -> None:
    async with opened(encrypted(broker, broker.ca, broker.ca, tmp_path)) as road:
        await ensure(road)
        assert await publish(road, *numbered(3)) == [True] * 3
        await receive_ids(await road.consume(CODE, "billing"), ids_of(numbered(3)))


async def test_a_broker_that_is_not_trusted_is_refused(broker: KafkaServer, tmp_path: Path) -> None:
    async with opened(encrypted(broker, trustme.CA(), broker.ca, tmp_path)) as road:
        with pytest.raises(TransportRefused, match="certificate verify failed") as refused:
            await ensure(road)
    assert "authorities" in refused.value.hint


async def test_a_certificate_that_the_broker_does_not_trust_is_refused(broker: KafkaServer, tmp_path: Path) -> None:
    async with opened(encrypted(broker, broker.ca, trustme.CA(), tmp_path)) as road:
        with pytest.raises(TransportError):
            await ensure_once(road)
        assert road.conditions()["kafka"]


# --- starts --------------------------------------------------------------------------------------------------


async def test_a_subscription_may_start_at_a_time(road: KafkaTransport) -> None:
    await ensure(road)
    await publish_all(road, numbered(5))
    before = now()
    await eventually(lambda: now() > before, what="another millisecond")
    start = now()
    later = numbered(5, first=10)
    await publish_all(road, later)
    await road.ensure(Destination(code=CODE), [subscription("replay", start_at=start)])
    found = await receive_ids(await road.consume(CODE, "replay"), ids_of(later))
    assert {item.message.id for item in found} == ids_of(later)
    assert not any(item.suspect for item in found)


async def test_a_time_ahead_is_the_next_message(road: KafkaTransport) -> None:
    await ensure(road)
    await publish_all(road, numbered(5))
    await road.ensure(Destination(code=CODE), [subscription("later", start_at=now() + 3_600_000)])
    await publish_all(road, numbered(1, first=10))
    found = await receive_ids(await road.consume(CODE, "later"), ids_of(numbered(1, first=10)))
    assert len(found) == 1


async def test_processes_that_start_together_miss_nothing(config: KafkaConfig) -> None:
    """Each publishes as soon as its own ensure has returned, while the others are still at theirs."""
    async with opened(config) as one, opened(config) as two, opened(config) as three:
        roads = [one, two, three]

        async def start(n: int) -> None:
            await ensure(roads[n])
            assert await publish(roads[n], *numbered(20, first=100 * n)) == [True] * 20

        await asyncio.gather(*(start(n) for n in range(3)))
        expected = {one.id for n in range(3) for one in numbered(20, first=100 * n)}
        await receive_ids(await one.consume(CODE, "billing"), expected)


async def test_a_consumer_of_a_subscription_that_nobody_made_waits_for_it(config: KafkaConfig) -> None:
    async with opened(config) as road, opened(config) as other:
        consumer = await other.consume(CODE, "billing")
        await nothing_comes(consumer, within=0.5)
        await ensure(road)
        await publish_all(road, numbered(3))
        await receive_ids(consumer, ids_of(numbered(3)))


async def test_a_subscription_removed_elsewhere_is_deleted_though_it_is_being_consumed(config: KafkaConfig) -> None:
    async with opened(config) as road, opened(config) as other:
        await ensure(road, "billing", "mail")
        await publish_all(road, numbered(3))
        consumer = await other.consume(CODE, "billing")  # a process that has not heard of the subscription
        consumer.ack(await receive(consumer, count=3))
        await road.remove(CODE, "billing")
        await eventually(lambda: not consumer._holdings.partitions, what="it notices that it is out of the group")
        await publish_all(road, numbered(3, first=10))
        await nothing_comes(consumer, within=1.5)
        await ensure(road, "billing")
        await publish_all(road, numbered(3, first=20))
        found = await receive_ids(consumer, ids_of(numbered(3, first=20)))
        assert {item.message.id for item in found} == ids_of(numbered(3, first=20))


# --- helpers -------------------------------------------------------------------------------------------------


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


def now() -> int:
    return SystemClock().now()


async def make_topic(config: KafkaConfig, settings: dict[str, str], *, partitions: int = 1) -> None:
    async with operator(config) as client:
        await client.create_topics([NewTopic(topic(config), partitions, 1, topic_configs=settings)])


async def set_topic(config: KafkaConfig, settings: dict[str, str]) -> None:
    async with operator(config) as client:
        await client.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic(config), settings)])


async def forbid(config: KafkaConfig, user: str, group: str = "") -> None:
    """Forbid somebody everything about a group, or about the topic, by a rule of its name."""
    kind, name = (3, group) if group else (2, topic(config))
    any_host, literal, everything, deny = "*", 3, 2, 2
    rule = CreateAclsRequest(kind, name, literal, f"User:{user}", any_host, everything, deny)
    async with operator(config) as client:
        ((error_code, text),) = (await client._send_request(rule)).creation_responses
    assert not error_code, text


async def describe(config: KafkaConfig) -> dict:
    async with operator(config) as client:
        (found,) = await client.describe_topics([topic(config)])
    return found


async def settings_of(config: KafkaConfig) -> dict[str, str]:
    async with operator(config) as client:
        (answer,) = await client.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic(config))])
    return {name: value for _, _, _, _, entries in answer.resources for name, value, *_ in entries}
