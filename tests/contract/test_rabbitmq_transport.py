"""The RabbitMQ transport keeps the contract: on one cluster, and on two, whichever of them is published to."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from bus.clock import SystemClock
from bus.testing.contracts.transport import TransportContract
from bus.testing.quarantine import ForbiddenQuarantine
from bus.testing.writes import DESTINATION
from bus.transports.rabbitmq import BACKUP, Patience, RabbitmqConfig, RabbitmqTransport, parse_cluster
from tests.servers.rabbitmq_fixtures import local, shared

QUICK = Patience(poll_every=0.05)


@pytest.fixture
def primary() -> str:
    return shared()


@pytest.fixture
def backup() -> str:
    return local("backup").url


@asynccontextmanager
async def opened(*urls: str) -> AsyncIterator[RabbitmqTransport]:
    clusters = [parse_cluster(url, "test") for url in urls]
    config = RabbitmqConfig(*clusters)._replace(patience=QUICK)
    transport = RabbitmqTransport(config, ForbiddenQuarantine(), SystemClock(), lambda: 0.5)
    running = asyncio.create_task(transport.run())
    try:
        for code in (DESTINATION, "other", "nowhere"):
            for name in ("billing", "mail"):
                await transport.remove(code, name)
        yield transport
    finally:
        running.cancel()
        await asyncio.wait([running])
        await transport.close()


class TestRabbitmqTransport(TransportContract):
    @pytest.fixture
    async def transport(self, primary: str) -> AsyncIterator[RabbitmqTransport]:
        async with opened(primary) as transport:
            yield transport


class TestRabbitmqTransportOnTwo(TransportContract):
    @pytest.fixture
    async def transport(self, primary: str, backup: str) -> AsyncIterator[RabbitmqTransport]:
        async with opened(primary, backup) as transport:
            yield transport


class TestRabbitmqTransportOnItsBackup(TransportContract):
    @pytest.fixture
    async def transport(self, primary: str, backup: str) -> AsyncIterator[RabbitmqTransport]:
        async with opened(primary, backup) as transport:
            transport.prefer(BACKUP)
            assert transport.active == BACKUP
            yield transport
