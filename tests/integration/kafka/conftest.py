"""A Kafka that tests of this folder share, and one that they may kill, stop and wipe."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from bus.transports.kafka import KafkaConfig, KafkaTransport
from tests.servers.kafka import KafkaServer
from tests.servers.kafka_fixtures import local, opened, quick, shared


@pytest.fixture
def broker() -> Iterator[KafkaServer]:
    """The broker, running; whatever a test does to it is undone."""
    server = local()
    yield server
    server.resume()
    if not server.child.running:
        server.start()


@pytest.fixture
def config() -> KafkaConfig:
    return quick(shared())


@pytest.fixture
async def transport(config: KafkaConfig) -> AsyncIterator[KafkaTransport]:
    async with opened(config) as transport:
        yield transport
