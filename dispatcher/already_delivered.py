"""The check of messages from a transport against deliveries that have ended."""

from __future__ import annotations

from collections.abc import Iterable

from bus.domain.identity import id_time
from bus.domain.routing_pattern import EVERY_KEY, matches
from bus.domain.subscription import Subscription
from bus.errors import StoreError
from bus.ports.store import DeliveryKey
from bus.ports.transport import IncomingMessage
from dispatcher.dependencies import Dependencies
from dispatcher.pending_deliveries import PendingDeliveries


class AlreadyDelivered:
    """Sorts out messages that were delivered before, or that are not for the subscription."""

    def __init__(self, dependencies: Dependencies) -> None:
        self._dependencies = dependencies

    async def split(
        self, subscription: Subscription, incoming: Iterable[IncomingMessage], here: PendingDeliveries
    ) -> tuple[list[IncomingMessage], list[IncomingMessage]]:
        """Return the deliveries to ack at once, and those to deliver.

        Parameters
        ----------
        here
            The worker's deliveries, waiting or in flight.
        """
        fresh: list[IncomingMessage] = []
        done: list[IncomingMessage] = []
        for item in incoming:
            over = self._is_delivered(subscription, item, here) or _is_routed_elsewhere(subscription, item)
            (done if over else fresh).append(item)
        suspects = [item for item in fresh if self._is_suspect(subscription, item)]
        if suspects:
            finished = await self._finished(subscription, suspects)
            done += [item for item in suspects if item.message.id in finished]
            fresh = [item for item in fresh if item.message.id not in finished]
        return done, fresh

    def _is_delivered(self, subscription: Subscription, item: IncomingMessage, here: PendingDeliveries) -> bool:
        message = item.message
        return message.id not in here and self._dependencies.outcomes.recent.has_later(
            message.destination, subscription.name, message.id, 0, 0
        )

    def _is_suspect(self, subscription: Subscription, item: IncomingMessage) -> bool:
        """Whether an earlier run of this process, or another process, may have delivered it."""
        if item.suspect or id_time(item.message.id) < self._dependencies.since():
            return True
        return item.message.received_at < self._dependencies.clock.now() - subscription.stuck_after

    async def _finished(self, subscription: Subscription, suspects: Iterable[IncomingMessage]) -> set[str]:
        keys = [DeliveryKey(item.message.id, item.message.retention_days, subscription.name, 0) for item in suspects]
        try:
            return {key.message_id for key in await self._dependencies.store.finished(keys)}
        except StoreError:
            return set()


def _is_routed_elsewhere(subscription: Subscription, item: IncomingMessage) -> bool:
    """Whether the message is not for this subscription, on a transport that does not route by itself."""
    pattern, message = subscription.routing_pattern, item.message
    return (
        pattern != EVERY_KEY and subscription.name not in message.expected and not matches(pattern, message.routing_key)
    )
