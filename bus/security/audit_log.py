"""The audit log: entries as documents, the newest first, appended and dropped after their retention."""

from __future__ import annotations

import asyncio
import logging
import os
from typing import Final, NamedTuple

import msgspec

from bus.domain.audit import Change, Entry, concerns, key_before, key_of
from bus.domain.identity import new_id
from bus.domain.times import DAY
from bus.errors import StoreError
from bus.ports.clock import Clock
from bus.ports.store import DocumentStore, DocumentWrite
from bus.security.principals import Principal

AUDIT: Final = "audit"
_CHUNK: Final = 256
_MOST_READ: Final = 4096
_MOST_A_MILLISECOND: Final = 0xFFF
_log = logging.getLogger(__name__)
_decoder: Final = msgspec.json.Decoder(Entry)


class AuditQuery(NamedTuple):
    """Which entries to read: made at ``since`` or later and before ``before`` (ms), by ``who``, of ``what``."""

    since: int | None = None
    before: int | None = None
    who: str | None = None
    what: str | None = None


class AuditPage(NamedTuple):
    """Entries, the newest first; ``next`` continues after what was read, None at the end."""

    entries: list[Entry]
    next: str | None


class AuditLog:
    """Entries are only ever added, and completed once by whoever added them; no route changes or removes one."""

    def __init__(self, documents: DocumentStore, clock: Clock) -> None:
        self._documents = documents
        self._clock = clock
        self._last = (0, 0)

    def entry(
        self,
        principal: Principal,
        method: str,
        resource: str,
        *,
        changes: dict[str, Change],
        address: str,
    ) -> Entry:
        """Return an entry for a request that is let in, to be added."""
        return Entry(
            id=self._new_id(),
            kind=principal.kind,
            by=principal.id,
            name=principal.name,
            method=method,
            resource=resource,
            changes=changes,
            address=address,
        )

    async def add(self, entry: Entry) -> None:
        """Add an entry; durable when it returns.

        Raises
        ------
        StoreUnavailable
            The request must not be let in then.
        """
        await self._documents.put(*document_of(entry))

    async def complete(self, entry: Entry, status: int) -> None:
        """Write into an entry how its request was answered; while the store is away it stays ``unknown``."""
        entry.status = status
        try:
            await self.add(entry)
        except StoreError as error:
            _log.warning("audit entry %s is kept without its outcome, %d: %s", entry.id, status, error)

    async def read(self, wanted: AuditQuery, *, after: str | None, limit: int) -> AuditPage:
        """Return one page; ``after`` is the ``next`` of the page before.

        A page looks at a bounded number of entries: where few are wanted it may hold less than ``limit``, or nothing,
        and still say where to go on.
        """
        place = max(
            key_of(after) if after is not None else "", key_before(wanted.before) if wanted.before is not None else ""
        )
        found: list[Entry] = []
        for _ in range(_MOST_READ // _CHUNK):
            documents = await self._documents.list(AUDIT, after=place, limit=_CHUNK)
            for document in documents:
                entry = _decoder.decode(document.value)
                if wanted.since is not None and document.key > key_before(wanted.since):
                    return AuditPage(found, None)
                if concerns(entry, who=wanted.who, what=wanted.what):
                    found.append(entry)
                    if len(found) == limit:
                        return AuditPage(found, entry.id)
            if len(documents) < _CHUNK:
                return AuditPage(found, None)
            place, last = documents[-1].key, entry.id
        return AuditPage(found, last)

    async def expire(self, days: int) -> int:
        """Drop the entries of more than so many days ago; return how many."""
        oldest, dropped = key_before(self._clock.now() - days * DAY), 0
        while documents := await self._documents.list(AUDIT, after=oldest, limit=_CHUNK):
            async with asyncio.TaskGroup() as group:
                for document in documents:
                    group.create_task(self._documents.delete(AUDIT, document.key))
            dropped += len(documents)
        return dropped

    def _new_id(self) -> str:
        """Return an id that is greater than the last one of this process, also within a millisecond."""
        now = self._clock.now()
        count = self._last[1] + 1 if now == self._last[0] else 0
        self._last = (now, count)
        return new_id(now, (min(count, _MOST_A_MILLISECOND) << 4).to_bytes(2) + os.urandom(8))


def document_of(entry: Entry) -> DocumentWrite:
    """Return the document that an entry is stored as."""
    return DocumentWrite(AUDIT, key_of(entry.id), msgspec.json.encode(entry))
