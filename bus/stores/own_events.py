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
from bus.errors import Conflict, StoreError
from bus.ports.store import DocumentStore

_log = logging.getLogger(__name__)
COLLECTION: Final = "own_events"
_AT_ONCE: Final = 100


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

    async def keep(self, events: Iterable[OwnEvent]) -> None:
        """Keep some; durable when it returns. Raises ``StoreError``; then some of them are kept."""
        if not self.is_wanted():
            return
        await asyncio.gather(*(self._keep(event) for event in events))

    async def _keep(self, event: OwnEvent) -> None:
        with suppress(Conflict):  # it is there already
            await self._documents.put(COLLECTION, event.key, msgspec.json.encode(event), version=0)

    async def keep_deaths(self, writes: Sequence[Message | Outcome]) -> None:
        """Keep what died, once the store has it; what cannot be kept is logged, and holds up nothing."""
        try:
            await self.keep(deaths(writes))
        except StoreError as error:
            _log.warning("deliveries that died are not told of in %s: %s", CODE, error)

    async def some(self) -> list[OwnEvent]:
        """Return the first that are kept; one that cannot be read is removed."""
        found = []
        for document in await self._documents.list(COLLECTION, limit=_AT_ONCE):
            try:
                found.append(msgspec.json.decode(document.value, type=OwnEvent))
            except (msgspec.DecodeError, UnicodeDecodeError):
                await self._documents.delete(COLLECTION, document.key)
        return found

    async def remove(self, events: Iterable[OwnEvent]) -> None:
        """Remove those that a receiver has."""
        await asyncio.gather(*(self._documents.delete(COLLECTION, event.key) for event in events))
