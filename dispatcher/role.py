"""The dispatcher as a role of a process."""

from __future__ import annotations

import asyncio
import itertools
import secrets
from collections.abc import Callable, Iterator
from typing import Any

from bus.bootstrap import Context
from bus.domain.delivery import decode_outcome
from bus.domain.subscription import Subscription
from bus.stores.feed import StoreFeed
from dispatcher.courier import Means
from dispatcher.dispatcher import Dispatcher
from dispatcher.outcomes import OutcomeLog

_CATCH_UP = 2.0


class DispatcherService:
    """Couriers, and the feed that takes their outcomes from the spool to the store."""

    def __init__(self, context: Context) -> None:
        self._context = context
        spool = context.spools["outcomes"]
        means = Means(
            poster=context.poster,
            outcomes=OutcomeLog(spool, context.clock),
            store=context.store,
            clock=context.clock,
            noise=context.noise,
            node=context.node,
            started_at=context.started_at,
            attempt_ids=_attempt_ids(),
            gone=self._pause_gone,
        )
        self._dispatcher = Dispatcher(context.roads, means)
        registry = context.registry
        self._feed = StoreFeed(
            spool,
            context.store,
            context.clock,
            consumer="store",
            decode=decode_outcome,
            total=lambda: registry.rates.dispatcher,
            rate_of=registry.store_rate,
        )
        registry.listen(self._dispatcher.apply)
        context.dispatching = self._dispatcher
        context.meters.append(self._dispatcher.measure)
        context.conditions["store"] = lambda: "" if self._feed.up else "the store does not take outcomes"

    def routes(self) -> dict[str, Callable[..., Any]]:
        """Return no routes: in one process the hand-over is a call."""
        return {}

    async def run(self, ready: asyncio.Event, stopping: asyncio.Event) -> None:
        """Deliver until ``stopping``."""
        async with asyncio.TaskGroup() as group:
            feed = group.create_task(self._feed.run())
            # Outcomes of an earlier life reach the store first, so that what they delivered is not POSTed again.
            await self._feed.caught_up(_CATCH_UP)
            delivering = group.create_task(self._dispatcher.run(self._context.registry.catalog, stopping))
            ready.set()
            await delivering
            await self._feed.caught_up(_CATCH_UP)
            feed.cancel()

    async def _pause_gone(self, subscription: Subscription) -> None:
        """Pause a subscription whose subscriber answered 410."""
        await self._context.registry.pause(subscription.key, "the subscriber answered 410 Gone")


def _attempt_ids() -> Iterator[str]:
    """Return ids that no other run of any dispatcher makes."""
    run = secrets.token_hex(6)
    return (f"{run}-{number:x}" for number in itertools.count(1))


ROLE = DispatcherService
