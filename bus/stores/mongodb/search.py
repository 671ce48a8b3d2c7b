"""Searches over partitions, the newest first.

A page over one condition (destination, an id of any kind, source, a message's status other than ``delivered``, or a
delivery's status other than ``delivered``) costs the same in a store of any size: an index has its documents in order.
Further conditions, texts, and ``delivered`` are checked along the narrowest index in windows that grow; answers,
errors, headers and what is in a body are checked here, on documents that are fetched in batches. Both take at most
``PATIENCE`` seconds a page; a page that ran out of time has fewer traces, perhaps none, and says where to continue.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from typing import Final

from bus.domain.identity import id_floor, id_time
from bus.domain.searching.selection import Selection
from bus.domain.times import DAY
from bus.domain.tracing.trace import Trace, matches
from bus.ports.clock import Clock
from bus.ports.store import Page, SearchedRange, Stop
from bus.stores.mongodb.connection import Connection, Form
from bus.stores.mongodb.inserting import slices
from bus.stores.mongodb.names import Label
from bus.stores.mongodb.partitions import Partitions
from bus.stores.mongodb.planning import Plan, plan_for
from bus.stores.mongodb.reading import CommittedReader

PATIENCE: Final = 1.0
_FIRST_WINDOW: Final = 256
_LONGEST_WINDOW: Final = 65_536
_BATCH: Final = 256
ABOVE_ALL: Final = "g"  # ids are hexadecimal
_LAST_TIME: Final = (1 << 48) - 1


class Searcher:
    """Searches; keeps nothing between pages."""

    def __init__(self, connection: Connection, partitions: Partitions, reading: CommittedReader, clock: Clock) -> None:
        self._connection = connection
        self._partitions = partitions
        self._reading = reading
        self._clock = clock

    async def search(self, selection: Selection, cursor: str | None, limit: int) -> Page:
        """Return one page, newest id first."""
        below = ABOVE_ALL if cursor is None else _read_cursor(cursor)
        found, horizon = await self._search(selection, below, limit + 1)
        stop = None if horizon is None else Stop.TIME
        if len(found) > limit:
            found = found[:limit]
            horizon, stop = found[-1].id, Stop.LIMIT
        ends = [end for end in (selection.before, None if cursor is None else _time_above(below)) if end is not None]
        since = selection.since if horizon is None else _time_of(horizon)
        searched = SearchedRange(since, min(ends, default=None), stop)
        return Page(found, None if horizon is None else horizon.encode().hex(), searched)

    async def _search(self, selection: Selection, below: str, limit: int) -> tuple[list[Trace], str | None]:
        """Return up to ``limit`` matches below an id, and the id to continue below; None when there are no more."""
        deadline = self._clock.monotonic() + PATIENCE
        since = "" if selection.since is None else id_from(selection.since)
        if selection.before is not None:
            below = min(below, id_from(selection.before))
        partitions = await self._partitions.newest_first()
        found: list[Trace] = []
        for day in sorted({label.day for label in partitions}, reverse=True):
            if id_from(day * DAY) >= below:
                continue
            if id_from((day + 1) * DAY) <= since:
                break
            scans = [
                _Scan(self._connection, self._reading, self._clock, label, selection, (since, below), deadline)
                for label in partitions
                if label.day == day
            ]
            more, horizon = await _one_day(scans, limit - len(found))
            found += more
            if horizon is not None:
                return found, horizon
            if self._clock.monotonic() > deadline:
                return found, id_from(day * DAY)
        return found, None


class _Scan:
    """One partition's part of a page."""

    def __init__(
        self,
        connection: Connection,
        reading: CommittedReader,
        clock: Clock,
        label: Label,
        selection: Selection,
        between: tuple[str, str],
        deadline: float,
    ) -> None:
        self._connection = connection
        self._reading = reading
        self._clock = clock
        self._label = label
        self._selection = selection
        self._since, self._below = between
        self._deadline = deadline

    async def run(self, limit: int) -> tuple[list[Trace], str | None]:
        """Return matches, the greatest id first, and the id to continue below; None when the partition is done."""
        plan = plan_for(self._selection)
        below, window = self._below, max(limit, _FIRST_WINDOW)
        found: list[Trace] = []
        while True:
            floor = await self._floor(plan, below, window) if plan.rest else None
            more, reached = await self._matches(plan, below, floor or self._since, limit - len(found))
            found += more
            if len(found) >= limit:
                return found, found[-1].id
            if reached is not None or floor is None or self._clock.monotonic() > self._deadline:
                return found, reached or floor
            below, window = floor, min(window * 4, _LONGEST_WINDOW)

    async def _floor(self, plan: Plan, below: str, window: int) -> str | None:
        """Return the id of the last of the next ``window`` documents of the index; None when there are fewer."""
        condition = plan.first | {"_id": {"$lt": below, "$gte": self._since}}
        forms = await self._connection.find(
            self._label.traces, condition, fields=["_id"], sort=[("_id", -1)], skip=window - 1, limit=1
        )
        return forms[0]["_id"] if forms else None

    async def _matches(self, plan: Plan, below: str, since: str, most: int) -> tuple[list[Trace], str | None]:
        """Return the matches between two ids, and the last id that there was time for; None for all.

        Continues past documents that cannot be read.
        """
        found: list[Trace] = []
        while len(found) < most:
            wanted = most - len(found)
            fetched = max(wanted, _BATCH) if plan.open else wanted
            forms = await self._forms(plan, below, since, fetched)
            found += (await self._chosen(forms))[:wanted]
            if len(forms) < fetched:
                break
            below = forms[-1]["_id"]
            if self._clock.monotonic() > self._deadline:
                return found, below
        return found, None

    async def _chosen(self, forms: Sequence[Form]) -> list[Trace]:
        """Return the traces that meet the selection; bodies are read last, and only when it asks of them."""
        met = [one for one in self._reading.found(self._label, forms) if matches(one.trace, self._selection)]
        if not self._selection.reads_bodies:
            return [one.trace for one in met]
        chosen: list[Trace] = []
        for piece in slices(met, lambda one: one.body.size):
            bodies = {message.id: message.body for message in await self._reading.whole(self._label, piece)}
            chosen += [
                one.trace
                for one in piece
                if (body := bodies.get(one.trace.id)) is not None and matches(one.trace, self._selection, body)
            ]
        return chosen

    async def _forms(self, plan: Plan, below: str, since: str, most: int) -> list[Form]:
        between: Form = {"_id": {"$lt": below, "$gte": since}, "message": {"$exists": True}}
        condition = plan.first | plan.rest | between
        return await self._connection.find(self._label.traces, condition, sort=[("_id", -1)], limit=most)


async def _one_day(scans: Sequence[_Scan], limit: int) -> tuple[list[Trace], str | None]:
    """Merge the pages of one day's retention classes; only ids that every unfinished scan has passed."""
    pages = [await scan.run(limit) for scan in scans]
    horizon = max((at for _, at in pages if at is not None), default=None)
    merged = heapq.merge(*(found for found, _ in pages), key=lambda trace: trace.id, reverse=True)
    found = [trace for trace in merged if horizon is None or trace.id >= horizon][:limit]
    if len(found) == limit:
        return found, found[-1].id
    return found, horizon


def id_from(time: int) -> str:
    """Return the text below every id made at a time (ms) or later, and above every earlier one."""
    return id_floor(max(0, time)) if time <= _LAST_TIME else ABOVE_ALL


def _time_of(text: str) -> int | None:
    """Return the time (ms) that an id carries; None for the id of a document that is not the bus's."""
    try:
        return id_time(text)
    except ValueError:
        return None


def _time_above(text: str) -> int | None:
    """Return the time (ms) that every id below this one was made before."""
    time = _time_of(text)
    return None if time is None else time + (text != id_from(time))


def _read_cursor(cursor: str) -> str:
    try:
        return bytes.fromhex(cursor).decode()
    except ValueError as error:
        raise ValueError("the cursor is not one that a search gave; begin again without a cursor") from error
