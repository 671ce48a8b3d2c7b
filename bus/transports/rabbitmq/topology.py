"""The exchanges, queues and bindings of one cluster: the wanted and the existing ones."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Any, Final

from aio_pika import ExchangeType

from bus.domain.routing_pattern import EVERY_KEY
from bus.errors import TransportError, TransportRefused, TransportUnavailable
from bus.localized_text import localized
from bus.transports.rabbitmq.config import Patience
from bus.transports.rabbitmq.names import Lane, exchange_of, queue_of
from bus.transports.rabbitmq.session import Channel, Session

_log = logging.getLogger(__name__)
_MOST_UNANSWERED: Final = 2

# A queue that exists with others is refused, so these never change. The limit is that a message is dropped after so
# many redeliveries, 20 of them by default in RabbitMQ 4; the overflow is that a limit set by a policy
# refuses new messages instead of dropping old ones.
QUEUE_ARGUMENTS: Final[Mapping[str, Any]] = {
    "x-queue-type": "quorum",
    "x-delivery-limit": 2**31 - 1,
    "x-overflow": "reject-publish",
}


class WantedBindings:
    """The routing pattern of each subscription that was ensured, for all clusters alike."""

    def __init__(self) -> None:
        self.patterns: dict[str, dict[str, str]] = {}

    def lanes(self) -> dict[Lane, str]:
        """Return every subscription and its pattern."""
        return {Lane(code, name): pattern for code, found in self.patterns.items() for name, pattern in found.items()}

    def pattern(self, lane: Lane) -> str | None:
        """Return a subscription's pattern; None when it is not wanted."""
        return self.patterns.get(lane.destination, {}).get(lane.subscription)

    def add(self, lanes: Mapping[Lane, str]) -> None:
        """Want subscriptions from now on."""
        for lane, pattern in lanes.items():
            self.patterns.setdefault(lane.destination, {})[lane.subscription] = pattern

    def discard(self, lane: Lane) -> None:
        """Want a subscription no more."""
        names = self.patterns.get(lane.destination, {})
        names.pop(lane.subscription, None)
        if not names:
            self.patterns.pop(lane.destination, None)


class Topology:
    """Makes the wanted exchanges, queues and bindings on one cluster, and tracks which of them are made.

    The state holds for one connection: the next one looks again, since the cluster may have been wiped meanwhile. So a
    queue is declared again when the connection is new; when a message to it came back or had no exchange
    (`publisher`), or a look found it missing (`lag`): `note_missing`; when its subscription has another pattern; and
    when it was refused, or did not answer, before. `supervision` has the loop.
    """

    def __init__(self, cluster: str, wanted: WantedBindings, patience: Patience) -> None:
        self._cluster = cluster
        self._wanted = wanted
        self._patience = patience
        self._made: dict[Lane, str] = {}
        self._bound: dict[Lane, set[str]] = {}
        self._doomed: set[Lane] = set()
        self._busy = asyncio.Lock()
        self.refused: dict[Lane, TransportError] = {}
        self.is_incomplete = False

    def carries(self, destination: str) -> bool:
        """Whether everything that a destination's messages need is there."""
        return all(
            self._made.get(Lane(destination, name)) == pattern
            for name, pattern in self._wanted.patterns.get(destination, {}).items()
        )

    @property
    def has_removals(self) -> bool:
        """Whether queues are still to be deleted."""
        return bool(self._doomed)

    def recheck(self) -> None:
        """Have wanted but missing queues made soon."""
        self.is_incomplete = self.is_incomplete or bool(self._missing())

    def note_missing(self, destination: str, subscription: str | None = None) -> None:
        """Note that something of a destination was found missing; it is made again."""
        for lane in [lane for lane in self._made if lane.destination == destination]:
            if subscription is None or lane.subscription == subscription:
                _log.warning("queue %s on %s is gone and is made again", queue_of(lane), self._cluster)
                del self._made[lane]
        self.is_incomplete = True

    def doom(self, lane: Lane) -> None:
        """Note that a queue is to be deleted as soon as the cluster answers."""
        self._made.pop(lane, None)
        self.refused.pop(lane, None)
        self._doomed.add(lane)

    async def make_all(self, session: Session) -> None:
        """Check everything that is wanted on a new connection; refused queues are noted and left out.

        Raises
        ------
        TransportUnavailable
            The cluster does not answer.
        """
        self._made.clear()
        await self.complete(session)

    async def complete(self, session: Session) -> None:
        """Make missing queues; one queue that does not answer delays no other. Raises as ``make_all`` does."""
        known = {str(error) for error in self.refused.values()}
        unanswered = 0
        self.is_incomplete = False
        for lane, pattern in self._missing().items():
            try:
                await self.make(session, {lane: pattern})
            except TransportRefused as error:
                if str(error) not in known:
                    _log.warning("%s; %s", error, error.hint)
            except TransportUnavailable as error:
                self.is_incomplete = True
                unanswered += 1
                if session.lost.is_set() or unanswered > _MOST_UNANSWERED:
                    raise
                _log.warning("%s; it is tried again", error)

    async def clear(self, session: Session) -> None:
        """Delete the queues that are still to be deleted; raises as ``make_all`` does."""
        for lane in list(self._doomed):
            try:
                await self.delete(session, lane)
            except TransportRefused as error:
                _log.warning("queue %s on %s stays: %s", queue_of(lane), self._cluster, error)
                self._doomed.discard(lane)

    async def make(self, session: Session, lanes: Mapping[Lane, str]) -> None:
        """Make queues with their bindings; durable when it returns.

        Raises
        ------
        TransportUnavailable
            The cluster does not answer.
        TransportRefused
            Something with other settings has the name, or the user may not do this.
        """
        async with self._busy:
            channel = await session.channel(within=self._patience.answer)
            try:
                for lane, pattern in lanes.items():
                    await self._make(channel, lane, pattern)
            finally:
                await channel.close()

    async def delete(self, session: Session, lane: Lane) -> None:
        """Delete a queue with its messages; raises as ``make`` does."""
        async with self._busy:
            channel = await session.channel(within=self._patience.answer)
            try:
                await self._delete(channel, lane)
            finally:
                await channel.close()

    def _missing(self) -> dict[Lane, str]:
        return {lane: pattern for lane, pattern in self._wanted.lanes().items() if self._made.get(lane) != pattern}

    async def _make(self, channel: Channel, lane: Lane, pattern: str) -> None:
        doing = localized("making queue {queue} on {name}", queue=queue_of(lane), name=self._cluster)
        if lane in self._doomed:
            await self._delete(channel, lane)
        try:
            await channel.session.call(doing, self._declare(channel, lane, pattern), within=self._patience.answer)
        except TransportRefused as error:
            self.refused[lane] = error
            raise
        self.refused.pop(lane, None)
        self._made[lane] = pattern

    async def _declare(self, channel: Channel, lane: Lane, pattern: str) -> None:
        exchange, queue = exchange_of(lane.destination), queue_of(lane)
        raw = channel.raw
        await raw.exchange_declare(exchange=exchange, exchange_type=ExchangeType.TOPIC.value, durable=True)
        await raw.queue_declare(queue=queue, durable=True, arguments=dict(QUEUE_ARGUMENTS))
        await raw.queue_bind(queue=queue, exchange=exchange, routing_key=pattern)
        # First the new binding, then the old ones away, so that no message falls between. What an earlier process
        # bound cannot be listed; most likely it was the default.
        bound = self._bound.setdefault(lane, {EVERY_KEY})
        for old in sorted(bound - {pattern}):
            await raw.queue_unbind(queue=queue, exchange=exchange, routing_key=old)
            bound.discard(old)
        bound.add(pattern)

    async def _delete(self, channel: Channel, lane: Lane) -> None:
        doing = localized("deleting queue {queue} on {name}", queue=queue_of(lane), name=self._cluster)
        deleting = channel.raw.queue_delete(queue=queue_of(lane))
        await channel.session.call(doing, deleting, within=self._patience.answer)
        self._doomed.discard(lane)
        self._made.pop(lane, None)
        self._bound.pop(lane, None)
