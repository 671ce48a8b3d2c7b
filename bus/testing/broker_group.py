"""A group of brokers in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

from bus.domain.destination import Destination
from bus.domain.message import Message
from bus.domain.subscription import Subscription
from bus.errors import TransportUnavailable
from bus.localized_text import AnyText
from bus.ports.broker_group import AWAY, GroupStatus
from bus.ports.transport import IncomingMessage, Lag

_Key = tuple[str, str]


@dataclass
class _Queue:
    """What waits for one subscription, in order, and the readers that want it, the active one first."""

    waiting: list[Message] = field(default_factory=list)
    readers: list[MemoryReader] = field(default_factory=list)
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def wake(self) -> None:
        """Have readers look again."""
        self.changed.set()
        self.changed = asyncio.Event()


class MemoryWriter:
    """Writes until it is shut out, or the group fails."""

    def __init__(self, group: MemoryGroup, destination: str) -> None:
        self._group = group
        self._destination = destination
        self._is_over = False

    async def write(self, messages: Sequence[Message]) -> int:
        """Write messages in order, and be over with the first that is not confirmed."""
        for count, message in enumerate(messages):
            if self._is_over or not self._group.take(self, self._destination, message):
                self._is_over = True
                return count
        return len(messages)

    async def close(self) -> None:
        """Write nothing more."""
        self._is_over = True


class MemoryReader:
    """Reads a queue as long as it is the first of its readers."""

    def __init__(self, group: MemoryGroup, queue: _Queue) -> None:
        self._group = group
        self._queue = queue
        self._held: list[Message] = []
        queue.readers.append(self)

    async def receive(self, limit: int) -> list[IncomingMessage]:
        """Wait until it is the active reader and something is there."""
        while True:
            found = self._ready()[:limit]
            if found:
                self._held += found
                return [IncomingMessage(message, id(message), suspect=False) for message in found]
            await self._queue.changed.wait()

    def ack(self, incoming: Sequence[IncomingMessage]) -> None:
        """Forget what is held here."""
        tokens = {item.token for item in incoming} & {id(message) for message in self._held}
        self._held = [message for message in self._held if id(message) not in tokens]
        if self in self._queue.readers:
            self._queue.waiting[:] = [message for message in self._queue.waiting if id(message) not in tokens]

    def release(self, incoming: Sequence[IncomingMessage]) -> None:
        """Hold them no more."""
        tokens = {item.token for item in incoming}
        self._held = [message for message in self._held if id(message) not in tokens]
        self._queue.wake()

    async def is_drained(self) -> bool:
        """Whether the queue is empty, and the group can be asked."""
        return self._group.is_readable and self._is_active and not self._queue.waiting

    async def close(self) -> None:
        """Let the next reader in."""
        if self in self._queue.readers:
            self._queue.readers.remove(self)
        self._queue.wake()

    @property
    def _is_active(self) -> bool:
        return self._queue.readers[:1] == [self]

    def _ready(self) -> list[Message]:
        if not (self._group.is_readable and self._is_active):
            return []
        held = {id(message) for message in self._held}
        return [message for message in self._queue.waiting if id(message) not in held]


class MemoryGroup:
    """Passes the contract of ``BrokerGroup`` without brokers.

    Attributes
    ----------
    copies
        How many of its three copies are up: it takes messages and is whole with three, can be read with two.
    keeps_unconfirmed
        Whether a message that it does not confirm is held all the same.
    fences
        Whether a new writer shuts out those before it.
    disks
        What its data is marked with.
    """

    def __init__(self, name: str = "a", *, fences: bool = True) -> None:
        self._name = name
        self.fences = fences
        self.copies = 3
        self.keeps_unconfirmed = False
        self.disks = "1"
        self._queues: dict[_Key, _Queue] = {}
        self._writers: dict[str, MemoryWriter] = {}

    @property
    def name(self) -> str:
        """The name by which chains know it."""
        return self._name

    @property
    def is_whole(self) -> bool:
        """Whether every copy is up."""
        return self.copies == _ALL

    @property
    def is_readable(self) -> bool:
        """Whether enough copies are up to be read."""
        return self.copies >= _ALL - 1

    def set_copies(self, copies: int) -> None:
        """Have so many copies up from now on."""
        self.copies = copies
        for queue in self._queues.values():
            queue.wake()

    def lose_disks(self) -> None:
        """Hold nothing any more, as one whose copies all begin anew."""
        self.disks = f"{int(self.disks) + 1}"
        self._writers.clear()
        for queue in self._queues.values():
            queue.waiting.clear()

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

    async def remove(self, destination: str, subscription: str) -> None:
        """Delete a queue."""
        self._reach()
        self._queues.pop((destination, subscription), None)

    async def standing(self, destination: str, subscriptions: Sequence[str]) -> GroupStatus:
        """Say how many copies are up, and whether the queues are empty."""
        if not self.is_whole:
            return AWAY
        queues = [self._queues.get((destination, name)) for name in subscriptions]
        return GroupStatus(is_whole=None not in queues, is_empty=not any(queue and queue.waiting for queue in queues))

    async def mark(self, destination: str, known: str = "") -> str:  # noqa: ARG002 - one for all that it has
        """Return the name of its disks, those that had a known mark where there is one."""
        return (known or self.disks) if self.is_whole else ""

    async def has_mark(self, destination: str, mark: str) -> bool | None:  # noqa: ARG002 - one for all that it has
        """Say whether it has those disks, with a copy that has them or all that it ever had."""
        if not self.is_readable:
            return None
        return mark == self.disks or (False if self.is_whole else None)

    async def writer(self, destination: str) -> MemoryWriter:
        """Return a writer, which shuts the one before it out where the group ``fences``."""
        self._reach()
        writer = self._writers[destination] = MemoryWriter(self, destination)
        return writer

    async def reader(self, destination: str, subscription: str) -> MemoryReader:
        """Return a reader, which gets messages once those before it are closed."""
        return MemoryReader(self, self._queues.setdefault((destination, subscription), _Queue()))

    def lags(self) -> dict[_Key, Lag] | None:
        """Return what waits for each subscription."""
        if not self.is_readable:
            return None
        return {
            key: Lag(len(queue.waiting), min((message.received_at for message in queue.waiting), default=None))
            for key, queue in self._queues.items()
        }

    def condition(self) -> AnyText:
        """Return how many copies are up, when not all are."""
        return "" if self.is_whole else f"{self.copies} of {_ALL} copies are up"

    async def close(self) -> None:
        """Close nothing."""

    def take(self, writer: MemoryWriter, destination: str, message: Message) -> bool:
        """Hold a message for every subscription; return whether that is confirmed."""
        if self._writers.get(destination) is not writer and (self.fences or destination not in self._writers):
            return False
        if not self.is_whole and not self.keeps_unconfirmed:
            return False
        for (code, _), queue in self._queues.items():
            if code == destination:
                queue.waiting.append(_copy(message))
                queue.wake()
        return self.is_whole

    def _reach(self) -> None:
        if not self.is_whole:
            raise TransportUnavailable(f"group {self._name}: {self.condition()}")


_ALL = 3


def _copy(message: Message) -> Message:
    """Return another object of the same message, so that two writes of it are told apart."""
    return Message(*(getattr(message, name) for name in message.__struct_fields__))
