"""Progress of consumer groups as any process sees it: a stalled consumer, none, and a healthy one."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from bus.domain.health.progress import Verdict
from bus.transports.kafka import KafkaConfig, KafkaTransport
from tests.harness.hurried_clock import HurriedClock
from tests.integration.kafka.kafka_world import CODE, ensure, eventually, numbered, publish_all, receive
from tests.servers.kafka_fixtures import opened

HASTE = 150
BILLING = (CODE, "billing")


@pytest.fixture
async def watching(config: KafkaConfig) -> AsyncIterator[KafkaTransport]:
    """Another process, which consumes nothing, and for which a minute is over in less than half a second."""
    async with opened(config, clock=HurriedClock(HASTE)) as found:
        await ensure(found, "billing", "mail")
        yield found


def verdict(watching: KafkaTransport, name: str = "billing") -> Verdict | None:
    progress = watching.progress().get((CODE, name))
    return progress.verdict if progress is not None else None


async def test_a_consumer_that_does_not_get_on_is_seen_by_others(
    transport: KafkaTransport, watching: KafkaTransport
) -> None:
    await ensure(transport, "billing", "mail")
    await publish_all(transport, numbered(20))
    mail = await transport.consume(CODE, "mail")
    mail.ack(await receive(mail, count=20))
    consumer = await transport.consume(CODE, "billing")
    held = await receive(consumer, count=20)
    await eventually(lambda: verdict(watching) is Verdict.STALLED)
    found = watching.progress()[BILLING]
    assert set(found.where) <= {str(partition) for partition in range(6)}
    assert found.where
    assert verdict(watching, "mail") in (None, Verdict.WELL)
    consumer.ack(held)
    await eventually(lambda: verdict(watching) in (None, Verdict.WELL))


async def test_a_group_without_a_consumer_has_stopped_until_one_comes(
    transport: KafkaTransport, watching: KafkaTransport
) -> None:
    await ensure(transport, "billing", "mail")
    consumer = await transport.consume(CODE, "billing")
    await publish_all(transport, numbered(5))
    consumer.ack(await receive(consumer, count=5))
    await eventually(lambda: watching.lags()[BILLING].records == 0)
    await consumer.close()
    await publish_all(transport, numbered(5))
    await eventually(lambda: verdict(watching) is Verdict.STOPPED)
    again = await transport.consume(CODE, "billing")
    again.ack(await receive(again, count=5))
    await eventually(lambda: verdict(watching) in (None, Verdict.WELL))
