"""The compensator as a role of a process."""

from __future__ import annotations

import asyncio

from bus.bootstrap import Context, RoleServices
from bus.cluster.cluster_backlog import ClusterBacklog
from bus.cluster.handover_publisher import RemoteDispatching
from bus.stores.cancellations import Cancellations
from bus.transports.publishing import DestinationPublisher
from compensator.cancellation import Cancellation
from compensator.compensator import Compensator
from compensator.expiry import Expiry
from compensator.former_transports import FormerTransports
from compensator.rewinding import ClockRewind
from compensator.stuck import StuckSearch


class CompensatorService:
    """The periodic work: due and stuck deliveries, cancellation, retention, former transports."""

    def __init__(self, context: Context, offered: RoleServices) -> None:
        store, registry, transports, clock = context.store, context.registry, context.router, context.clock
        waiting = ClusterBacklog(context.members, context.spools)
        publisher = DestinationPublisher(transports, context.events, clock, context.spans)
        dispatching = offered.dispatching or RemoteDispatching(context.members, context.peers, clock)
        self._compensator = Compensator(
            store,
            registry,
            publisher,
            dispatching,
            context.events,
            clock,
            context.owner,
            waiting,
            context.due,
            context.spans,
        )
        self._stuck = StuckSearch(store, registry, transports, waiting, clock)
        self._expiry = Expiry(store, clock)
        self._cancellation = Cancellation(store, registry, clock, Cancellations(store, context.rollups, context.events))
        self._former_transports = FormerTransports(registry, transports, clock)
        self._rewinding = ClockRewind(store, context.members, clock)
        self.offers = RoleServices(
            conditions={"stuck": lambda: self._stuck.trouble, "retention": lambda: self._expiry.trouble},
            async_meters=(self._compensator.measure,),
        )

    async def run(self, ready: asyncio.Event, stopping: asyncio.Event) -> None:
        """Watch until ``stopping``."""
        async with asyncio.TaskGroup() as group:
            watches = [
                group.create_task(watch.run())
                for watch in (
                    self._compensator,
                    self._stuck,
                    self._expiry,
                    self._cancellation,
                    self._former_transports,
                    self._rewinding,
                )
            ]
            ready.set()
            await stopping.wait()
            for watch in watches:
                watch.cancel()


ROLE = CompensatorService
