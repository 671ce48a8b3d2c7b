"""Records that the store does not take, though it takes others."""

from __future__ import annotations

import logging
from typing import Final

from bus.errors import StoreError
from bus.ports.clock import Clock
from bus.ports.spool import Record

_log = logging.getLogger(__name__)
_MOST: Final = 1_024
_MOST_BYTES: Final = 64 * 1_048_576
_MOST_NAMED: Final = 10_000
_ASK_AGAIN: Final = 30.0


class RefusedRecords:
    """Records that are set aside, since the store refuses them: a document is too large, a partition is damaged.

    They stay claimed, so that the spool keeps and counts them. Each is named in the log once.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._records: list[Record] = []
        self._bytes = 0
        self._named: set[tuple[str, int]] = set()
        self._ask_again_at = 0.0

    def __len__(self) -> int:
        return len(self._records)

    @property
    def wait(self) -> float:
        """Seconds until the store is to be asked about them again."""
        return max(self._ask_again_at - self._clock.monotonic(), 0.0)

    def add(self, record: Record, error: StoreError) -> bool:
        """Set a record aside; False when there are so many that it must be the store's fault."""
        if len(self._records) >= _MOST or self._bytes + len(record.payload) > _MOST_BYTES:
            return False
        if not self._records:
            self._ask_again_at = self._clock.monotonic() + _ASK_AGAIN
        self._records.append(record)
        self._bytes += len(record.payload)
        if not self.knows(record) and len(self._named) < _MOST_NAMED:
            self._named.add((record.lane, record.position))
            place = (record.position, record.lane)
            _log.error("the store refuses record %d of %s; it stays in the spool: %s", *place, error)
        return True

    def knows(self, record: Record) -> bool:
        """Whether a record was set aside before."""
        return (record.lane, record.position) in self._named

    def due(self) -> list[Record]:
        """Take out the records once it is time to ask the store again; none before."""
        if not self._records or self.wait:
            return []
        records, self._records, self._bytes = self._records, [], 0
        return records
