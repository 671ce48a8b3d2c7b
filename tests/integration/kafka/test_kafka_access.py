"""Rights on a cluster, and over an encrypted connection: a clear error, and the others go on."""

from __future__ import annotations

from pathlib import Path

import pytest
import trustme
from aiokafka.protocol.admin import CreateAclsRequest

from bus.domain.destination import Destination
from bus.errors import TransportError, TransportRefused
from bus.testing.writes import message
from bus.transports.kafka import KafkaConfig
from tests.integration.kafka.kafka_world import (
    CODE,
    encrypted,
    ensure,
    ensure_once,
    eventually,
    group,
    ids_of,
    numbered,
    operator,
    publish,
    publish_all,
    receive,
    receive_ids,
    subscription,
    topic,
)
from tests.servers.kafka import PASSWORD, USER, KafkaServer
from tests.servers.kafka_fixtures import changed, opened, quick

MEBIBYTE = 1_048_576


async def test_wrong_credentials_are_said_to_be_wrong(broker: KafkaServer) -> None:
    login = changed(quick(broker.sasl_bootstrap), username=USER, password="guess")
    async with opened(login) as transport:
        with pytest.raises(TransportRefused, match="connecting to ") as refused:
            await ensure(transport)
        assert "password" in refused.value.hint
        assert "guess" not in f"{refused.value} {refused.value.hint} {login}"
        assert transport.lags() is None
        assert transport.conditions()["kafka"]
        assert await publish(transport, message(0)) == [False]


async def test_right_credentials_publish_and_consume(broker: KafkaServer) -> None:
    async with opened(changed(quick(broker.sasl_bootstrap), username=USER, password=PASSWORD)) as transport:
        await ensure(transport)
        assert await publish(transport, *numbered(3)) == [True] * 3
        await receive_ids(await transport.consume(CODE, "billing"), ids_of(numbered(3)))


async def test_a_mechanism_that_the_broker_does_not_know_is_named(broker: KafkaServer) -> None:
    login = changed(quick(broker.sasl_bootstrap), username=USER, password=PASSWORD, mechanism="SCRAM-SHA-512")
    async with opened(login) as transport:
        with pytest.raises(TransportRefused):
            await ensure(transport)


async def test_a_destination_that_is_forbidden_harms_no_other(broker: KafkaServer) -> None:
    config = changed(quick(broker.sasl_bootstrap), username=USER, password=PASSWORD)
    await forbid(changed(config, bootstrap=(broker.bootstrap,), username=None, password=None), USER)
    async with opened(config) as transport:
        await transport.ensure(Destination(code="other"), [subscription("mail")])
        with pytest.raises(TransportRefused, match="making destination orders") as refused:
            await ensure(transport)
        assert "grant" in refused.value.hint
        consumer = await transport.consume("other", "mail")
        for n in range(5):  # figures are as of another look at the topics
            assert await publish(transport, message(n, destination="other")) == [True]
            await eventually(lambda: (transport.lags() or {})["other", "mail"].records == 1)
            consumer.ack(await receive(consumer))
            await eventually(lambda: (transport.lags() or {})["other", "mail"] == (0, None))
        assert await publish(transport, message(0)) == [False]
        assert "orders" in str(transport.conditions()["kafka"])


async def test_the_lag_of_a_group_that_may_not_be_asked_for_is_unknown(broker: KafkaServer) -> None:
    """Else the bus would take what waits there for lost."""
    config = changed(quick(broker.sasl_bootstrap), username=USER, password=PASSWORD)
    async with opened(config) as transport:
        await ensure(transport)
        await eventually(lambda: (transport.lags() or {})[CODE, "billing"] == (0, None))
        await forbid(changed(config, bootstrap=(broker.bootstrap,), username=None, password=None), USER, group(config))
        await publish_all(transport, numbered(3))
        await eventually(lambda: (transport.lags() or {})[CODE, "billing"].oldest == 0, within=30)


async def test_an_encrypted_connection_publishes_and_consumes(broker: KafkaServer, tmp_path: Path) -> None:
    async with opened(encrypted(broker, broker.ca, broker.ca, tmp_path)) as transport:
        await ensure(transport)
        assert await publish(transport, *numbered(3)) == [True] * 3
        await receive_ids(await transport.consume(CODE, "billing"), ids_of(numbered(3)))


async def test_a_broker_that_is_not_trusted_is_refused(broker: KafkaServer, tmp_path: Path) -> None:
    async with opened(encrypted(broker, trustme.CA(), broker.ca, tmp_path)) as transport:
        with pytest.raises(TransportRefused, match="TLS: certificate of an unknown authority") as refused:
            await ensure(transport)
    assert "authorities" in refused.value.hint


async def test_a_certificate_that_the_broker_does_not_trust_is_refused(broker: KafkaServer, tmp_path: Path) -> None:
    async with opened(encrypted(broker, broker.ca, trustme.CA(), tmp_path)) as transport:
        with pytest.raises(TransportError):
            await ensure_once(transport)
        assert transport.conditions()["kafka"]


async def forbid(config: KafkaConfig, user: str, group: str = "") -> None:
    """Forbid somebody everything about a group, or about the topic, by a rule of its name."""
    kind, name = (3, group) if group else (2, topic(config))
    any_host, literal, everything, deny = "*", 3, 2, 2
    rule = CreateAclsRequest(kind, name, literal, f"User:{user}", any_host, everything, deny)
    async with operator(config) as client:
        ((error_code, text),) = (await client._send_request(rule)).creation_responses
    assert not error_code, text
