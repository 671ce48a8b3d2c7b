"""Moves the messages of a process that is gone and that kept their order, without changing it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from bus.cluster.handover_publisher import WaitingHandover
from bus.cluster.leaders import Leaders, Task
from bus.domain.delivery.delivery import Delivery, Origin, Outcome, untried_row
from bus.domain.delivery.verdict import behind
from bus.domain.destination import Destination, Ordering
from bus.domain.message import Message
from bus.domain.subscription import Subscription
from bus.ports.clock import Clock
from bus.ports.store import DeliveryStore
from bus.registry import Registry

_KEYS: Final = 10_000


class OrderedDrain:
    """Moves messages of destinations that keep an order out of orphaned queues.

    Where the dead process delivered them itself, they become rows in the order of their keys: the process that gets the
    task reads these first. Else they go to the dispatcher that delivers them, behind its messages from that process.
    """

    def __init__(
        self, store: DeliveryStore, registry: Registry, leaders: Leaders, handover: WaitingHandover, clock: Clock
    ) -> None:
        self._store = store
        self._registry = registry
        self._leaders = leaders
        self._handover = handover
        self._clock = clock
        self._last: dict[tuple[str, str], int] = {}

    def begin(self) -> None:
        """Begin with another queue: since the last one, dispatchers may have given places of their own."""
        self._last.clear()

    def is_ordered(self, code: str) -> bool:
        """Whether a destination keeps an order."""
        destination = self._registry.catalog.destinations.get(code)
        return destination is not None and destination.ordering is not Ordering.NONE

    def delivered_by(self, code: str, owners: Collection[str]) -> bool:
        """Whether one of these processes, which have ended, is the only one that delivers a destination's messages."""
        return self._leaders.kept_by(Task.DELIVERING, code, owners)

    async def move(self, code: str, name: str, messages: Sequence[Message], owners: Collection[str]) -> int:
        """Return how many messages for a subscription, from the first on, are durable elsewhere.

        ``owners`` are the processes that are gone. Raises ``StoreError``.
        """
        destination = self._registry.destination(code)
        subscription = self._registry.catalog.subscriptions.get((code, name))
        if subscription is not None and not self.delivered_by(code, owners):
            return await self._handover.hand(subscription, messages)
        keyed: list[Message] = []
        free: list[Message] = []
        for one in messages:
            is_kept = subscription is not None and destination.ordering.key_of(one.key) is not None
            (keyed if is_kept else free).append(one)
        if subscription is not None:
            await self._store.write(await self._rows(destination, subscription, keyed))
        now = self._clock.now()
        await self._store.compensate([untried_row(one, name, now, Origin.TRANSPORT) for one in free])
        return len(messages)

    async def _rows(
        self, destination: Destination, subscription: Subscription, messages: Sequence[Message]
    ) -> list[Outcome]:
        """Return the outcomes that make rows of messages with a key."""
        place, now = await self._last_place(subscription.key), self._clock.now()
        rows: list[Outcome] = []
        for message in messages:
            place += 1
            key = destination.ordering.key_of(message.key) or ""
            delivery = Delivery(message, subscription.name, since=now, order_key=key, place=place)
            rows.append(behind(delivery, subscription, now))
        self._last[subscription.key] = place
        return rows

    async def _last_place(self, lane: tuple[str, str]) -> int:
        if lane not in self._last:
            last, found = 0, await self._store.ordered_keys(*lane, limit=_KEYS)
            while found:
                last = max(last, *(one.last for one in found))
                found = await self._store.ordered_keys(*lane, after=found[-1].order_key, limit=_KEYS)
            self._last[lane] = last
        return self._last[lane]
