"""Three RabbitMQ nodes keep the contract of a group."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from bus.clock import SystemClock
from bus.testing.contracts.broker_group import BrokerGroupContract
from bus.testing.quarantine import ForbiddenQuarantine
from bus.testing.writes import DESTINATION
from bus.transports.rabbitmq import parse_cluster
from bus.transports.rabbitmq.strict import PATIENCE, RabbitmqGroup
from tests.servers.rabbitmq_fixtures import cluster


class TestRabbitmqGroup(BrokerGroupContract):
    @pytest.fixture
    async def group(self) -> AsyncIterator[RabbitmqGroup]:
        url = parse_cluster(cluster("a").url, "test")
        patience = PATIENCE._replace(poll_every=0.05)
        group = RabbitmqGroup("a", url, ForbiddenQuarantine(), SystemClock(), lambda: 0.5, patience)
        running = asyncio.create_task(group.run())
        try:
            for code in (DESTINATION, "other"):
                for name in ("billing", "mail"):
                    await group.remove(code, name)
            yield group
        finally:
            running.cancel()
            await asyncio.wait([running])
            await group.close()
