"""Queues on the roads follow the configuration, also over a restart in the middle of a change."""

from __future__ import annotations

from bus.domain.catalog import Catalog
from bus.domain.destination import Destination
from bus.domain.subscription import Subscription
from bus.testing.transport import MemoryTransport
from bus.transports.roads import Roads


def catalog(*names: str) -> Catalog:
    return Catalog(
        [Destination(code="orders")],
        [Subscription(destination="orders", name=name, url="http://a.example/") for name in names],
    )


async def test_a_queue_that_a_crash_left_behind_is_removed() -> None:
    road = MemoryTransport()
    await Roads([road]).apply(catalog("shop", "mail"))
    assert set(road.lags() or {}) == {("orders", "shop"), ("orders", "mail")}
    restarted = Roads([road])
    await restarted.apply(catalog("shop"))
    assert set(road.lags() or {}) == {("orders", "shop")}


async def test_a_new_subscription_gets_a_queue_and_a_removed_one_loses_it() -> None:
    road = MemoryTransport()
    roads = Roads([road])
    await roads.apply(catalog("shop"))
    await roads.apply(catalog("shop", "mail"))
    assert set(road.lags() or {}) == {("orders", "shop"), ("orders", "mail")}
    await roads.apply(catalog("mail"))
    assert set(road.lags() or {}) == {("orders", "mail")}
