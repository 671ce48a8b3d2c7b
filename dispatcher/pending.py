"""What a worker has: deliveries that wait or are in flight, with what their transports want back for them."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import NamedTuple

from bus.domain.delivery.delivery import Delivery
from bus.ports.transport import Consumer, Incoming, Lag


class Pending(NamedTuple):
    """A delivery, and what the transport wants back for it; None when it was handed over.

    One that is leased must be started before ``until`` (monotonic seconds): afterwards it is somebody else's.
    """

    delivery: Delivery
    incoming: Incoming | None
    until: float = float("inf")


class PendingDeliveries:
    """The deliveries of one worker, each message once.

    Attributes
    ----------
    waiting
        deliveries that are not in flight, in the order in which they are to be delivered.
    """

    def __init__(self, consumer: Consumer) -> None:
        self._consumer = consumer
        # What is here by message id, each with the copies of it that came meanwhile, by another transport as a rule.
        self._held: dict[str, list[Incoming]] = {}
        # Of those that came by a transport, when they were received.
        self._carried: dict[str, int] = {}
        self.waiting: deque[Pending] = deque()

    def __contains__(self, message_id: str) -> bool:
        return message_id in self._held

    @property
    def carried(self) -> Lag:
        """What is here of the transports, waiting or in flight."""
        return Lag(len(self._carried), min(self._carried.values(), default=None))

    @property
    def carries(self) -> bool:
        """Whether anything is here of the transports."""
        return bool(self._carried)

    def add(self, entry: Pending) -> None:
        """Have a delivery wait."""
        message = entry.delivery.message
        self._held[message.id] = []
        if entry.incoming is not None:
            self._carried[message.id] = message.received_at
        self.waiting.append(entry)

    def add_copy(self, item: Incoming) -> bool:
        """Keep another copy of a message that is here, to be acked or given back with it; False when it is not."""
        held = self._held.get(item.message.id)
        if held is None:
            return False
        held.append(item)
        return True

    def ack(self, entries: Iterable[Pending]) -> None:
        """Ack on the transport deliveries whose outcome is durable, with their copies, and have them no more."""
        done: list[Incoming] = []
        for entry in entries:
            done += self._forget(entry)
            if entry.incoming is not None:
                done.append(entry.incoming)
        self._consumer.ack(done)

    def let_go(self, entry: Pending) -> None:
        """Give a delivery that was not made back to its transport, with its copies."""
        copies = self._forget(entry)
        self._consumer.release(copies if entry.incoming is None else [entry.incoming, *copies])

    def give_back(self) -> None:
        """Return to the transport what was not started; what was handed over stays, as its lease does."""
        for entry in self.waiting:
            if entry.incoming is not None:
                self.let_go(entry)
        kept = [entry for entry in self.waiting if entry.incoming is None]
        self.waiting.clear()
        self.waiting.extend(kept)

    def forget_overdue(self, now: float) -> None:
        """Drop what waited for longer than its lease allows; a copy that came by a transport goes back there."""
        for entry in [entry for entry in self.waiting if entry.until < now]:
            self.waiting.remove(entry)
            self.let_go(entry)

    def _forget(self, entry: Pending) -> list[Incoming]:
        self._carried.pop(entry.delivery.message.id, None)
        return self._held.pop(entry.delivery.message.id, [])
