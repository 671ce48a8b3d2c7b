"""The receiver as a role of a process."""

from __future__ import annotations

import asyncio

from bus.bootstrap import Context, Offers
from bus.domain.message import decode_message
from bus.stores.feed import StoreFeed
from bus.transports.publishing import DestinationPublisher
from receiver.app import PREFIX, IngestApp
from receiver.documented import PATHS
from receiver.duplicates import IdempotencyKeys, Recent
from receiver.events_app import PATH as EVENTS_PATH
from receiver.events_app import EventsApp
from receiver.ingest import Ingest
from receiver.publishing import SpoolPublisher
from receiver.quotas import Quotas
from receiver.rejections import Rejections
from receiver.turned_away import TurnedAway

_CATCH_UP = 1.0


class ReceiverService:
    """The ingest routes, the publisher, and the feed that takes messages from the spool to the store."""

    def __init__(self, context: Context, _: Offers) -> None:
        spool, registry, clock = context.spools["receiver"], context.registry, context.clock
        self._publisher = SpoolPublisher(
            registry, DestinationPublisher(context.router, context.events, clock), spool, context.store, clock
        )
        self._feed = StoreFeed(
            spool,
            context.store,
            clock,
            consumer="store",
            decode=decode_message,
            total=lambda: registry.rates.receiver,
            rate_of=registry.store_rate,
            count=context.rollups.count,
        )
        turned_away = TurnedAway(clock)
        ingest = Ingest(
            registry,
            spool,
            Recent(context.store, clock),
            IdempotencyKeys(context.store, clock),
            Quotas(spool, turned_away, clock),
            self._publisher,
            context.events,
            clock,
        )
        rejections = Rejections(clock)
        self.offers = Offers(
            turned_away=turned_away.told,
            rejected=rejections.told,
            conditions={"destinations": lambda: self._publisher.trouble},
            documented=PATHS,
            routes={
                PREFIX: IngestApp(ingest, context.keyring, rejections),
                EVENTS_PATH: EventsApp(context.events, context.keyring),
            },
        )

    async def run(self, ready: asyncio.Event, stopping: asyncio.Event) -> None:
        """Publish and store until ``stopping``; what is left stays in the spool."""
        async with asyncio.TaskGroup() as group:
            feed = group.create_task(self._feed.run())
            publishing = group.create_task(self._publisher.run(stopping))
            # Messages of an earlier life reach the store first, so that a repeated id is recognised.
            await self._feed.caught_up(_CATCH_UP)
            ready.set()
            await publishing
            feed.cancel()


ROLE = ReceiverService
