"""The last use of each API key: in memory, and written once a minute at most."""

from __future__ import annotations

from collections.abc import Callable, Container
from typing import Final

import msgspec

from bus.ports.store import DocumentStore

USES: Final = "key-uses"
_MINUTE: Final = 60_000


class KeyUses:
    """Uses by minute: those that every process saved, and those that this one has seen since.

    A process that is killed takes the uses of its last minute with it.
    """

    def __init__(self, documents: DocumentStore, now: Callable[[], int]) -> None:
        self._documents = documents
        self._now = now
        self._seen: set[str] = set()

    def note(self, key_id: str) -> None:
        """Note that a key was used now."""
        self._seen.add(key_id)

    async def load(self) -> dict[str, int]:
        """Return the last use (ms) of each key that was ever used."""
        saved = await self._saved()
        return saved | dict.fromkeys(self._seen, self._this_minute())

    async def save(self, known: Container[str]) -> None:
        """Write the uses since the last time, of keys that are still known.

        Raises
        ------
        StoreUnavailable
            They are written the next time.
        """
        if not self._seen:
            return
        minute, saved = self._this_minute(), await self._saved()
        for key_id in list(self._seen):
            if key_id in known and saved.get(key_id, 0) < minute:
                await self._documents.put(USES, key_id, msgspec.json.encode(minute))
            self._seen.discard(key_id)

    async def forget(self, key_id: str) -> None:
        """Drop what is known of a key that was revoked."""
        self._seen.discard(key_id)
        await self._documents.delete(USES, key_id)

    async def _saved(self) -> dict[str, int]:
        return {found.key: msgspec.json.decode(found.value, type=int) for found in await self._documents.list(USES)}

    def _this_minute(self) -> int:
        return self._now() // _MINUTE * _MINUTE
