"""The deliveries of a worker, waiting or in flight, with the records to ack for them on their transports."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import NamedTuple

import msgspec

from bus.domain.delivery.delivery import Delivery, Outcome
from bus.ports.transport import Consumer, IncomingMessage, Lag


class PendingDelivery(NamedTuple):
    """A delivery, and the record to ack for it on its transport; None when it was handed over.

    A leased delivery must start before ``until`` (monotonic seconds): then its lease ends, and another may have it.
    One that keeps an order has its last outcome in ``unstored``, unless the store has its row from before;
    ``holds_up`` marks one that stays here once that is durable. ``asked_for`` says after which discard the store was
    asked for it; -1 when it was not asked. ``was_probe`` marks one that was the probe of an open breaker and got no
    answer.
    """

    delivery: Delivery
    incoming: IncomingMessage | None
    until: float = float("inf")
    unstored: Outcome | None = None
    holds_up: bool = False
    asked_for: int = -1
    was_probe: bool = False

    @property
    def place(self) -> int:
        """The delivery's position in the order of its key."""
        return self.delivery.place

    @property
    def is_retry(self) -> bool:
        """Whether it was attempted before, or handed over because it is due."""
        return self.incoming is None or self.delivery.attempts > 0

    @property
    def is_stored(self) -> bool:
        """Whether the store has a row of it as it is now."""
        return self.incoming is None and self.unstored is None

    def bare(self) -> PendingDelivery:
        """Return it without the message's content."""
        message = msgspec.structs.replace(self.delivery.message, body=b"", headers={})
        return self._replace(delivery=msgspec.structs.replace(self.delivery, message=message), unstored=None)


class PendingDeliveries:
    """The deliveries of one worker, each message once.

    ``filled`` is called with the first delivery of an empty worker.

    Attributes
    ----------
    waiting
        deliveries that are not in flight, in the order in which they are to be delivered.
    body_bytes
        what the bodies of all of them take, waiting, in flight or with an outcome that is not durable.
    """

    def __init__(self, consumer: Consumer, filled: Callable[[], None] = lambda: None) -> None:
        self._consumer = consumer
        self._filled = filled
        # By message id the copies of a delivery that came while it is here, mostly from another transport.
        self._held: dict[str, list[IncomingMessage]] = {}
        # By message id of deliveries that came by a transport: when the message was received (ms).
        self._carried: dict[str, int] = {}
        self.waiting: deque[PendingDelivery] = deque()
        self.body_bytes = 0

    def __len__(self) -> int:
        return len(self._held)

    def __contains__(self, message_id: str) -> bool:
        return message_id in self._held

    @property
    def carried(self) -> Lag:
        """Number of deliveries that came by a transport and are not acked yet, and since when."""
        return Lag(len(self._carried), min(self._carried.values(), default=None))

    @property
    def carries(self) -> bool:
        """Whether any delivery came by a transport and is not acked yet."""
        return bool(self._carried)

    def add(self, entry: PendingDelivery) -> None:
        """Add a delivery to those that wait."""
        self.hold(entry)
        self.waiting.append(entry)

    def hold(self, entry: PendingDelivery) -> None:
        """Hold a delivery that may not go out yet; it may be held already, as it came by another way."""
        message = entry.delivery.message
        if message.id not in self._held:
            if not self._held:
                self._filled()
            self._held[message.id] = []
            self.body_bytes += len(message.body)
        if entry.incoming is not None:
            self._carried[message.id] = message.received_at

    def add_copy(self, item: IncomingMessage) -> bool:
        """Keep a further copy of a message that is here, to ack or release it with the first; False if none is."""
        held = self._held.get(item.message.id)
        if held is None:
            return False
        held.append(item)
        return True

    def is_carried(self, message_id: str) -> bool:
        """Whether a delivery came by a transport and is not acked there yet."""
        return message_id in self._carried

    def renew(self, delivery: Delivery) -> bool:
        """Put a later stage of a delivery in the place of one that came by a transport; False if none such waits."""
        message_id = delivery.message.id
        if message_id not in self._carried:
            return False
        for place, entry in enumerate(self.waiting):
            if entry.delivery.message.id == message_id:
                self.waiting[place] = entry._replace(delivery=delivery)
                return True
        return False

    def ack(self, entries: Iterable[PendingDelivery]) -> None:
        """Ack deliveries whose outcome is durable on their transports, with their copies, and forget them."""
        done: list[IncomingMessage] = []
        for entry in entries:
            done += self._forget(entry)
            if entry.incoming is not None:
                done.append(entry.incoming)
        self._consumer.ack(done)

    def settle(self, entries: Iterable[PendingDelivery]) -> None:
        """Ack deliveries on their transports, with their copies, that stay here since they hold up others."""
        done: list[IncomingMessage] = []
        for entry in entries:
            message_id = entry.delivery.message.id
            self._carried.pop(message_id, None)
            if (copies := self._held.get(message_id)) is not None:
                done += copies
                copies.clear()
            if entry.incoming is not None:
                done.append(entry.incoming)
        self._consumer.ack(done)

    def keep(self, entries: Iterable[PendingDelivery]) -> None:
        """Ack deliveries that stay here only with the rest of them: another process may have to continue them.

        The outcome of this attempt is on the disk of this process alone.
        """
        for entry in entries:
            if entry.incoming is not None:
                self._held.setdefault(entry.delivery.message.id, []).append(entry.incoming)

    def release(self, entry: PendingDelivery) -> None:
        """Release a delivery that was not attempted to its transport, with its copies."""
        copies = self._forget(entry)
        self._consumer.release(copies if entry.incoming is None else [entry.incoming, *copies])

    def release_waiting(self) -> None:
        """Release waiting deliveries to their transports; handed-over ones stay, since their leases do."""
        for entry in self.waiting:
            if entry.incoming is not None:
                self.release(entry)
        kept = [entry for entry in self.waiting if entry.incoming is None]
        self.waiting.clear()
        self.waiting.extend(kept)

    def drop_overdue(self, now: float) -> list[PendingDelivery]:
        """Drop waiting deliveries whose lease allows no start any more, and return them.

        Copies from a transport are released to it.
        """
        overdue = [entry for entry in self.waiting if entry.until < now]
        for entry in overdue:
            self.waiting.remove(entry)
            self.release(entry)
        return overdue

    def _forget(self, entry: PendingDelivery) -> list[IncomingMessage]:
        message = entry.delivery.message
        self._carried.pop(message.id, None)
        copies = self._held.pop(message.id, None)
        if copies is None:
            return []
        self.body_bytes -= len(message.body)
        return copies
