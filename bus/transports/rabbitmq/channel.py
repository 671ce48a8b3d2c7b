"""One consumer on one channel, until the channel is lost."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Coroutine, Iterable
from contextlib import suppress
from typing import Any, NamedTuple

from aiormq.abc import DeliveredMessage
from pamqp.commands import Basic

from bus.domain.message import Message
from bus.errors import TransportError
from bus.localized_text import LocalizedText, localized
from bus.transports.rabbitmq.codec import read
from bus.transports.rabbitmq.session import Channel
from bus.transports.rabbitmq.settling import AckWindow


class Unreadable(NamedTuple):
    """A delivery that is no message of the bus, and why."""

    delivered: DeliveredMessage
    tag: int
    reason: str


class ConsumerChannel:
    """Takes deliveries from a queue and acks them.

    Parameters
    ----------
    arrived
        Called with each message, its delivery tag, and whether it was delivered before.
    changed
        Called when there is something to look after: it is gone, or an unreadable delivery came.
    within
        Deadline of each call in seconds.

    Attributes
    ----------
    gone
        Why it delivers no more; empty while it does.
    prefetch
        How many unacked deliveries the broker allows it; 0 while it does not consume.
    unreadable
        Deliveries that are no messages of the bus and are not dealt with yet.
    """

    def __init__(
        self,
        channel: Channel,
        queue: str,
        arrived: Callable[[Message, int, bool], None],
        changed: Callable[[], None],
        *,
        within: float,
    ) -> None:
        self._channel = channel
        self._queue = queue
        self._arrived = arrived
        self._changed = changed
        self._within = within
        self._settling = AckWindow()
        self._consumer = ""
        self.gone = ""
        self.prefetch = 0
        self.unreadable: list[Unreadable] = []
        channel.raw.on_consumer_cancel_callbacks.add(self._on_cancel)
        self._closing = channel.raw.closing
        self._closing.add_done_callback(self._on_close)

    @property
    def has_room(self) -> bool:
        """Whether the broker would deliver a waiting message."""
        return self._settling.outstanding < self.prefetch

    @property
    def outstanding(self) -> int:
        """How many deliveries the broker counts as unacked."""
        return self._settling.outstanding

    async def consume(self, prefetch: int) -> None:
        """Consume from now on, with another prefetch than before.

        Raises
        ------
        TransportError
            The broker does not answer, or the queue is not there.
        """
        await self.pause()

        async def begin() -> None:
            await self._channel.raw.basic_qos(prefetch_count=prefetch)
            # Named here, since the broker may end it in the same breath in which it confirms it.
            self._consumer = f"pier.{uuid.uuid4().hex}"
            await self._channel.raw.basic_consume(self._queue, self._on_delivery, consumer_tag=self._consumer)

        await self._call(localized("consuming {queue}", queue=self._queue), begin())
        self.prefetch = prefetch

    async def pause(self) -> None:
        """Stop delivery; delivered messages may still be acked. Raises as ``consume`` does."""
        if not self._consumer:
            return
        self.prefetch = 0
        doing = localized("pausing {queue}", queue=self._queue)
        await self._call(doing, self._channel.raw.basic_cancel(self._consumer))
        self._consumer = ""

    def finish(self, tags: Iterable[int]) -> None:
        """Ack deliveries with the next ``flush``."""
        self._settling.finish(tags)

    async def flush(self) -> None:
        """Send the acks; raises as ``consume`` does."""
        settlements = self._settling.take()
        if not settlements:
            return

        async def ack() -> None:
            for tag, up_to in settlements:
                await self._channel.raw.basic_ack(tag, multiple=up_to, wait=False)

        await self._call(localized("acking on {queue}", queue=self._queue), ack())

    async def give_back(self, tags: Iterable[int]) -> None:
        """Return deliveries to the queue; raises as ``consume`` does."""
        returned = list(tags)
        self._settling.drop(returned)

        async def nack() -> None:
            for tag in returned:
                await self._channel.raw.basic_nack(tag, requeue=True, wait=False)

        await self._call(localized("giving back to {queue}", queue=self._queue), nack())

    def end(self, reason: str) -> None:
        """Take no more deliveries."""
        self.gone = self.gone or reason
        self._closing.remove_done_callback(self._on_close)
        self._changed()

    async def close(self) -> None:
        """Ack finished messages and give all others back, if the broker answers; does nothing the second time."""
        self.end("closed")
        if not self._channel.is_closed:
            with suppress(TransportError):
                await self.flush()
                # The broker hands acks on in its own time, and forgets them with the channel; this answer comes after.
                await self.pause()
            await self._channel.close()

    async def leave(self) -> None:
        """Ack finished messages, and have all others back in the queue before another consumer gets anything.

        A consumer that is cancelled lets the next one start while it still has messages that were delivered to it, and
        these would be overtaken: so this one ends with its channel. Does nothing the second time.
        """
        self.end("closed")
        if not self._channel.is_closed:
            with suppress(TransportError):
                await self.flush()
                doing = localized("leaving {queue}", queue=self._queue)
                await self._call(doing, self._channel.raw.basic_qos(prefetch_count=self.prefetch))
            await self._channel.close()

    async def _call(self, doing: LocalizedText, work: Coroutine[Any, Any, object]) -> None:
        await self._channel.session.call(doing, work, within=self._within)

    async def _on_delivery(self, delivered: DeliveredMessage) -> None:
        delivery = delivered.delivery
        if self.gone or not isinstance(delivery, Basic.Deliver) or delivery.delivery_tag is None:
            return
        tag = int(delivery.delivery_tag)
        self._settling.delivered(tag)
        try:
            message = read(delivered)
        except ValueError as error:
            self.unreadable.append(Unreadable(delivered, tag, str(error)))
            self._changed()
        else:
            self._arrived(message, tag, bool(delivery.redelivered))

    def _on_cancel(self, frame: Basic.Cancel) -> None:
        if frame.consumer_tag == self._consumer:
            self.end("the broker ended the consumer: its queue was deleted or moved")

    def _on_close(self, closing: asyncio.Future[Any]) -> None:
        error = None if closing.cancelled() else closing.exception()
        self.end(f"its channel was closed: {error or 'without a reason'}")
