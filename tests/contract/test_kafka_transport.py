"""The Kafka transport keeps the contract: with as many partitions as by default, and with one."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from bus.testing.contracts.transport import TransportContract
from bus.transports.kafka import KafkaTransport
from tests.servers.kafka_fixtures import changed, opened, quick, shared


class TestKafkaTransport(TransportContract):
    @pytest.fixture
    async def transport(self) -> AsyncIterator[KafkaTransport]:
        async with opened(quick(shared())) as transport:
            yield transport


class TestKafkaTransportOfOnePartition(TransportContract):
    @pytest.fixture
    async def transport(self) -> AsyncIterator[KafkaTransport]:
        async with opened(changed(quick(shared()), partitions=1)) as transport:
            yield transport
