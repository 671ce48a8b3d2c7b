"""Trace events go to Kafka by the settings of the transport: over an encrypted connection, and with a password."""

from __future__ import annotations

from pathlib import Path

import pytest
import trustme

from bus.domain.identity import new_id
from bus.domain.tracing.events import Stage, TraceEvent
from bus.errors import EventsUnavailable
from bus.events.gathering import EventBuffer
from bus.ports.events import SealedBlock
from bus.transports.kafka import KafkaConfig, KafkaEventSink
from tests.integration.kafka.kafka_world import encrypted, settings_of
from tests.servers.kafka import PASSWORD, USER, KafkaServer
from tests.servers.kafka_fixtures import changed, quick, records

TOPIC = "bus-events"
NOON = 1_732_240_000_123


def block() -> SealedBlock:
    gathering = EventBuffer("receiver", "host-1", NOON)
    gathering.add(TraceEvent(stage=Stage.SENT, at=NOON, id=new_id(NOON), destination="orders"))
    sealed = gathering.close(NOON)
    assert sealed is not None
    return sealed


async def written(config: KafkaConfig) -> SealedBlock:
    """Write a block, and return it."""
    sealed, sink = block(), KafkaEventSink(config, TOPIC)
    try:
        await sink.write([sealed])
    finally:
        await sink.close()
    return sealed


async def read(broker: KafkaServer, config: KafkaConfig) -> list[tuple[bytes, bytes]]:
    """Return what is in the topic, by the door that asks for nothing."""
    plain = changed(quick(broker.bootstrap), prefix=config.prefix)
    return await records(plain, TOPIC)


async def test_events_are_written_with_a_password(broker: KafkaServer) -> None:
    config = changed(quick(broker.sasl_bootstrap), username=USER, password=PASSWORD)
    sealed = await written(config)
    assert await read(broker, config) == [(sealed.emitter.encode(), sealed.line)]


async def test_events_are_written_over_an_encrypted_connection(broker: KafkaServer, tmp_path: Path) -> None:
    config = encrypted(broker, broker.ca, broker.ca, tmp_path)
    sealed = await written(config)
    assert await read(broker, config) == [(sealed.emitter.encode(), sealed.line)]


async def test_a_block_has_the_time_at_which_the_broker_took_it(broker: KafkaServer) -> None:
    """Readers judge by arrival, which no emitter's clock may tell."""
    config = quick(broker.bootstrap)
    await written(config)
    assert (await settings_of(config, config.prefix + TOPIC))["message.timestamp.type"] == "LogAppendTime"


async def test_a_wrong_password_is_said_to_be_wrong(broker: KafkaServer) -> None:
    config = changed(quick(broker.sasl_bootstrap), username=USER, password="guess")
    with pytest.raises(EventsUnavailable, match="no message is affected") as refused:
        await written(config)
    assert "password" in refused.value.hint
    assert "guess" not in f"{refused.value} {refused.value.hint}"
    assert await read(broker, config) == []


@pytest.mark.parametrize("stranger", ["broker", "bus"])
async def test_no_event_is_written_where_one_side_is_not_trusted(
    broker: KafkaServer, tmp_path: Path, stranger: str
) -> None:
    unknown = trustme.CA()
    trusted, shown = (unknown, broker.ca) if stranger == "broker" else (broker.ca, unknown)
    config = encrypted(broker, trusted, shown, tmp_path)
    with pytest.raises(EventsUnavailable) as refused:
        await written(config)
    if stranger == "broker":
        assert "TLS: certificate of an unknown authority" in str(refused.value)
        assert "authorities" in refused.value.hint
    assert await read(broker, config) == []
