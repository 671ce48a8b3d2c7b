"""The receiver as a role of a process."""

from __future__ import annotations

import asyncio

from bus.bootstrap import Context, RoleServices
from bus.cluster.writing_again import AGAIN, WritingAgainApp
from bus.domain.lanes import STORE
from bus.http.messages import PREFIX
from bus.transports.publishing import DestinationPublisher
from receiver.app import IngestApp
from receiver.documented import PATHS
from receiver.duplicates import IdempotencyKeys, RecentIds
from receiver.endpoint import MessageEndpoint
from receiver.events_app import PATH as EVENTS_PATH
from receiver.events_app import EventsApp
from receiver.forwarding import ACCEPT, KEYED, ForwardedApp, OrderForwarder
from receiver.ingest import Ingest
from receiver.key_owners import KeyOwners
from receiver.known_producers import KnownProducers
from receiver.placement import Placement
from receiver.producers_app import PREFIX as PRODUCERS
from receiver.producers_app import ProducersApp
from receiver.publishing import SpoolPublisher
from receiver.quotas import Quotas
from receiver.rejections import Rejections
from receiver.strict_writing import StrictWriting
from receiver.throttled_sources import TurnedAway


class ReceiverService:
    """The ingest routes and the publisher."""

    def __init__(self, context: Context, _: RoleServices) -> None:
        spool, registry, clock = context.spools["receiver"], context.registry, context.clock
        self._publisher = SpoolPublisher(
            registry,
            DestinationPublisher(context.router, context.events, clock, context.spans),
            spool,
            context.store,
            clock,
        )
        self._sources = [(spool, "store")]
        if "direct" in context.spools:
            self._sources.append((context.spools["direct"], STORE))
        turned_away, owners = TurnedAway(clock), KeyOwners(context.members)
        self._ingest = ingest = Ingest(
            registry,
            context.configuration,
            OrderForwarder(context.leaders, context.chains, owners, context.peers, clock),
            StrictWriting(context.chains),
            Placement(spool, context.router),
            RecentIds(context.store, clock),
            IdempotencyKeys(context.store, clock),
            context.claims,
            Quotas(turned_away, clock),
            self._publisher,
            context.events,
            clock,
            context.spans,
        )
        rejections, producers = Rejections(clock), KnownProducers(clock)
        self.offers = RoleServices(
            turned_away=turned_away.told,
            rejected=rejections.told,
            producers=(producers.told,),
            known_producers=producers.known,
            meters=(producers.measure,),
            conditions={"destinations": lambda: self._publisher.trouble},
            documented=PATHS,
            routes={
                PREFIX: IngestApp(ingest, context.keyring, rejections, producers),
                **dict.fromkeys((ACCEPT, KEYED), ForwardedApp(ingest, context.leaders, owners, context.peer_key)),
                AGAIN: WritingAgainApp(context.chains, context.peer_key),
                PRODUCERS: ProducersApp(context.chains, registry, context.keyring),
                EVENTS_PATH: EventsApp(context.events, context.keyring),
            },
            endpoint=MessageEndpoint(ingest, context.keyring, producers),
        )

    async def run(self, ready: asyncio.Event, stopping: asyncio.Event) -> None:
        """Publish until ``stopping``; what is left stays in the spool."""
        async with asyncio.TaskGroup() as group:
            publishing = group.create_task(self._publisher.run(stopping))
            await self._ingest.recover(self._sources)
            ready.set()
            await publishing


ROLE = ReceiverService
