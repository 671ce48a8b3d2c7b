"""The records of one consumer: waiting, handed out, and finished."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Collection, Iterable
from typing import Final, NamedTuple

from bus.domain.message import Message
from bus.ports.transport import IncomingMessage
from bus.transports.kafka.commits import Commit, Window

_MOST_LATE: Final = 10_000


class RecordToken(NamedTuple):
    """Where a record that was handed out lies; the token of its delivery."""

    owner: object
    partition: int
    offset: int
    sequence: int
    message_id: str


class Buffer:
    """Hands out records of the partitions that are assigned, and keeps account of each.

    A record that is in hand when its partition goes and comes back is not handed out twice: its ack counts, whether it
    came before the partition was back or after.

    Parameters
    ----------
    buffer_records, buffer_bytes
        How much waits at most, for a subscriber or to be set aside, before ``has_room`` says no.
    """

    def __init__(self, buffer_records: int, buffer_bytes: int) -> None:
        self._buffer_records = buffer_records
        self._buffer_bytes = buffer_bytes
        self._windows: dict[int, Window] = {}
        self._waiting: deque[IncomingMessage] = deque()
        self._bytes = 0
        self._foreign = 0
        self._foreign_bytes = 0
        self._in_hand: dict[tuple[int, int], RecordToken] = {}
        self._acked_late: dict[tuple[int, int], str] = {}
        self._withheld: set[int] = set()
        self._changed: set[int] = set()
        self._sequence = 0
        self._arrived = asyncio.Event()
        self._room = asyncio.Event()
        self._drained = asyncio.Event()

    @property
    def partitions(self) -> Collection[int]:
        """Partitions that are assigned and started."""
        return self._windows.keys()

    @property
    def has_room(self) -> bool:
        """Whether more may be fetched."""
        records, size = len(self._waiting) + self._foreign, self._bytes + self._foreign_bytes
        return records < self._buffer_records and size < self._buffer_bytes

    async def room(self) -> None:
        """Wait until more may be fetched."""
        while not self.has_room:
            self._room.clear()
            await self._room.wait()

    def open(self, partition: int, window: Window) -> None:
        """Begin with a partition."""
        self._windows[partition] = window
        self._withheld.discard(partition)

    def window(self, partition: int) -> Window | None:
        """Return a partition's window, None while it is not started."""
        return self._windows.get(partition)

    def admit(self, partition: int, offset: int, message: Message, published_at: int) -> None:
        """Take a fetched record in; it waits for ``take`` unless it is finished or in hand already."""
        window = self._windows[partition]
        place = (partition, offset)
        held = self._in_hand.get(place)
        if held is not None and held.message_id != message.id:
            # The log was wiped and began anew; what is in hand has no record any more.
            del self._in_hand[place]
            held = None
        acked_late = self._acked_late.pop(place, None) == message.id
        if not window.admit(offset, message.received_at, published_at):
            self._changed.add(partition)
        elif acked_late:
            self.finish(partition, offset)
        elif held is None:
            self._queue(partition, offset, message)

    def _queue(self, partition: int, offset: int, message: Message) -> None:
        self._sequence += 1
        token = RecordToken(self, partition, offset, self._sequence, message.id)
        self._waiting.append(IncomingMessage(message, token, self._windows[partition].is_suspect(offset)))
        self._bytes += len(message.body)
        self._arrived.set()

    def admit_foreign(self, partition: int, offset: int, published_at: int, size: int) -> bool:
        """Take a record in that is no message and waits to be set aside; False when it is finished already."""
        self._changed.add(partition)
        if not self._windows[partition].admit(offset, published_at, published_at):
            return False
        self._foreign += 1
        self._foreign_bytes += size
        return True

    def finish_foreign(self, window: Window | None, partition: int, offset: int, size: int) -> None:
        """Finish a record that was set aside, unless its partition has been taken over or begun anew since."""
        self._foreign -= 1
        self._foreign_bytes -= size
        self._room.set()
        if self._windows.get(partition) is window:
            self.finish(partition, offset)

    def finish(self, partition: int, offset: int) -> None:
        """Finish a record that was never handed out."""
        window = self._windows.get(partition)
        if window is not None and window.finish(offset):
            self._changed.add(partition)

    async def take(self, limit: int) -> list[IncomingMessage]:
        """Wait for records and hand out at least one, at most ``limit``, in the order in which they were fetched."""
        while not self._waiting:
            self._arrived.clear()
            await self._arrived.wait()
        taken = [self._waiting.popleft() for _ in range(min(limit, len(self._waiting)))]
        for item in taken:
            self._bytes -= len(item.message.body)
            token = self._token(item)
            self._in_hand[token.partition, token.offset] = token
        self._room.set()
        return taken

    def ack(self, incoming: Iterable[IncomingMessage]) -> None:
        """Finish records that are in hand; ignore others, and those whose partition has another owner by now."""
        for _, token in self._let_go(incoming):
            window = self._windows.get(token.partition)
            if window is None or token.offset >= window.next:
                self._remember(token)
            else:
                self.finish(token.partition, token.offset)

    def release(self, incoming: Iterable[IncomingMessage]) -> None:
        """Take back records that are in hand; they are the next to be handed out, in their order."""
        returned = [(token.sequence, item) for item, token in self._let_go(incoming) if self._is_ours(token)]
        for _, item in sorted(returned, key=lambda pair: pair[0], reverse=True):
            self._waiting.appendleft(item)
            self._bytes += len(item.message.body)
            self._arrived.set()

    def _let_go(self, incoming: Iterable[IncomingMessage]) -> list[tuple[IncomingMessage, RecordToken]]:
        """Take records out of the hand; those that are not in it are left out."""
        gone: list[tuple[IncomingMessage, RecordToken]] = []
        for item in incoming:
            token = self._token(item)
            if self._in_hand.get((token.partition, token.offset)) == token:
                del self._in_hand[token.partition, token.offset]
                gone.append((item, token))
        self._drained.set()
        return gone

    def _remember(self, token: RecordToken) -> None:
        """Note an ack of a record whose partition was revoked; it may be assigned again."""
        self._acked_late[token.partition, token.offset] = token.message_id
        if len(self._acked_late) > _MOST_LATE:
            del self._acked_late[next(iter(self._acked_late))]

    def _is_ours(self, token: RecordToken) -> bool:
        window = self._windows.get(token.partition)
        return window is not None and token.partition not in self._withheld and window.is_open(token.offset)

    def _token(self, item: IncomingMessage) -> RecordToken:
        token = item.token
        if not isinstance(token, RecordToken) or token.owner is not self:
            raise TypeError("this delivery came by another transport")
        return token

    def withhold(self, partitions: Collection[int]) -> None:
        """Hand out no more of these partitions; drop their waiting records."""
        self._withheld.update(partitions)
        self._waiting = deque(item for item in self._waiting if self._token(item).partition not in self._withheld)
        self._bytes = sum(len(item.message.body) for item in self._waiting)
        self._room.set()

    async def drained(self) -> None:
        """Wait until nothing of the partitions that are withheld is in hand."""
        while any(partition in self._withheld for partition, _ in self._in_hand):
            self._drained.clear()
            await self._drained.wait()

    def drop(self) -> None:
        """Drop every partition; records in hand stay in hand."""
        self.withhold(list(self._windows))
        self._windows.clear()
        self._changed.clear()

    def restart(self, partition: int, window: Window) -> None:
        """Restart a partition whose log was made anew; its fetched records are dropped."""
        self.withhold([partition])
        self._in_hand = {place: held for place, held in self._in_hand.items() if place[0] != partition}
        self._acked_late = {place: name for place, name in self._acked_late.items() if place[0] != partition}
        self.open(partition, window)
        self._changed.add(partition)
        self._drained.set()

    def commits(self) -> dict[int, Commit]:
        """Return the commit of each partition that changed since the last time."""
        changed, self._changed = self._changed, set()
        return {partition: self._windows[partition].commit() for partition in changed if partition in self._windows}

    def last_commits(self) -> dict[int, Commit]:
        """Return the commit of each partition, for a consumer that leaves them."""
        return {
            partition: window.last_commit(self._handed_out(partition)) for partition, window in self._windows.items()
        }

    def confirm(self, commits: dict[int, Commit]) -> None:
        """Take note that Kafka has these commits."""
        for partition, commit in commits.items():
            window = self._windows.get(partition)
            if window is not None:
                window.confirm(commit)

    def unconfirmed(self, partitions: Collection[int]) -> None:
        """Have these partitions committed again."""
        self._changed.update(partition for partition in partitions if partition in self._windows)

    def _handed_out(self, partition: int) -> int:
        return max((offset + 1 for place, offset in self._in_hand if place == partition), default=0)
