"""The group of brokers in memory keeps the contract."""

from __future__ import annotations

import pytest

from bus.testing.broker_group import MemoryGroup
from bus.testing.contracts.broker_group import BrokerGroupContract


class TestMemoryGroup(BrokerGroupContract):
    @pytest.fixture(params=[True, False])
    def group(self, request: pytest.FixtureRequest) -> MemoryGroup:
        return MemoryGroup(fences=request.param)
