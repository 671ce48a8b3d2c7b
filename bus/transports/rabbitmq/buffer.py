"""The messages of one consumer: fetched, handed out, given back, lost. A rule without I/O."""

from __future__ import annotations

import asyncio
import enum
from collections import deque
from collections.abc import Iterable
from typing import Protocol

from bus.domain.message import Message


class Source(Protocol):
    """The feed that a message came by."""

    def settle(self, tag: int) -> None:
        """Ack a delivery."""
        ...


class State(enum.Enum):
    """Where a message is between the broker and the reader."""

    READY = "ready"
    """Fetched, and for the next reader."""
    HELD = "held"
    """With a reader."""
    LOST = "lost"
    """With a reader, while its channel is gone: the broker has it for itself again."""
    DONE = "done"
    """Acked, or given up to the broker."""


class HeldDelivery:
    """One delivery; also the token by which a reader acks it."""

    __slots__ = ("message", "number", "source", "state", "suspect", "tag")

    def __init__(self, message: Message, source: Source, tag: int, *, suspect: bool) -> None:
        self.message = message
        self.source = source
        self.tag = tag
        self.suspect = suspect
        self.state = State.READY
        self.number = 0


class Buffer:
    """Messages of all clusters on their way to one reader.

    A message that comes again while a reader still has it, because its channel was lost in between, is not given out
    a second time: the reader's ack then counts for the new delivery.
    """

    def __init__(self) -> None:
        self._ready: deque[HeldDelivery] = deque()
        self._taken: dict[HeldDelivery, None] = {}
        self._lost: dict[tuple[Source, str], HeldDelivery] = {}
        self._numbers = 0
        self.filled = asyncio.Event()

    def put(self, entry: HeldDelivery) -> None:
        """Take in a delivery."""
        known = self._lost.pop((entry.source, entry.message.id), None) if entry.suspect else None
        if known is not None:
            known.tag, known.state = entry.tag, State.HELD
            self._taken[known] = None
            return
        self._numbers += 1
        entry.number = self._numbers
        self._ready.append(entry)
        self.filled.set()

    def take(self, limit: int) -> list[HeldDelivery]:
        """Hand out up to ``limit`` messages, returned ones first."""
        taken = [self._ready.popleft() for _ in range(min(limit, len(self._ready)))]
        for entry in taken:
            entry.state = State.HELD
            self._taken[entry] = None
        if not self._ready:
            self.filled.clear()
        return taken

    def finish(self, entries: Iterable[HeldDelivery]) -> None:
        """Ack messages; those lost or acked before are left out."""
        for entry in entries:
            if entry.state is State.HELD:
                entry.source.settle(entry.tag)
            if entry.state in (State.HELD, State.LOST):
                self._let_go(entry)

    def give_back(self, entries: Iterable[HeldDelivery]) -> None:
        """Put messages in front, in the order in which they came; those lost come again from the broker."""
        returned = []
        for entry in entries:
            if entry.state is State.HELD:
                del self._taken[entry]
                entry.state = State.READY
                returned.append(entry)
            elif entry.state is State.LOST:
                self._let_go(entry)
        self._ready.extendleft(sorted(returned, key=lambda entry: -entry.number))
        if self._ready:
            self.filled.set()

    def withdraw(self, source: Source) -> list[int]:
        """Remove the messages that a source fetched and no receiver took; return their tags."""
        gone = [entry for entry in self._ready if entry.source is source]
        self._ready = deque(entry for entry in self._ready if entry.source is not source)
        for entry in gone:
            entry.state = State.DONE
        if not self._ready:
            self.filled.clear()
        return [entry.tag for entry in gone]

    def lose(self, source: Source) -> None:
        """Note that a source's channel is lost, and with it all that it delivered."""
        self.withdraw(source)
        for entry in [entry for entry in self._taken if entry.source is source]:
            del self._taken[entry]
            entry.state = State.LOST
            self._lost[source, entry.message.id] = entry

    def oldest(self, source: Source) -> int | None:
        """Return the smallest ``received_at`` of the messages delivered by a source's queue; None for none."""
        mine = (entry for group in (self._ready, self._taken) for entry in group if entry.source is source)
        return min((entry.message.received_at for entry in mine), default=None)

    def held(self, source: Source) -> int:
        """Return how many messages of a source are here."""
        return sum(entry.source is source for group in (self._ready, self._taken) for entry in group)

    def _let_go(self, entry: HeldDelivery) -> None:
        entry.state = State.DONE
        self._taken.pop(entry, None)
        key = (entry.source, entry.message.id)
        if self._lost.get(key) is entry:
            del self._lost[key]
