"""The bus's own events on their way: documents, until a receiver has accepted them as messages."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Final

import msgspec

from bus.domain.delivery.delivery import Outcome
from bus.domain.message import Message
from bus.domain.own_events import CODE, OwnEvent, deaths
from bus.domain.times import DAY, parse_time
from bus.errors import Conflict, StoreError
from bus.ports.store import DocumentStore

_log = logging.getLogger(__name__)
COLLECTION: Final = "own_events"
MOST: Final = 10_000
"""Events that wait at most; events beyond that are not reported."""
KEPT: Final = 7 * DAY
"""Milliseconds after which an event that no receiver accepted is dropped: receivers refuse messages of that age."""
_AT_ONCE: Final = 100
_COUNTED_EVERY: Final = 500


class OwnEvents:
    """Keeps events while the destination for them is there.

    Parameters
    ----------
    is_wanted
        Whether it is.
    """

    def __init__(self, documents: DocumentStore, is_wanted: Callable[[], bool]) -> None:
        self._documents = documents
        self.is_wanted = is_wanted
        self._uncounted = _COUNTED_EVERY
        self._is_full = False

    async def keep(self, events: Sequence[OwnEvent]) -> None:
        """Keep some; durable when it returns. Raises ``StoreError``; then some of them are kept."""
        if not self.is_wanted() or await self._has_no_room(events):
            return
        await asyncio.gather(*(self._keep(event) for event in events))

    async def _has_no_room(self, events: Sequence[OwnEvent]) -> bool:
        """Whether too many wait, as counted now and then."""
        self._uncounted += len(events)
        if self._uncounted >= _COUNTED_EVERY:
            self._uncounted = 0
            was_full, self._is_full = self._is_full, len(await self._documents.list(COLLECTION, limit=MOST)) >= MOST
            if self._is_full and not was_full:
                _log.warning("%d events wait for a receiver; no more are kept for %s", MOST, CODE)
        return self._is_full

    async def _keep(self, event: OwnEvent) -> None:
        with suppress(Conflict):  # it is there already
            await self._documents.put(COLLECTION, event.key, msgspec.json.encode(event), version=0)

    async def keep_deaths(self, writes: Sequence[Message | Outcome]) -> None:
        """Keep what died, once the store has it; what cannot be kept is logged, and holds up nothing."""
        try:
            await self.keep(list(deaths(writes)) if self.is_wanted() else [])
        except StoreError as error:
            _log.warning("deliveries that died are not told of in %s: %s", CODE, error)

    async def some(self, now: int) -> list[OwnEvent]:
        """Return the first that are kept; one that cannot be read, or that is too old, is removed."""
        found = []
        for document in await self._documents.list(COLLECTION, limit=_AT_ONCE):
            event = _read(document.value)
            if event is None or parse_time(event.at) < now - KEPT:
                await self._documents.delete(COLLECTION, document.key)
            else:
                found.append(event)
        return found

    async def remove(self, events: Iterable[OwnEvent]) -> None:
        """Remove those that a receiver has."""
        await asyncio.gather(*(self._documents.delete(COLLECTION, event.key) for event in events))


def _read(content: bytes) -> OwnEvent | None:
    try:
        return msgspec.json.decode(content, type=OwnEvent)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
