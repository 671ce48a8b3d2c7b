"""Failovers of sites as documents of the store, kept on disk, in force in all proxies within a second."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from bus.domain.routing.failover import Failover, Phase
from bus.errors import Conflict, NotFound
from bus.localized_text import localized
from bus.ports.store import Document
from bus.stores.snapshot import Snapshot, read_kept
from lookup.migrating.migrations import ensure_mark

_log = logging.getLogger(__name__)
COLLECTION: Final = "lookup_failovers"


class Failovers:
    """The failover of each site, the last one.

    Parameters
    ----------
    kept
        The documents, with ``COLLECTION`` among those that it keeps on disk.
    """

    def __init__(self, kept: Snapshot, data: Path) -> None:
        self._kept = kept
        self._found: dict[str, tuple[Failover, int]] = {}
        self._take(read_kept(data, COLLECTION) or ())

    @property
    def all(self) -> list[Failover]:
        """All of them by site."""
        return [self._found[room][0] for room in sorted(self._found)]

    @property
    def active(self) -> list[Failover]:
        """Those that have an effect."""
        return [one for one in self.all if one.phase is not Phase.ENDED]

    def get(self, room: str) -> Failover:
        """Return that of a site; raises ``NotFound``."""
        if room not in self._found:
            raise NotFound(localized("there is no failover of {room}", room=repr(room)))
        return self._found[room][0]

    async def load(self) -> None:
        """Read them all; raises ``StoreError`` when the store is unreachable and nothing was ever kept."""
        self._take(await self._kept.list(COLLECTION))

    async def put(self, failover: Failover) -> None:
        """Begin or change one; durable when it returns.

        Raises
        ------
        Conflict
            Another request changed that of the site first, or one is active already.
        """
        before, version = self._found.get(failover.room, (None, 0))
        if before is not None and before.phase is not Phase.ENDED and failover.phase is Phase.ACTIVE:
            raise Conflict(
                localized(
                    "{room} has failed over to {to} already; nothing was changed", room=failover.room, to=before.to
                ),
                hint=localized("end it first: {command}", command=f"bus lookup failover {failover.room} --end"),
            )
        await ensure_mark(self._kept)
        stored = await self._kept.put(COLLECTION, failover.room, msgspec.json.encode(failover), version=version)
        self._found[failover.room] = (failover, stored)

    def _take(self, documents: Sequence[Document]) -> None:
        found: dict[str, tuple[Failover, int]] = {}
        for document in documents:
            try:
                found[document.key] = (msgspec.json.decode(document.value, type=Failover), document.version)
            except (msgspec.DecodeError, UnicodeDecodeError):
                _log.error("the failover of %s is of another version; it has no effect here", document.key)
        self._found = found
