"""A transport in memory."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from bus.domain.destination import Destination, TransportName
from bus.domain.message import Message
from bus.domain.subscription import Subscription
from bus.errors import TransportUnavailable
from bus.localized_text import AnyText
from bus.ports.transport import IncomingMessage, Lag, OutgoingMessage


@dataclass
class _Queue:
    """What waits for one subscription, what its consumer holds, and what may have been delivered before."""

    waiting: deque[int] = field(default_factory=deque)
    held: dict[int, None] = field(default_factory=dict)
    suspect: set[int] = field(default_factory=set)
    ready: asyncio.Event = field(default_factory=asyncio.Event)

    def give_back(self, numbers: Sequence[int]) -> None:
        """Put messages back where they were."""
        self.waiting = deque(sorted((*numbers, *self.waiting)))
        if self.waiting:
            self.ready.set()


class MemoryTransport:
    """Passes the contract of ``Transport`` without a broker: what it holds lasts as long as the object.

    Parameters
    ----------
    name
        The name that destinations use.

    Attributes
    ----------
    refusing
        Set it to have the transport confirm nothing.
    unreachable
        Set it to have ``lags`` know nothing and ``ensure`` and ``remove`` fail.
    closed
        How many consumers were closed.
    """

    def __init__(self, name: str = TransportName.DIRECT) -> None:
        self._name = name
        self._queues: dict[tuple[str, str], _Queue] = {}
        self._messages: list[Message] = []
        self.refusing = False
        self.unreachable = False
        self.closed = 0

    @property
    def name(self) -> str:
        """The name that destinations use."""
        return self._name

    def check(self, destination: Destination) -> None:
        """Take every destination."""

    async def run(self) -> None:
        """Wait: there is nothing to keep up."""
        await asyncio.Event().wait()

    async def ensure(self, destination: Destination, subscriptions: Sequence[Subscription]) -> None:
        """Make a queue for each subscription."""
        self._reach()
        for subscription in subscriptions:
            self._queues.setdefault((destination.code, subscription.name), _Queue())

    async def move_in(self, _: str, __: Sequence[OutgoingMessage]) -> bool:
        """Take nothing that waits elsewhere."""
        return False

    async def remove(self, destination: str, subscription: str) -> None:
        """Delete a subscription's queue with what it holds."""
        self._reach()
        self._queues.pop((destination, subscription), None)

    async def publish(self, batch: Sequence[OutgoingMessage]) -> list[bool]:
        """Put messages into the queues of their destinations; confirms all, or none while ``refusing``."""
        if self.refusing:
            return [False] * len(batch)
        for outgoing in batch:
            self._messages.append(outgoing.message)
            for (destination, _), queue in self._queues.items():
                if destination == outgoing.message.destination:
                    queue.waiting.append(len(self._messages) - 1)
                    queue.ready.set()
        return [True] * len(batch)

    async def consume(self, destination: str, subscription: str) -> MemoryConsumer:
        """Return the subscription's consumer."""
        return MemoryConsumer(self, (destination, subscription))

    def lags(self) -> dict[tuple[str, str], Lag] | None:
        """Return what each queue holds."""
        if self.unreachable:
            return None
        return {lane: self._lag(queue) for lane, queue in self._queues.items()}

    def conditions(self) -> dict[str, AnyText]:
        """Return whether it can be reached."""
        return {self._name: "unreachable" if self.unreachable else ""}

    async def close(self) -> None:
        """Do nothing."""

    def _reach(self) -> None:
        if self.unreachable:
            raise TransportUnavailable(f"the transport {self._name} does not answer; nothing is lost")

    def crash(self) -> None:
        """Do what a broker does when its consumers die: what they held waits again, and is suspect."""
        for queue in self._queues.values():
            held, queue.held = list(queue.held), {}
            queue.suspect.update(held)
            queue.ready = asyncio.Event()
            queue.give_back(held)

    def lose(self, destination: str, subscription: str) -> int:
        """Lose what waits for a subscription, as a broker that was wiped; return how many."""
        queue = self._queues[destination, subscription]
        lost = len(queue.waiting)
        queue.waiting.clear()
        return lost

    def wipe(self) -> None:
        """Lose every queue with what it holds."""
        self._queues.clear()

    def queue(self, lane: tuple[str, str]) -> _Queue:
        """Return a subscription's queue; an empty one when it was removed."""
        return self._queues.get(lane) or _Queue()

    def message(self, number: int) -> Message:
        """Return what was published as the given one."""
        return self._messages[number]

    def _lag(self, queue: _Queue) -> Lag:
        numbers = [*queue.waiting, *queue.held]
        return Lag(len(numbers), self._messages[min(numbers)].received_at if numbers else None)


class MemoryConsumer:
    """One subscription's end of a transport in memory."""

    def __init__(self, transport: MemoryTransport, lane: tuple[str, str]) -> None:
        self._transport = transport
        self._lane = lane

    async def receive(self, limit: int) -> list[IncomingMessage]:
        """Wait for messages and hold up to ``limit`` of them."""
        while True:
            queue = self._transport.queue(self._lane)
            taken = [queue.waiting.popleft() for _ in range(min(limit, len(queue.waiting)))]
            if taken:
                queue.held.update(dict.fromkeys(taken))
                return [IncomingMessage(self._transport.message(n), n, n in queue.suspect) for n in taken]
            queue.ready.clear()
            await queue.ready.wait()

    def ack(self, incoming: Sequence[IncomingMessage]) -> None:
        """Finish messages."""
        held = self._transport.queue(self._lane).held
        for number in _numbers(incoming):
            held.pop(number, None)

    def release(self, incoming: Sequence[IncomingMessage]) -> None:
        """Give messages back."""
        queue = self._transport.queue(self._lane)
        back = [number for number in dict.fromkeys(_numbers(incoming)) if number in queue.held]
        for number in back:
            del queue.held[number]
        queue.give_back(back)

    async def close(self) -> None:
        """Release what is held."""
        self._transport.closed += 1
        queue = self._transport.queue(self._lane)
        held, queue.held = list(queue.held), {}
        queue.give_back(held)


def _numbers(incoming: Sequence[IncomingMessage]) -> list[int]:
    numbers = [item.token for item in incoming]
    if not all(isinstance(number, int) for number in numbers):
        raise TypeError("this delivery came by another transport")
    return [number for number in numbers if isinstance(number, int)]
