"""What one consumer holds of its queues' messages: fetched, handed out, given back, lost. A rule without I/O."""

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
    """Acked, or no more of our business."""


class Parcel:
    """One delivery, and what a reader's token is."""

    __slots__ = ("message", "number", "source", "state", "suspect", "tag")

    def __init__(self, message: Message, source: Source, tag: int, *, suspect: bool) -> None:
        self.message = message
        self.source = source
        self.tag = tag
        self.suspect = suspect
        self.state = State.READY
        self.number = 0


class Shelf:
    """Messages of all clusters on their way to one reader.

    A message that comes again while a reader still has it, because its channel was lost in between, is not given out
    a second time: the reader's ack then counts for the new delivery.
    """

    def __init__(self) -> None:
        self._ready: deque[Parcel] = deque()
        self._taken: dict[Parcel, None] = {}
        self._lost: dict[tuple[Source, str], Parcel] = {}
        self._numbers = 0
        self.filled = asyncio.Event()

    def put(self, parcel: Parcel) -> None:
        """Take in a delivery."""
        known = self._lost.pop((parcel.source, parcel.message.id), None) if parcel.suspect else None
        if known is not None:
            known.tag, known.state = parcel.tag, State.HELD
            self._taken[known] = None
            return
        self._numbers += 1
        parcel.number = self._numbers
        self._ready.append(parcel)
        self.filled.set()

    def take(self, limit: int) -> list[Parcel]:
        """Hand out up to ``limit`` messages, what was given back first."""
        taken = [self._ready.popleft() for _ in range(min(limit, len(self._ready)))]
        for parcel in taken:
            parcel.state = State.HELD
            self._taken[parcel] = None
        if not self._ready:
            self.filled.clear()
        return taken

    def finish(self, parcels: Iterable[Parcel]) -> None:
        """Ack messages; those lost or acked before are left out."""
        for parcel in parcels:
            if parcel.state is State.HELD:
                parcel.source.settle(parcel.tag)
            if parcel.state in (State.HELD, State.LOST):
                self._let_go(parcel)

    def give_back(self, parcels: Iterable[Parcel]) -> None:
        """Put messages in front, in the order in which they came; those lost come again from the broker."""
        returned = []
        for parcel in parcels:
            if parcel.state is State.HELD:
                del self._taken[parcel]
                parcel.state = State.READY
                returned.append(parcel)
            elif parcel.state is State.LOST:
                self._let_go(parcel)
        self._ready.extendleft(sorted(returned, key=lambda parcel: -parcel.number))
        if self._ready:
            self.filled.set()

    def withdraw(self, source: Source) -> list[int]:
        """Remove what a source fetched and nobody took; return its tags."""
        gone = [parcel for parcel in self._ready if parcel.source is source]
        self._ready = deque(parcel for parcel in self._ready if parcel.source is not source)
        for parcel in gone:
            parcel.state = State.DONE
        if not self._ready:
            self.filled.clear()
        return [parcel.tag for parcel in gone]

    def lose(self, source: Source) -> None:
        """Note that a source's channel is gone, and with it all that it delivered."""
        self.withdraw(source)
        for parcel in [parcel for parcel in self._taken if parcel.source is source]:
            del self._taken[parcel]
            parcel.state = State.LOST
            self._lost[source, parcel.message.id] = parcel

    def oldest(self, source: Source) -> int | None:
        """Return the smallest ``received_at`` of what a source's queue counts as delivered; None for nothing."""
        mine = (parcel for group in (self._ready, self._taken) for parcel in group if parcel.source is source)
        return min((parcel.message.received_at for parcel in mine), default=None)

    def held(self, source: Source) -> int:
        """Return how many messages of a source are here."""
        return sum(parcel.source is source for group in (self._ready, self._taken) for parcel in group)

    def _let_go(self, parcel: Parcel) -> None:
        parcel.state = State.DONE
        self._taken.pop(parcel, None)
        key = (parcel.source, parcel.message.id)
        if self._lost.get(key) is parcel:
            del self._lost[key]
