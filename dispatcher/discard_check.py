"""Deliveries that may be finished while they wait here: the store is asked before they are posted."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Final

from bus.errors import StoreError
from bus.ports.store import DeliveryKey
from bus.telemetry.outage import Outage
from dispatcher.dependencies import Dependencies
from dispatcher.pending_deliveries import PendingDeliveries, PendingDelivery

_log = logging.getLogger(__name__)
_AT_ONCE: Final = 256
_PATIENCE: Final = 2.0
_AWAY_FOR: Final = 5.0
_Key = tuple[str, int]


class DiscardCheck:
    """Takes out of a worker's waiting deliveries those that are finished: suspect ones, and after a discard all.

    Each is asked for once. While the store does not answer, they are posted: at least once goes before what a person
    dropped.

    Attributes
    ----------
    doubted_until
        What was received until then (ms) is asked for (``Subscription.doubted_until``); 0 for nothing.

    Parameters
    ----------
    dropped
        Called with the deliveries that were taken out, acked on their transports.
    go_on
        Starts deliveries that may be sent now.
    """

    def __init__(
        self,
        subscription: str,
        pending: PendingDeliveries,
        dependencies: Dependencies,
        dropped: Callable[[Sequence[PendingDelivery]], None],
        go_on: Callable[[], None],
    ) -> None:
        self.doubted_until = 0
        self._subscription = subscription
        self._pending = pending
        self._dependencies = dependencies
        self._dropped = dropped
        self._go_on = go_on
        self._is_asking = False
        self._away_until = float("-inf")
        self._outage = Outage(_log, "what may be finished is delivered while the store does not answer")

    def is_doubtful(self, entry: PendingDelivery) -> bool:
        """Whether a delivery has to be asked for before it is posted."""
        delivery = entry.delivery
        may_be = entry.asked_for < self.doubted_until >= delivery.message.received_at
        may_be |= delivery.is_suspect and entry.asked_for < 0
        return may_be and self._dependencies.clock.monotonic() >= self._away_until

    def start(self, group: asyncio.TaskGroup) -> None:
        """Ask for what waits and is doubtful, unless that is under way."""
        if not self._is_asking:
            self._is_asking = True
            group.create_task(self._ask())

    async def _ask(self) -> None:
        try:
            until = self.doubted_until
            asked = list(islice(filter(self.is_doubtful, self._pending.waiting), _AT_ONCE))
            self._sort_out({_key(entry): entry for entry in asked}, await self._finished(asked), until)
        finally:
            self._is_asking = False
        self._go_on()

    async def _finished(self, entries: Sequence[PendingDelivery]) -> set[DeliveryKey]:
        keys = [
            DeliveryKey(message.id, message.retention_days, self._subscription, entry.delivery.generation)
            for entry in entries
            for message in (entry.delivery.message,)
        ]
        try:
            async with asyncio.timeout(_PATIENCE):
                found = await self._dependencies.store.finished(keys)
        except (StoreError, TimeoutError) as error:
            # A store that hangs must not hold up every few of them for as long.
            self._away_until = self._dependencies.clock.monotonic() + _AWAY_FOR
            self._outage.goes_on(error)
            return set()
        self._outage.is_over()
        return found

    def _sort_out(self, asked: dict[_Key, PendingDelivery], finished: set[DeliveryKey], until: int) -> None:
        """Take out what is finished, and mark the others as asked for; what came meanwhile stays as it is."""
        ended = {(key.message_id, key.generation) for key in finished}
        waiting = list(self._pending.waiting)
        self._pending.waiting.clear()
        dropped: list[PendingDelivery] = []
        for entry in waiting:
            if _key(entry) not in asked:
                self._pending.waiting.append(entry)
            elif _key(entry) in ended:
                dropped.append(entry)
            else:
                self._pending.waiting.append(entry._replace(asked_for=until))
        if dropped:
            self._pending.ack(dropped)
            self._dropped(dropped)


def _key(entry: PendingDelivery) -> _Key:
    return entry.delivery.message.id, entry.delivery.generation
