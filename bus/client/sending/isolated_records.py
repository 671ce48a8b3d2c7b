"""Records whose requests fail as a whole: each is sent in a request of its own, so that it delays no other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Final, NamedTuple

from bus.client.network.backoff import Backoff
from bus.client.options import REQUEST_BYTES, REQUEST_LINES
from bus.client.spooling.line import Head
from bus.ports.spool import Record

MOST: Final = 16
"""Records of different keys; with more of them the receiver is at fault, and not the records."""


class IsolatedRecord(NamedTuple):
    """A claimed record, the later ones of its key, and when it is sent again."""

    record: Record
    key: str
    followers: list[Record]
    backoff: Backoff


class IsolatedRecords:
    """Keeps such records claimed, and behind each the later ones of its key; for one thread.

    At most ``MOST`` keys, a request's worth of lines, and two of bytes.
    """

    def __init__(self, new_backoff: Callable[[], Backoff]) -> None:
        self._new_backoff = new_backoff
        self._all: dict[tuple[str, str | int], IsolatedRecord] = {}

    def add(self, record: Record, head: Head, before: IsolatedRecord | None) -> Backoff | None:
        """Keep a record that failed alone; return its backoff, None where there is no space.

        ``before`` is what `take` returned, if it was kept already.
        """
        if len(self._all) >= MOST or not self._has_space(record):
            return None
        found = before or IsolatedRecord(record, head.key, [], self._new_backoff())
        self._all[_name(record, head.key)] = found
        return found.backoff

    def leader_of(self, record: Record, key: str) -> IsolatedRecord | None:
        """Return the record that one of the same key has to wait for."""
        return self._all.get((record.lane, key)) if key else None

    def follow(self, leader: IsolatedRecord, record: Record) -> bool:
        """Keep a record behind its leader; return whether there is space for it."""
        if not self._has_space(record):
            return False
        leader.followers.append(record)
        return True

    def take(self, now: float, takes: Callable[[str], bool]) -> IsolatedRecord | None:
        """Remove and return one that is due."""
        for name, found in self._all.items():
            if found.backoff.due <= now and takes(found.record.lane):
                return self._all.pop(name)
        return None

    def free_lanes(self) -> Counter[str]:
        """Return the number of records without a key in each stream; no other record has to wait for these."""
        return Counter(found.record.lane for found in self._all.values() if not found.key)

    def backoffs(self) -> list[Backoff]:
        """Return the backoff of each."""
        return [found.backoff for found in self._all.values()]

    def _has_space(self, record: Record) -> bool:
        kept = [one for found in self._all.values() for one in (found.record, *found.followers)]
        size = sum(len(one.payload) for one in kept)
        return len(kept) < REQUEST_LINES and size + len(record.payload) <= 2 * REQUEST_BYTES


def _name(record: Record, key: str) -> tuple[str, str | int]:
    return record.lane, key or record.position
