"""Records that are not what was appended: set aside, counted, logged, never returned."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

import apsw

from bus.spool.cursors import Cursors
from bus.spool.file import DamageRow, SpoolFile
from bus.spool.record import OVERHEAD, Row
from bus.spool.section import Cursor, Lane

_log = logging.getLogger("bus.spool")


class Damage:
    """The damaged records: ``found`` are those for the next commit to set aside; each section counts all of its own."""

    def __init__(self, cursors: Cursors, now: Callable[[], float]) -> None:
        self._cursors = cursors
        self._now = now
        self.found: dict[int, DamageRow] = {}

    def condemn(self, lane: Lane, position: int, row: Row | None) -> None:
        """Set a record aside, so that no consumer meets it again; ``row`` is None when it is missing."""
        if position in self.found:
            return
        reason = "missing" if row is None else "checksum"
        payload = row[3] if row is not None and isinstance(row[3], bytes) else b""
        time = row[1] if row is not None and isinstance(row[1], int) else 0
        self.found[position] = DamageRow(position, lane.stored_name, time, payload, reason, int(self._now() * 1000), 1)
        lane.section.damaged += 1
        _log.error("spool lane %s: record %d is damaged (%s), set aside", lane.stored_name, position, reason)
        average = lane.bytes // lane.records if lane.records else 0
        self._cursors.discount(lane, 1, (len(payload) + OVERHEAD) if row is not None else average)
        for cursor in lane.cursors.values():
            if cursor.forget(position):
                cursor.pending = max(0, cursor.pending - 1)
            self._cursors.mark(cursor)

    def forget(self, lane: Lane, position: int) -> None:
        """Have no consumer wait for a record any more that a salvage already counted as lost."""
        for cursor in lane.cursors.values():
            if position < cursor.next and cursor.forget(position):
                cursor.pending = max(0, cursor.pending - 1)
                self._cursors.mark(cursor)

    def reconcile(self, cursor: Cursor) -> None:
        """Report records that are counted but cannot be found, once a consumer has had all there is."""
        lane = cursor.lane
        if not cursor.finished or cursor.pending <= 0:
            return
        cursor.pending = 0
        self._cursors.mark(cursor)
        if all(other.finished for other in lane.cursors.values()) and lane.records:
            self._miss(lane, lane.records)

    def _miss(self, lane: Lane, records: int) -> None:
        _log.error("spool lane %s: %d record(s) are missing", lane.stored_name, records)
        place = lane.first - 1
        earlier = self.found[place].records if place in self.found else 0
        now = int(self._now() * 1000)
        self.found[place] = DamageRow(place, lane.stored_name, 0, b"", "missing", now, records + earlier)
        lane.section.damaged += records
        self._cursors.discount(lane, records, lane.bytes)

    def check_gaps(self, file: SpoolFile, first: int, end: int, present: Sequence[int]) -> None:
        """Look for positions of a range that were neither read nor set aside before.

        Raises
        ------
        apsw.CorruptError
            Some are missing: the file's tree is damaged, and a salvage may still find them page by page.
        """
        expected = first
        for position in (*present, end):
            if position > expected:
                self._check_gap(file, expected, position - 1)
            expected = max(expected, position + 1)

    def _check_gap(self, file: SpoolFile, first: int, last: int) -> None:
        known = [(row.position, row.records) for row in self.found.values() if first <= row.position <= last]
        for position, records in sorted({*known, *file.known_damage(first, last)}):
            if position > first:
                break
            first = max(first, position + records)
        if first <= last:
            raise apsw.CorruptError(f"records from {first} to {last} are missing")
