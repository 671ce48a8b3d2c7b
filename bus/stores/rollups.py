"""Counters over time in the store: each process writes its own sheets, and a reader adds up those of all.

A sheet is a document that only one process writes, each time with all that it has counted there, so a write that is
repeated or that comes late changes nothing, and no process waits for another.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Final

import msgspec

from bus.domain.delivery.delivery import Outcome
from bus.domain.message import Message
from bus.domain.statistics.rollup import MINUTE, RESOLUTIONS, Resolution, Sheet, decode_sheet, encode_sheet, time_of
from bus.errors import StoreError
from bus.ports.clock import Clock
from bus.ports.store import DocumentStore

_log = logging.getLogger(__name__)
WRITERS: Final = "rollup-writers"
FORGOTTEN_AFTER: Final = 60 * MINUTE
_INTERVAL: Final = 1.0
_REFRESHED: Final = 15.0
_OPEN_AFTER_END: Final = 2 * MINUTE
_AT_ONCE: Final = 64
_PAGE: Final = 32  # sheets between which the loop serves others


class _Mark(msgspec.Struct):
    """Until when (ms) the store has everything of one process, and when that was written."""

    until: int
    at: int


_marks: Final = msgspec.json.Decoder(_Mark)


class _Page:
    """A sheet of this process, and whether the store has it as it is."""

    __slots__ = ("collection", "is_stored", "key", "sheet")

    def __init__(self, collection: str, key: str) -> None:
        self.collection = collection
        self.key = key
        self.sheet = Sheet()
        self.is_stored = False


class Rollups:
    """Counts what this process has written to the store, and writes the counts every second.

    A process that is killed loses what it counted since; a stop loses nothing. Messages depend on none of this.

    Parameters
    ----------
    owner
        Names this process, also after a restart; no other has that name at the same time.
    behind
        The time (ms) of the oldest message or outcome of this process that waits for the store, None for none.
    """

    def __init__(self, documents: DocumentStore, clock: Clock, owner: str, behind: Callable[[], int | None]) -> None:
        self._documents = documents
        self._clock = clock
        self._owner = owner
        self._behind = behind
        self._life = f"{owner}-{clock.now():x}"
        self._serial = 0
        self._fresh: dict[int, Sheet] = {}
        self._pages: dict[tuple[Resolution, int], _Page] = {}
        self._flushing = asyncio.Lock()
        self._marked_at = -math.inf
        self._up = True

    def count(self, writes: Sequence[Message | Outcome]) -> None:
        """Count writes that the store has; they belong to the minute in which they happened."""
        fresh = self._fresh
        for write in writes:
            minute = time_of(write) // MINUTE
            sheet = fresh.get(minute)
            if sheet is None:
                sheet = fresh[minute] = Sheet()
            sheet.count(write)

    async def run(self) -> None:
        """Write until cancelled; the store may be unreachable for any time."""
        while True:
            await self._clock.sleep(_INTERVAL)
            if self._fresh or self._clock.monotonic() - self._marked_at >= _REFRESHED:
                await self._try_to_flush()

    async def flush(self) -> None:
        """Write what was counted; durable when it returns.

        Raises
        ------
        StoreError
            The store does not take it; nothing is lost, and the next call writes it too.
        """
        async with self._flushing:
            now = self._clock.now()
            oldest = self._behind()
            self._enter(now)
            changed = [page for page in self._pages.values() if not page.is_stored]
            for start in range(0, len(changed), _AT_ONCE):
                await self._write(changed[start : start + _AT_ONCE])
            self._put_away(now)
            until = now if oldest is None else min(now, oldest)
            await self._documents.put(WRITERS, self._owner, msgspec.json.encode(_Mark(until, now)))
            self._marked_at = self._clock.monotonic()

    async def close(self) -> None:
        """Write what was counted last; when nothing is left for the store, remove this process's mark as well."""
        await self._try_to_flush()
        if self._up and self._behind() is None:
            try:
                await self._documents.delete(WRITERS, self._owner)
            except StoreError as error:
                _log.warning("statistics count as unfinished for an hour, since the store is away: %s", error)

    async def _try_to_flush(self) -> None:
        try:
            await self.flush()
        except StoreError as error:
            if self._up:
                _log.warning("the store takes no statistics; they are written later: %s", error)
            self._up = False
        else:
            self._up = True

    def _enter(self, now: int) -> None:
        """Add what was counted last to the sheets of each resolution that is kept for so long."""
        fresh, self._fresh = self._fresh, {}
        for minute, counts in fresh.items():
            time = minute * MINUTE
            for resolution in RESOLUTIONS:
                if time >= now - resolution.kept:
                    page = self._page(resolution, resolution.start(time))
                    page.sheet.add(counts)
                    page.is_stored = False

    def _page(self, resolution: Resolution, start: int) -> _Page:
        page = self._pages.get((resolution, start))
        if page is None:
            self._serial += 1
            page = _Page(_name(resolution), f"{_key(start)}/{self._life}-{self._serial:x}")
            self._pages[resolution, start] = page
        return page

    async def _write(self, pages: Sequence[_Page]) -> None:
        puts = (self._documents.put(page.collection, page.key, encode_sheet(page.sheet)) for page in pages)
        results = await asyncio.gather(*puts, return_exceptions=True)
        for page, result in zip(pages, results, strict=True):
            page.is_stored = not isinstance(result, BaseException)
        for result in results:
            if isinstance(result, BaseException):
                raise result

    def _put_away(self, now: int) -> None:
        """Forget sheets of periods that are over; what comes late for one of them begins another sheet."""
        over = [place for place in self._pages if place[1] + place[0].step + _OPEN_AFTER_END < now]
        for place in over:
            del self._pages[place]


class RollupReader:
    """Adds up the sheets of all processes."""

    def __init__(self, documents: DocumentStore, clock: Clock) -> None:
        self._documents = documents
        self._clock = clock

    async def sheets(self, resolution: Resolution, since: int, before: int) -> dict[int, Sheet]:
        """Return the sheets of the periods that begin between two times (ms), ``before`` exclusive, by that time."""
        found: dict[int, Sheet] = {}
        async for start, sheet in self._stored(resolution, since, before):
            if start in found:
                found[start].add(sheet)
            else:
                found[start] = sheet
        return found

    async def complete_until(self) -> int:
        """Return the time (ms) until which every process has written all that it counted."""
        now = self._clock.now()
        stored = await self._documents.list(WRITERS)
        marks = [_marks.decode(document.value) for document in stored]
        return min((mark.until for mark in marks if mark.at > now - FORGOTTEN_AFTER), default=now)

    async def expire(self, now: int) -> int:
        """Delete sheets past their time, and marks of processes that are long gone; return how many documents."""
        count = 0
        for resolution in RESOLUTIONS:
            count += await self._expire(_name(resolution), _key(max(0, now - resolution.kept - resolution.step)))
        for document in await self._documents.list(WRITERS):
            if _marks.decode(document.value).at <= now - FORGOTTEN_AFTER:
                count += await self._documents.delete(WRITERS, document.key)
        return count

    async def _expire(self, collection: str, before: str) -> int:
        count = 0
        while True:
            found = await self._documents.list(collection, limit=_AT_ONCE)
            old = [document.key for document in found if document.key < before]
            await asyncio.gather(*(self._documents.delete(collection, key) for key in old))
            count += len(old)
            if len(old) < _AT_ONCE:
                return count

    async def _stored(self, resolution: Resolution, since: int, before: int) -> AsyncIterator[tuple[int, Sheet]]:
        after, end = _key(since), _key(before)
        while True:
            found = await self._documents.list(_name(resolution), after=after, limit=_PAGE)
            for document in found:
                if document.key >= end:
                    return
                yield int(document.key.partition("/")[0]), decode_sheet(document.value)
            if len(found) < _PAGE:
                return
            after = found[-1].key


def _name(resolution: Resolution) -> str:
    return f"rollup-{resolution.step // 1000}s"


def _key(start: int) -> str:
    return f"{start:015d}"
