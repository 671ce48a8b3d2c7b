"""The log of a partition: what was published to it, in order, for ever."""

from __future__ import annotations

import bisect
import itertools
from dataclasses import dataclass

_LENGTH = 4
_HEADER = 8 + 2 + 16
_PARTITION_SHIFT = 50  # ids tell the partition that gave them, and stay positive as i64


@dataclass(frozen=True, slots=True)
class Draft:
    """What is to be published: ``ext`` is the JSON of its header, None when it has none."""

    body: bytes
    trace: int = 0
    ext: bytes | None = None


@dataclass(frozen=True, slots=True)
class Entry:
    """A message in the log, which begins at the byte ``offset`` and takes ``size`` of them."""

    id: int
    timestamp: int
    offset: int
    size: int
    draft: Draft

    @property
    def full_id(self) -> bytes:
        """The 16 bytes that consumers answer with; any of them may be a line's end."""
        return self.id.to_bytes(8, "big") + self.draft.trace.to_bytes(8, "big")


class Log:
    """Messages by their place in the queue, counted from 0."""

    def __init__(self, partition: int) -> None:
        self.entries: list[Entry] = []
        self._first = (partition << _PARTITION_SHIFT) + 1
        self._ids = itertools.count(self._first)

    @property
    def end(self) -> int:
        """The byte behind the last message."""
        return self.entries[-1].offset + self.entries[-1].size if self.entries else 0

    def append(self, draft: Draft, timestamp: int) -> Entry:
        """Write one message; ``timestamp`` is in nanoseconds."""
        size = _LENGTH + _HEADER + len(draft.ext or b"") + len(draft.body)
        entry = Entry(next(self._ids), timestamp, self.end, size, draft)
        self.entries.append(entry)
        return entry

    def restore(self, entry: Entry) -> None:
        """Put back one that an earlier process wrote, with its id."""
        self.entries.append(entry)
        self._ids = itertools.count(entry.id + 1)

    def lose(self, count: int) -> None:
        """Have the last messages never written; others will have their ids."""
        del self.entries[max(len(self.entries) - count, 0) :]
        self._ids = itertools.count(self.entries[-1].id + 1 if self.entries else self._first)

    def at_offset(self, offset: int) -> int:
        """Return the place of the first message at this byte or behind it."""
        return bisect.bisect_left(self.entries, offset, key=lambda entry: entry.offset)

    def at_time(self, seconds: int) -> int:
        """Return the place of the first message of this second or later."""
        return bisect.bisect_left(self.entries, seconds * 10**9, key=lambda entry: entry.timestamp)
