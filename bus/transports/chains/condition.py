"""How groups of brokers are, as the rules of a chain need to know it."""

from __future__ import annotations

from bus.domain.ordering.obstacles import GroupState
from bus.ports.broker_group import BrokerGroup, Standing


def group_state(group: BrokerGroup, standing: Standing | None) -> GroupState:
    """Return the state of a group as this process knows it, with what it said when it was asked last; asks nobody."""
    return GroupState(group.lags() is not None, group.condition(), standing)
