"""The exchange and the queues of strictly ordered destinations on a group."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Final, NamedTuple, TypeVar

from aio_pika import ExchangeType

from bus.domain.routing_pattern import EVERY_KEY
from bus.localized_text import LocalizedText, localized
from bus.transports.rabbitmq.names import Lane
from bus.transports.rabbitmq.session import Channel, Session
from bus.transports.rabbitmq.strict.names import exchange_of, queue_of
from bus.transports.rabbitmq.topology import QUEUE_ARGUMENTS

Value = TypeVar("Value")
COPIES: Final = 3
_ARGUMENTS: Final[Mapping[str, Any]] = {
    **QUEUE_ARGUMENTS,
    "x-single-active-consumer": True,
    "x-quorum-initial-group-size": COPIES,
}


class Depth(NamedTuple):
    """A queue's depth, as its leader reports it.

    Both are 0 as well when there is no leader that answers: RabbitMQ 3.10 does not distinguish the two cases.

    Attributes
    ----------
    ready
        Number of messages that are not delivered to a consumer.
    consumers
        Number of consumers that get messages: one, or none.
    """

    ready: int
    consumers: int


class StrictTopology:
    """Makes, deletes and inspects queues.

    Parameters
    ----------
    group
        Its name, for errors.
    within
        Seconds that each queue may take.
    """

    def __init__(self, group: str, within: float) -> None:
        self._group = group
        self._within = within
        self._bound: dict[Lane, set[str]] = {}

    async def make(self, session: Session, destination: str, patterns: Mapping[str, str]) -> None:
        """Make a destination's exchange, and a queue for each subscription with its pattern; durable when it returns.

        Raises
        ------
        TransportUnavailable
            The broker does not answer.
        TransportRefused
            Something with other settings has the name, or the user may not do this.
        """

        async def make(channel: Channel) -> None:
            exchange, kind = exchange_of(destination), ExchangeType.TOPIC.value
            await channel.raw.exchange_declare(exchange=exchange, exchange_type=kind, durable=True)
            for name, pattern in patterns.items():
                await self._make(channel, Lane(destination, name), pattern)

        await self._on_channel(session, localized("making queues on {name}", name=self._group), make)

    async def delete(self, session: Session, lane: Lane) -> None:
        """Delete a queue with its messages; raises as ``make`` does."""
        doing = localized("deleting a queue on {name}", name=self._group)
        await self._on_channel(session, doing, lambda channel: channel.raw.queue_delete(queue=queue_of(lane)))
        self._bound.pop(lane, None)

    async def depth(self, session: Session, lane: Lane) -> Depth:
        """Look at a queue; raises ``QueueMissing`` when it is not there, and as ``make`` does."""
        ok = await self._on_channel(
            session,
            localized("looking at {queue}", queue=queue_of(lane)),
            lambda channel: channel.raw.queue_declare(queue=queue_of(lane), passive=True),
        )
        return Depth(int(ok.message_count or 0), int(ok.consumer_count or 0))

    async def _make(self, channel: Channel, lane: Lane, pattern: str) -> None:
        queue, exchange = queue_of(lane), exchange_of(lane.destination)
        await channel.raw.queue_declare(queue=queue, durable=True, arguments=dict(_ARGUMENTS))
        await channel.raw.queue_bind(queue=queue, exchange=exchange, routing_key=pattern)
        # First the new binding, then the old ones away, so that no message falls between. What an earlier process
        # bound cannot be listed; most likely it was the default.
        for old in sorted(self._bound.get(lane, {EVERY_KEY}) - {pattern}):
            await channel.raw.queue_unbind(queue=queue, exchange=exchange, routing_key=old)
        self._bound[lane] = {pattern}

    async def _on_channel(
        self, session: Session, doing: LocalizedText, work: Callable[[Channel], Coroutine[Any, Any, Value]]
    ) -> Value:
        channel = await session.channel(within=self._within)
        try:
            return await session.call(doing, work(channel), within=self._within)
        finally:
            await channel.close()
