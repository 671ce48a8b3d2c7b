"""Cancels open deliveries that no subscriber will receive, and counts and reports them like any other end."""

from __future__ import annotations

from collections.abc import Sequence

from bus.domain.delivery.delivery import Outcome
from bus.domain.tracing import events as events_of
from bus.ports.events import Events
from bus.ports.store import DeliveryStore
from bus.stores.rollups import Rollups


class Cancellations:
    """Has the store end deliveries that no dispatcher will finish.

    Two processes that cancel the same delivery at the same time both report it.
    """

    def __init__(self, store: DeliveryStore, rollups: Rollups, events: Events) -> None:
        self._store = store
        self._rollups = rollups
        self._events = events

    async def cancel(self, destination: str, subscription: str, until: int) -> int:
        """End open deliveries of messages received until a time (ms), and return how many; durable when it returns.

        Raises
        ------
        StoreError
            The store does not answer; what it ended before that was counted and reported.
        """
        return await self._store.cancel(destination, subscription, until, self._ended)

    async def end(self, outcomes: Sequence[Outcome]) -> None:
        """End these deliveries as canceled; durable when it returns, and may be repeated, which counts them again."""
        if outcomes:
            await self._store.write(outcomes)
            self._ended(outcomes)

    def _ended(self, outcomes: Sequence[Outcome]) -> None:
        self._rollups.count(outcomes)
        for outcome in outcomes:
            self._events.emit(events_of.canceled(outcome))
