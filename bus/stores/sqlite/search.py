"""Searches over partitions, in a thread of their own, on connections of their own.

A page over one condition (destination, an id of any kind, source, a message's status other than ``delivered``, or a
delivery's status other than ``delivered``) costs the same in a store of any size: an index has its rows in order.
Further conditions, texts, what is in a body, and ``delivered`` are checked row by row along the narrowest index, for
about ``PATIENCE`` seconds a page; a page that ran out of time has fewer traces, perhaps none, and says where to
continue.
"""

from __future__ import annotations

import heapq
import time
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any, Final

import apsw

from bus.domain.delivery.delivery import Status
from bus.domain.searching.selection import Selection
from bus.domain.times import DAY, day_of
from bus.domain.tracing.trace import Trace, decode_trace, matches
from bus.ports.store import Stop
from bus.stores.sqlite.errors import translating
from bus.stores.sqlite.keys import SMALLEST, Label, time_key
from bus.stores.sqlite.partitions import trace_sql
from bus.stores.sqlite.partitions.directory import Directory
from bus.stores.sqlite.partitions.planning import Plan, plan_for

PATIENCE: Final = 0.2
_FIRST_STEP: Final = 256
_LONGEST_STEP: Final = 65_536
_BETWEEN_LOOKS: Final = 64  # rows after which the clock is looked at
_INSTANT: Final = 1e-6
_MOST_OPEN: Final = 16

Found = tuple[bytes, Trace]


class Searcher:
    """Reads for long; every method runs in the reader's thread."""

    def __init__(self, directory: Directory) -> None:
        self._directory = directory
        self._open: OrderedDict[Label, tuple[apsw.Connection, int]] = OrderedDict()

    def search(
        self, partitions: Sequence[Label], selection: Selection, below: bytes, limit: int
    ) -> tuple[list[Found], bytes | None, Stop | None]:
        """Return up to ``limit`` traces below a key, the greatest first, the key to continue below, and why there."""
        found, horizon = self._search(partitions, selection, below, limit + 1)
        if len(found) > limit:
            return found[:limit], found[limit - 1][0], Stop.LIMIT
        return found, horizon, None if horizon is None else Stop.TIME

    def _search(
        self, partitions: Sequence[Label], selection: Selection, below: bytes, limit: int
    ) -> tuple[list[Found], bytes | None]:
        deadline = time.monotonic() + PATIENCE
        since = SMALLEST if selection.since is None else time_key(selection.since)
        if selection.before is not None:
            below = min(below, time_key(selection.before))
        found: list[Found] = []
        for day in sorted({label.day for label in partitions}, reverse=True):
            if time_key(day * DAY) >= below:
                continue
            if time_key((day + 1) * DAY) <= since:
                break
            scans = [
                _Scan(connection, selection, since, below, deadline)
                for label in partitions
                if label.day == day and (connection := self._connection(label)) is not None
            ]
            with translating(day_of(day * DAY)):
                more, horizon = _one_day(scans, limit - len(found))
            found += more
            if horizon is not None:
                return found, horizon
            if time.monotonic() > deadline:
                return found, time_key(day * DAY)
        return found, None

    def in_state(
        self, label: Label, lane: tuple[str, str], status: Status, between: tuple[bytes, bytes], limit: int
    ) -> list[Found]:
        """Return documents with a delivery in a state, of keys above the one and below the other, in order."""
        connection = self._connection(label)
        if connection is None:
            return []
        with translating(label.name):
            number = connection.execute(trace_sql.NUMBER_OF_LANE, lane).fetchone()
            if number is None:
                return []
            rows = connection.execute(trace_sql.IN_STATE, (number[0], trace_sql.STATUS[status], *between, limit))
            return [(key, decode_trace(document)) for key, document in rows]

    def lanes(self, label: Label) -> set[tuple[str, str]]:
        """Return every (destination, subscription) that a partition has a delivery of."""
        connection = self._connection(label)
        if connection is None:
            return set()
        with translating(label.name):
            return set(connection.execute(trace_sql.LANES))

    def failures(self, label: Label, lane: tuple[str, str], between: tuple[bytes, bytes]) -> list[tuple[Any, ...]]:
        """Return failing deliveries of a partition by subscription, signature and state; an empty name means any."""
        connection = self._connection(label)
        if connection is None:
            return []
        values = {"destination": lane[0], "subscription": lane[1], "since": between[0], "below": between[1]}
        with translating(label.name):
            return connection.execute(trace_sql.FAILURES, values).fetchall()

    def forget(self, label: Label) -> None:
        """Close a partition that goes away."""
        if label in self._open:
            self._open.pop(label)[0].close()

    def close(self) -> None:
        """Close all connections."""
        for label in list(self._open):
            self.forget(label)

    def _connection(self, label: Label) -> apsw.Connection | None:
        """Return a partition's connection; None when it was dropped since the caller listed it."""
        if label not in self._open or not self._is_present(label):
            self._trim()
            opened = self._directory.open_reader(label)
            if opened is None:
                return None
            self._open[label] = opened
        self._open.move_to_end(label)
        return self._open[label][0]

    def _is_present(self, label: Label) -> bool:
        return self._directory.inode(label) == self._open[label][1]

    def _trim(self) -> None:
        """Close what was dropped, and what was not used for longest until there is capacity for one more."""
        for label in [label for label in self._open if not self._is_present(label)]:
            self.forget(label)
        while len(self._open) >= _MOST_OPEN:
            self.forget(next(iter(self._open)))


class _Scan:
    """One partition's part of a page."""

    def __init__(
        self, connection: apsw.Connection, selection: Selection, since: bytes, below: bytes, deadline: float
    ) -> None:
        self._connection = connection
        self._selection = selection
        self._since = since
        self._below = below
        self._deadline = deadline

    def run(self, limit: int) -> tuple[list[Found], bytes | None]:
        """Return matches, the greatest key first, and the key to continue below; None when the partition is done."""
        plan = plan_for(self._connection, self._selection)
        found: list[Found] = []
        if plan is None:
            return found, None
        step = limit if plan.exact else max(limit, _FIRST_STEP)
        below = self._below
        while True:
            began = time.monotonic()
            floor = self._floor(plan, below, step)
            since = self._since if floor is None else floor
            more, reached = self._matches(plan, below, since, limit - len(found))
            found += more
            if len(found) >= limit:
                return found, found[-1][0]
            now = time.monotonic()
            if reached is not None or floor is None or now > self._deadline:
                return found, reached or floor
            below, step = floor, self._next_step(step, now - began, self._deadline - now)

    def _next_step(self, step: int, spent: float, left: float) -> int:
        """Return as many rows as half of the remaining time suffices for, estimated from the last rows."""
        return max(_BETWEEN_LOOKS, min(step * 4, _LONGEST_STEP, int(step * left / max(2 * spent, _INSTANT))))

    def _floor(self, plan: Plan, below: bytes, step: int) -> bytes | None:
        """Return the key of the last of the next ``step`` rows of the indexes; None when there are fewer."""
        values = plan.values | {"below": below, "since": self._since, "step": step - 1}
        row = self._connection.execute(plan.floor, values).fetchone()
        return row[0] if row else None

    def _matches(self, plan: Plan, below: bytes, since: bytes, most: int) -> tuple[list[Found], bytes | None]:
        """Return the matches between two keys, and the last key that there was time for; None for all."""
        found: list[Found] = []
        last: bytes | None = None
        rows = self._connection.execute(plan.rows, plan.values | {"below": below, "since": since})
        for number, (key, row, document) in enumerate(rows, 1):
            if key != last and (trace := self._match(row, document)) is not None:
                found.append((key, trace))
                if len(found) == most:
                    break
            last = key
            if number % _BETWEEN_LOOKS == 0 and time.monotonic() > self._deadline:
                return found, key
        return found, None

    def _match(self, row: int, document: bytes) -> Trace | None:
        """Return a row's trace when the message meets the selection; its body is read last, and only when asked of."""
        trace = decode_trace(document)
        if not matches(trace, self._selection):
            return None
        if self._selection.reads_bodies:
            body = self._connection.execute(trace_sql.BODY_OF, (row,)).fetchone()
            if not matches(trace, self._selection, body[0] if body else b""):
                return None
        return trace


def _one_day(scans: Sequence[_Scan], limit: int) -> tuple[list[Found], bytes | None]:
    """Merge the pages of one day's retention classes; only ids that every unfinished scan has passed."""
    pages = [scan.run(limit) for scan in scans]
    horizon = max((at for _, at in pages if at is not None), default=None)
    merged = heapq.merge(*(found for found, _ in pages), key=lambda entry: entry[0], reverse=True)
    found = [entry for entry in merged if horizon is None or entry[0] >= horizon][:limit]
    if len(found) == limit:
        return found, found[-1][0]
    return found, horizon
