"""Which consumer of a group reads which partition: as few as possible move."""

from __future__ import annotations

from typing import Any

from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor


def sticky_assignor() -> Any:
    """Return a sticky assignor for one consumer.

    The client library's own keeps what a consumer had on the class, where all consumers of a process overwrite it;
    a class for each keeps them apart. Nor does the library ever tell it the generation, by which it settles who had a
    partition last: ``on_generation_assignment`` has to be called after each rebalance.
    """
    return type("SubscriptionAssignor", (StickyPartitionAssignor,), {})
