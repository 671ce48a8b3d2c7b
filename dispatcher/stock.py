"""What a courier has: deliveries that wait or are in flight, with what their transports want back for them."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import NamedTuple

from bus.domain.delivery import Delivery
from bus.ports.transport import Consumer, Incoming, Lag


class Parcel(NamedTuple):
    """A delivery, and what the transport wants back for it; None when it was handed over.

    One that is leased must be started before ``until`` (monotonic seconds): afterwards it is somebody else's.
    """

    delivery: Delivery
    incoming: Incoming | None
    until: float = float("inf")


class Stock:
    """The parcels of one courier, each message once.

    Attributes
    ----------
    waiting
        Parcels that are not in flight, in the order in which they are to be delivered.
    """

    def __init__(self, consumer: Consumer) -> None:
        self._consumer = consumer
        # What is here by message id, each with the copies of it that came meanwhile, by another transport as a rule.
        self._held: dict[str, list[Incoming]] = {}
        # Of those that came by a transport, when they were received.
        self._carried: dict[str, int] = {}
        self.waiting: deque[Parcel] = deque()

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

    def add(self, parcel: Parcel) -> None:
        """Have a parcel wait."""
        message = parcel.delivery.message
        self._held[message.id] = []
        if parcel.incoming is not None:
            self._carried[message.id] = message.received_at
        self.waiting.append(parcel)

    def add_copy(self, item: Incoming) -> bool:
        """Keep another copy of a message that is here, to be acked or given back with it; False when it is not."""
        held = self._held.get(item.message.id)
        if held is None:
            return False
        held.append(item)
        return True

    def ack(self, parcels: Iterable[Parcel]) -> None:
        """Ack on the transport parcels whose outcome is durable, with their copies, and have them no more."""
        done: list[Incoming] = []
        for parcel in parcels:
            done += self._forget(parcel)
            if parcel.incoming is not None:
                done.append(parcel.incoming)
        self._consumer.ack(done)

    def let_go(self, parcel: Parcel) -> None:
        """Give a delivery that was not made back to its transport, with its copies."""
        copies = self._forget(parcel)
        self._consumer.release(copies if parcel.incoming is None else [parcel.incoming, *copies])

    def give_back(self) -> None:
        """Return to the transport what was not started; what was handed over stays, as its lease does."""
        for parcel in self.waiting:
            if parcel.incoming is not None:
                self.let_go(parcel)
        kept = [parcel for parcel in self.waiting if parcel.incoming is None]
        self.waiting.clear()
        self.waiting.extend(kept)

    def forget_overdue(self, now: float) -> None:
        """Drop what waited for longer than its lease allows; a copy that came by a transport goes back there."""
        for parcel in [parcel for parcel in self.waiting if parcel.until < now]:
            self.waiting.remove(parcel)
            self.let_go(parcel)

    def _forget(self, parcel: Parcel) -> list[Incoming]:
        self._carried.pop(parcel.delivery.message.id, None)
        return self._held.pop(parcel.delivery.message.id, [])
