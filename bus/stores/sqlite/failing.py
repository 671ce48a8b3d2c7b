"""Deliveries that fail, grouped from the index that the partitions keep of them."""

from __future__ import annotations

import time
from typing import Final

from bus.domain.searching.selection import Selection
from bus.domain.times import DAY
from bus.domain.tracing.failures import FailureCount, FailureGroup, Failures
from bus.stores.sqlite.keys import GREATEST, SMALLEST, Label, key_id, time_key
from bus.stores.sqlite.partitions import trace_sql
from bus.stores.sqlite.reading import CommittedReader
from bus.stores.sqlite.search import Searcher

PATIENCE: Final = 1.0


class FailureIndex:
    """Counts per partition, in the reader's thread; the cost grows with what fails, not with the store."""

    def __init__(self, reading: CommittedReader) -> None:
        self._reading = reading

    async def groups(self, selection: Selection, limit: int) -> Failures:
        """Return the groups of a destination, a subscription and a time, of as many days as a second allows."""
        deadline = time.monotonic() + PATIENCE
        since = SMALLEST if selection.since is None else time_key(selection.since)
        below = GREATEST if selection.before is None else time_key(selection.before)
        count = FailureCount()
        day: int | None = None
        for label in self._reading.newest_first():
            if time_key(label.day * DAY) >= below:
                continue
            if time_key((label.day + 1) * DAY) <= since:
                break
            if day is not None and label.day < day and time.monotonic() > deadline:
                return count.largest(limit, day * DAY)
            day = label.day
            for group in await self._of(label, selection, (since, below)):
                count.add(group)
        return count.largest(limit)

    async def _of(self, label: Label, selection: Selection, between: tuple[bytes, bytes]) -> list[FailureGroup]:
        lane = (selection.destination or "", selection.subscription or "")

        def read(searcher: Searcher) -> list[FailureGroup]:
            return [
                FailureGroup(
                    destination, subscription, signature, {trace_sql.NAMES[status]: count}, first, last, key_id(key)
                )
                for destination, subscription, signature, status, count, first, last, key in searcher.failures(
                    label, lane, between
                )
            ]

        return await self._reading.run(read)
