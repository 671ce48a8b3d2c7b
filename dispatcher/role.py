"""The dispatcher as a role of a process."""

from __future__ import annotations

import asyncio
import itertools
import logging
import secrets
from collections.abc import Iterator

from bus.bootstrap import Context, RoleServices
from bus.cluster.handover_publisher import WaitingHandover
from bus.cluster.leaders import Task
from bus.cluster.peers import PREFIX
from bus.domain.delivery.delivery import Delivery
from bus.domain.delivery.leases import retries_of
from bus.domain.subscription import PAUSED_BY_410, Subscription
from bus.domain.tracing import events as events_of
from bus.errors import BusError
from dispatcher.dependencies import Dependencies
from dispatcher.dispatcher import Dispatcher
from dispatcher.handover_app import HandoverApp, Queue
from dispatcher.outcomes import OutcomeLog
from dispatcher.retries.retrier import Retrier

_log = logging.getLogger(__name__)
_CATCH_UP = 2.0


class DispatcherService:
    """Workers, and the feed that takes their outcomes from the spool to the store."""

    def __init__(self, context: Context, _: RoleServices) -> None:
        self._context = context
        self._gone: asyncio.Queue[Subscription] = asyncio.Queue()
        spool = context.spools["outcomes"]
        outcomes = OutcomeLog(spool, context.events, context.clock, context.registry.spool_share)
        self._retrier = Retrier(
            spool,
            outcomes,
            self._room,
            self._offer,
            context.clock,
            context.store,
            self._timeout,
            retries_of(context.owner),
            lambda: context.members.too_slow,
        )
        dependencies = Dependencies(
            poster=context.poster,
            outcomes=outcomes,
            store=context.store,
            clock=context.clock,
            noise=context.noise,
            node=context.node,
            since=lambda: context.members.me.since,
            attempt_ids=_attempt_ids(),
            gone=self._gone.put_nowait,
            passed=self._retrier.passed,
            may_start=lambda: context.members.may_start,
            keeps=self._leads,
            epoch=self._epoch,
            slots=context.slots,
            spans=context.spans,
        )
        waiting = WaitingHandover(context.members, context.peers, context.leaders)
        self._dispatcher = Dispatcher(
            context.router, dependencies, context.members.shares, waiting.hand, self._leads, context.chains.tenure
        )
        registry = context.registry
        self._feed = context.feed
        self._feed.source(spool).follower = self._retrier
        registry.listen(self._dispatcher.apply)
        context.members.beyond = self._dispatcher.beyond
        context.members.slower = self._dispatcher.slower
        context.members.is_reshared = lambda: self._dispatcher.is_reshared and context.leaders.is_current
        context.members.listen(self._dispatcher.reshare)
        context.leaders.listen(self._dispatcher.follow_leaders)
        context.chains.listen(self._dispatcher.follow_leaders)
        handover = HandoverApp(
            _direct(context),
            self._dispatcher,
            self._dispatcher,
            registry,
            self._leads,
            context.members.promise,
            context.peer_key,
        )
        self.offers = RoleServices(
            dispatching=self._dispatcher,
            sampling=self._dispatcher,
            activity=self._dispatcher.activity,
            carried=self._dispatcher.carried,
            workers=self._dispatcher.workers,
            active_workers=self._dispatcher.active_workers,
            breakers=self._dispatcher.open_breakers,
            meters=(self._dispatcher.measure,),
            routes={PREFIX: handover},
        )

    async def run(self, ready: asyncio.Event, stopping: asyncio.Event) -> None:
        """Deliver until ``stopping``."""
        async with asyncio.TaskGroup() as group:
            # Outcomes of an earlier life reach the store first, so that what they delivered is not POSTed again.
            await self._feed.caught_up(_CATCH_UP)
            pausing = group.create_task(self._pause_gone())
            retrying = group.create_task(self._retrier.run())
            delivering = group.create_task(self._dispatcher.run(self._context.registry.catalog, stopping))
            ready.set()
            await delivering
            retrying.cancel()
            self._retrier.stop()
            if await self._feed.caught_up(_CATCH_UP):
                await self._retrier.give_up()
            pausing.cancel()

    def _leads(self, code: str) -> bool:
        """Whether this process delivers the messages of a destination that keeps an order."""
        if self._context.chains.is_strict(code):
            return self._context.chains.reads(code)
        return self._context.leaders.leads(Task.DELIVERING, code)

    def _epoch(self, code: str) -> int:
        """Return the number of this process among those that have delivered a destination that keeps an order."""
        chains = self._context.chains
        return chains.tenure(code) if chains.is_strict(code) else self._context.leaders.epoch(Task.DELIVERING, code)

    def _room(self, key: tuple[str, str]) -> int:
        return self._dispatcher.room_of(key)

    def _offer(self, delivery: Delivery, until: float) -> bool:
        context, started = self._context, self._context.clock.now()
        is_taken = self._dispatcher.take(delivery, until)
        if is_taken:
            context.events.emit(events_of.handed(delivery, started))
            context.spans.handed(delivery, started)
        return is_taken

    def _timeout(self, key: tuple[str, str]) -> int | None:
        found = self._context.registry.catalog.subscriptions.get(key)
        return found.timeout if found is not None else None

    async def _pause_gone(self) -> None:
        """Pause each subscription whose subscriber answered 410, unless it has another URL by now."""
        registry = self._context.registry
        while True:
            gone = await self._gone.get()
            current = registry.catalog.subscriptions.get(gone.key)
            if current is None or current.url != gone.url:
                continue
            try:
                await registry.pause(gone.key, PAUSED_BY_410)
            except BusError as error:
                _log.warning("subscription %s of %s is paused at its next 410: %s", gone.name, gone.destination, error)


def _direct(context: Context) -> Queue:
    """Return the transport whose queue is in this process, as it is in every dispatcher."""
    found = context.router.fallback
    if not isinstance(found, Queue):
        raise TypeError("a dispatcher has a direct queue")
    return found


def _attempt_ids() -> Iterator[str]:
    """Return ids that no other run of any dispatcher makes."""
    run = secrets.token_hex(6)
    return (f"{run}-{number:x}" for number in itertools.count(1))


ROLE = DispatcherService
