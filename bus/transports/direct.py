"""The direct transport: a durable queue in the dispatcher, with one cursor per subscription."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from bus.domain.delivery.quota import SpoolCapacity
from bus.domain.destination import Destination, Ordering, TransportName
from bus.domain.lanes import STORE, accepted_lane, moved_lane
from bus.domain.message import Message, decode_message
from bus.domain.subscription import Subscription
from bus.errors import SpoolError, SpoolFull
from bus.localized_text import AnyText
from bus.ports.spool import NewRecord, Record, Spool, decoded
from bus.ports.transport import IncomingMessage, Lag, OutgoingMessage, queue_lags

_log = logging.getLogger(__name__)
_RECENT_MESSAGES: Final = 2048
_RECENT_BODY: Final = 16_384
_MOVED_MOST: Final = 256
_EMPTY: Final = Lag(0, None)


class DirectTransport:
    """Publishes into a local spool, and consumes from it.

    A destination has two streams: one for messages that are published, or handed over, to it; and one for messages that
    a receiver of the same process accepts for it. The latter need no publishing, and wait for the store as well.

    Parameters
    ----------
    queue
        The dispatcher's spool, without default consumers.
    share_of
        Returns the share of the spool that a destination may fill, so that paused subscribers leave capacity to others.
    """

    def __init__(self, queue: Spool, share_of: Callable[[str], float] = lambda _: 1.0) -> None:
        self._queue = queue
        self._share_of = share_of
        self._full: set[str] = set()
        self._attached: dict[str, set[str]] = {}
        # Every (destination, subscription) that has a queue here, also from before a restart.
        self._queues = dict.fromkeys(queue_lags(queue.stats().consumers), _EMPTY)
        self._ordered: set[str] = set()
        # Messages just published, so that their consumers need not decode them again.
        self._recent: OrderedDict[tuple[str, int], Message] = OrderedDict()

    @property
    def name(self) -> str:
        """Return ``direct``."""
        return TransportName.DIRECT

    def check(self, destination: Destination) -> None:
        """Take every destination."""

    async def run(self) -> None:
        """Wait: the queue keeps itself up."""
        await asyncio.Event().wait()

    async def ensure(self, destination: Destination, subscriptions: Sequence[Subscription]) -> None:
        """Attach the subscriptions from the next message on; durable when it returns."""
        attached = self._attached.setdefault(destination.code, set())
        (self._ordered.discard if destination.ordering is Ordering.NONE else self._ordered.add)(destination.code)
        self._queue.attach(accepted_lane(destination.code), STORE)
        for subscription in subscriptions:
            for lane in _lanes(destination.code):
                self._queue.attach(lane, subscription.name)
            attached.add(subscription.name)
            self._queues[destination.code, subscription.name] = _EMPTY
        await self._queue.settle()

    async def remove(self, destination: str, subscription: str) -> None:
        """Detach a subscription; messages that waited only for it leave the queue."""
        self._attached.get(destination, set()).discard(subscription)
        self._queues.pop((destination, subscription), None)
        for lane in (*_lanes(destination), moved_lane(destination, subscription)):
            self._queue.detach(lane, subscription)
        await self._queue.settle()

    def queue_of(self, destination: Destination, size: int) -> Spool | None:
        """Return the queue that accepts ``size`` bytes for a destination; None without subscriptions or capacity.

        The queue itself refuses a destination that keeps an order when it has no capacity.
        """
        if not self._attached.get(destination.code):
            return None
        if destination.ordering is not Ordering.NONE:
            return self._queue
        room = self._queue.room(accepted_lane(destination.code))
        return self._queue if size < room.free and room.takes(destination.spool_share, size) else None

    def accepted(self, message: Message, position: int) -> None:
        """Keep a message at hand that was accepted into the queue."""
        self._remember(accepted_lane(message.destination), position, message)

    async def publish(self, batch: Sequence[OutgoingMessage]) -> list[bool | None]:
        """Append messages to the queue within their shares; a message without subscriptions is confirmed unstored."""
        wanted = [item for item in batch if self._attached.get(item.message.destination)]
        taken = self._within_shares(wanted)
        stored = await self._append(taken) if taken else True
        answers = {id(item): None for item in wanted} | {id(item): stored for item in taken}
        return [answers.get(id(item), True) for item in batch]

    async def move_in(self, subscription: str, batch: Sequence[OutgoingMessage]) -> bool:
        """Accept messages of a destination that wait in another place for one subscription; durable when it returns.

        False when enough waits for it here already, or its destination's share or the disk takes no more: then none is
        here.
        """
        code = batch[0].message.destination
        lane = moved_lane(code, subscription)
        waiting = sum(self._queue.pending(subscription, one) for one in (*_lanes(code), lane))
        if waiting >= _MOVED_MOST or subscription not in self._attached.get(code, ()):
            return False
        if len(self._within_shares(batch)) < len(batch):
            return False
        try:
            self._queue.attach(lane, subscription)
            await self._queue.append([NewRecord(lane, item.payload, item.message.received_at) for item in batch])
        except SpoolError as error:
            _log.warning("direct queue takes nothing that waits elsewhere for %s/%s: %s", code, subscription, error)
            return False
        return True

    async def consume(self, destination: str, subscription: str) -> DirectConsumer:
        """Return the subscription's consumer."""
        return DirectConsumer(self, self._queue, destination, subscription)

    def keeps_order(self, destination: str) -> bool:
        """Whether a destination's messages are to be consumed in the order in which they came."""
        return destination in self._ordered

    def lags(self) -> dict[tuple[str, str], Lag]:
        """Return the backlog of each subscription in the queue."""
        return self._queues | queue_lags(self._queue.waiting())

    def conditions(self) -> dict[str, AnyText]:
        """Return nothing: there is no broker."""
        return {}

    async def close(self) -> None:
        """Do nothing: the opener of the queue closes it."""

    def decoded(self, record: Record) -> Message | None:
        """Return a record's message, from memory when it was published just now."""
        message = self._recent.get((record.lane, record.position))
        return message if message is not None else decoded(record, decode_message)

    def _within_shares(self, wanted: Sequence[OutgoingMessage]) -> list[OutgoingMessage]:
        """Return the messages that fit into their destination's share of the queue.

        After the first message that does not fit, none of its destination is accepted: otherwise capacity for a large
        message would never become free.
        """
        taken: list[OutgoingMessage] = []
        rooms: dict[str, SpoolCapacity] = {}
        refused: set[str] = set()
        for item in wanted:
            code = item.message.destination
            room = rooms.get(code) or self._queue.room(code)
            if code not in refused and room.moves(self._share_of(code), len(item.payload)):
                rooms[code] = room.after(len(item.payload))
                taken.append(item)
            else:
                refused.add(code)
        self._tell(refused, rooms)
        return taken

    def _tell(self, refused: set[str], rooms: Mapping[str, SpoolCapacity]) -> None:
        """Name each destination once that fills its share, and again only after it held less than half of that."""
        for code in refused - self._full:
            _log.warning("%s fills its share of the direct queue; its messages stay with the receiver", code)
        self._full |= refused
        self._full -= {code for code in rooms.keys() - refused if self._is_half_empty(code, rooms[code])}

    def _is_half_empty(self, code: str, room: SpoolCapacity) -> bool:
        return room.moves(self._share_of(code), room.held)

    async def _append(self, taken: Sequence[OutgoingMessage]) -> bool | None:
        try:
            positions = await self._queue.append(
                [NewRecord(item.message.destination, item.payload, item.message.received_at) for item in taken],
                urgent=True,  # it was accepted already, and leaves the receiver's spool when it is here
            )
        except SpoolError as error:
            _log.warning("direct queue refused %d messages, they stay with the receiver: %s", len(taken), error)
            return None if isinstance(error, SpoolFull) else False
        for item, position in zip(taken, positions, strict=True):
            self._remember(item.message.destination, position, item.message)
        return True

    def _remember(self, lane: str, position: int, message: Message) -> None:
        if len(message.body) > _RECENT_BODY:
            return
        recent = self._recent
        recent[lane, position] = message
        if len(recent) > _RECENT_MESSAGES:
            recent.popitem(last=False)


class DirectConsumer:
    """One subscription's cursors in the streams of its destination, which take turns.

    Messages that another dispatcher had are suspect: it may have crashed between handing one over and its ack. Where an
    order is kept, streams do not take turns: first come the messages of another dispatcher, then those published before
    the first subscription, and then those accepted since.
    """

    def __init__(self, transport: DirectTransport, queue: Spool, destination: str, name: str) -> None:
        self._transport = transport
        self._queue = queue
        self._destination = destination
        self._moved = moved_lane(destination, name)
        self._lanes = self._in_order = (self._moved, *_lanes(destination))
        self._name = name
        self._held: dict[int, Record] = {}

    async def receive(self, limit: int) -> list[IncomingMessage]:
        """Wait for records and claim up to ``limit`` of them."""
        while True:
            is_ordered = self._transport.keeps_order(self._destination)
            self._lanes = self._in_order if is_ordered else (*self._lanes[1:], self._lanes[0])
            for lane in self._lanes:
                records = await self._queue.claim(self._name, limit, lane)
                incoming = [found for record in records if (found := self._read(record)) is not None]
                if incoming:
                    return incoming
            await self._queue.wait(self._name, *self._lanes)

    def ack(self, incoming: Sequence[IncomingMessage]) -> None:
        """Finish records; durable with the queue's next commit."""
        self._queue.ack(self._name, self._let_go(incoming))

    def release(self, incoming: Sequence[IncomingMessage]) -> None:
        """Give records back."""
        self._queue.release(self._name, self._let_go(incoming))

    async def close(self) -> None:
        """Give back held messages, and make the acks durable."""
        self._queue.release(self._name, list(self._held.values()))
        self._held.clear()
        await self._queue.settle()

    def _let_go(self, incoming: Sequence[IncomingMessage]) -> list[Record]:
        records = [_record(item) for item in incoming]
        for record in records:
            self._held.pop(record.position, None)
        return records

    def _read(self, record: Record) -> IncomingMessage | None:
        message = self._transport.decoded(record)
        if message is None:
            return None
        self._held[record.position] = record
        is_suspect = record.lane == self._moved or self._queue.recovered(self._name, record)
        return IncomingMessage(message, record, is_suspect)


def _lanes(destination: str) -> tuple[str, ...]:
    return destination, accepted_lane(destination)


def _record(incoming: IncomingMessage) -> Record:
    if not isinstance(incoming.token, Record):
        raise TypeError("this delivery came by another transport")
    return incoming.token
