"""The newest records in memory, so that a consumer near the tail never reads the file."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

from bus.spool.record import Row

ROW_COST = 200
"""Bytes of memory a cached row takes besides its payload."""


class TailCache:
    """Committed rows by position, first in first out, bounded in bytes."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._rows: OrderedDict[int, Row] = OrderedDict()
        self._bytes = 0
        self.get = self._rows.get

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def bytes(self) -> int:
        """Memory in use, never more than the limit."""
        return self._bytes

    def add(self, rows: Sequence[Row]) -> None:
        """Keep rows, and drop the oldest over the limit."""
        held = self._rows
        size = self._bytes
        for row in rows:
            held[row[0]] = row
            size += len(row[3])
        size += ROW_COST * len(rows)
        while size > self._limit:
            _, row = held.popitem(last=False)
            size -= len(row[3]) + ROW_COST
        self._bytes = size

    def drop(self, position: int) -> None:
        """Forget a row, if it is here."""
        row = self._rows.pop(position, None)
        if row is not None:
            self._bytes -= len(row[3]) + ROW_COST

    def clear(self) -> None:
        """Forget everything."""
        self._rows.clear()
        self._bytes = 0
