"""A Kafka that tests of this folder share, and one that they may kill, stop and wipe."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from bus.transports.kafka import KafkaConfig, KafkaTransport
from bus.transports.kafka.strict import KafkaGroup
from tests.integration.kafka.kafka_group_world import NAME, ensure
from tests.servers.kafka import KafkaServer
from tests.servers.kafka_cluster import KafkaCluster
from tests.servers.kafka_cluster_fixtures import cluster, opened_group, settings
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


@pytest.fixture
def brokers() -> Iterator[KafkaCluster]:
    """A cluster of two brokers, running; whatever a test does to it is undone."""
    found = cluster()
    yield found
    found.mend()


@pytest.fixture
def group_config(brokers: KafkaCluster) -> KafkaConfig:
    return settings(brokers, request_timeout=3.0, publish_timeout=6.0)


@pytest.fixture
async def group(group_config: KafkaConfig) -> AsyncIterator[KafkaGroup]:
    async with opened_group(group_config) as group:
        await ensure(group, NAME)
        yield group
