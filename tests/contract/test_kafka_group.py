"""Two brokers of a Kafka cluster keep the contract of a group, with and without a disk write for each message."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from bus.testing.contracts.broker_group import BrokerGroupContract
from bus.transports.kafka.strict import KafkaGroup
from tests.servers.kafka_cluster_fixtures import cluster, opened_group, settings


class TestKafkaGroup(BrokerGroupContract):
    @pytest.fixture
    async def group(self) -> AsyncIterator[KafkaGroup]:
        async with opened_group(settings(cluster())) as group:
            yield group
