"""The feed of a process: what its spools hold for the store goes there."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from bus.bootstrap.context import Context
from bus.bootstrap.role_services import RoleServices
from bus.domain.delivery.delivery import decode_outcome
from bus.domain.lanes import STORE
from bus.domain.message import decode_message
from bus.localized_text import localized
from bus.ports.clock import Clock
from bus.ports.spool import Spool
from bus.ports.store import Store
from bus.registry import Registry
from bus.stores.budget import Budget
from bus.stores.feed import Source, StoreFeed
from bus.stores.own_events import OwnEvents
from bus.stores.rollups import Rollups


def make_feed(
    spools: Mapping[str, Spool], store: Store, registry: Registry, rollups: Rollups, own_events: OwnEvents, clock: Clock
) -> StoreFeed:
    """Return what moves the messages and outcomes of these spools into the store, at the rates in force."""
    messages = Budget(lambda: registry.rates.receiver, registry.store_rate)
    outcomes = Budget(lambda: registry.rates.dispatcher, registry.store_rate)
    sources: list[Source] = []
    if "receiver" in spools:
        sources.append(Source(spools["receiver"], "store", decode_message, messages, clock))
    if "direct" in spools:
        sources.append(Source(spools["direct"], STORE, decode_message, messages, clock))
    if "outcomes" in spools:
        sources.append(Source(spools["outcomes"], "store", decode_outcome, outcomes, clock))
    return StoreFeed(store, clock, sources, rollups.count, own_events.keep_deaths)


class FeedService:
    """Runs the feed for as long as any role does: what these leave is written until the process ends."""

    def __init__(self, context: Context, _: RoleServices) -> None:
        self._feed = context.feed
        feed = context.feed
        self.offers = RoleServices(
            conditions={"store": lambda: "" if feed.up else localized("the store does not take writes")}
        )

    async def run(self, ready: asyncio.Event, stopping: asyncio.Event) -> None:
        """Feed until ``stopping``; what is left stays in the spools."""
        async with asyncio.TaskGroup() as group:
            feeding = group.create_task(self._feed.run())
            ready.set()
            await stopping.wait()
            feeding.cancel()
