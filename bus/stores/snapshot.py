"""The last good configuration on this process's disk, for when the store is unreachable or comes back emptied."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from bus.errors import Conflict, StoreUnavailable
from bus.files import write_whole
from bus.ports.clock import Clock
from bus.ports.store import Document, DocumentStore
from bus.telemetry.outage import Outage

_log = logging.getLogger(__name__)
_WRITE: Final = 0.5
_SUFFIX: Final = ".snapshot"
_DIRECTORY: Final = "configuration"
NOTE: Final = "put_back"
_PAGE: Final = 500
_Documents = list[Document]


class PutBack(msgspec.Struct, frozen=True):
    """The documents that were put back into an emptied store: (collection, key) of each."""

    documents: tuple[tuple[str, str], ...]


def decode_note(value: bytes) -> PutBack:
    """Return the documents that were put back, from a note in the store."""
    return msgspec.json.decode(value, type=PutBack)


def read_kept(data: Path, collection: str) -> _Documents | None:
    """Return the kept documents of a collection below a data directory; None without any, or if they cannot be read."""
    try:
        return msgspec.msgpack.decode((data / _DIRECTORY / f"{collection}{_SUFFIX}").read_bytes(), type=_Documents)
    except (OSError, msgspec.DecodeError):
        return None


def kept_files(root: Path) -> list[Path]:
    """Return the files of all kept collections in the data directories at or below a directory."""
    return sorted(root.rglob(f"{_DIRECTORY}/*{_SUFFIX}"))


class Snapshot:
    """Documents of the store; whole collections that were read are kept on disk, for when the store is unreachable.

    What is kept is what the store has: secrets are encrypted and keys are hashed as they are there. Single documents
    come from the kept collection as well. Changes always need the store; those made here are in the files half a second
    later, all of that time at once, without reading the store.

    A store without the mark that was kept with it has lost its documents (it was wiped, or is another): they are put
    back as soon as that is seen, before anything is read. A note among them says so until a person has chosen.

    Parameters
    ----------
    data
        The data directory, below which a file for each collection is kept; made when it is not there.
    collections
        Which are kept. Others pass through.
    mark
        Collection and key of a document that is written with every change and never deleted.
    """

    def __init__(
        self, documents: DocumentStore, data: Path, collections: frozenset[str], mark: tuple[str, str]
    ) -> None:
        self._documents = documents
        self._data = data
        self._collections = collections
        self._mark = mark
        self._known: dict[str, dict[str, Document]] = {}
        self._unwritten: set[str] = set()
        self._writing = asyncio.Lock()
        self._outage = Outage(_log, "the configuration is not kept on disk")
        self._changes: Counter[str] = Counter()
        self._old: set[str] = set()

    @property
    def is_old(self) -> bool:
        """Whether a collection was read from disk last, so that it may have been changed since."""
        return bool(self._old)

    async def run(self, clock: Clock) -> None:
        """Write changes to the files until cancelled."""
        while True:
            await clock.sleep(_WRITE)
            await self.write()

    async def write(self) -> None:
        """Write what was changed since to the files; durable when it returns, as far as the disk takes it."""
        for collection in sorted(self._unwritten):
            await self._write(collection)

    async def get(self, collection: str, key: str) -> Document | None:
        """Return one document; of a kept collection the last version read when the store is unreachable."""
        try:
            found = await self._documents.get(collection, key)
            if found is None and (collection, key) == self._mark:
                await self.restore()  # the caller still gets None, and so sees that something has changed
        except StoreUnavailable:
            kept = self._read(collection)
            if kept is None:
                raise
            return next((document for document in kept if document.key == key), None)
        return found

    async def list(self, collection: str, *, prefix: str = "", after: str = "", limit: int | None = None) -> _Documents:
        """Return documents by key order; of a kept collection the last versions read when the store is unreachable.

        Of a kept collection as a whole nothing is older than what this process has changed by the time it is returned.
        """
        changes = self._changes[collection]
        is_whole = collection in self._collections and not prefix and not after and limit is None
        try:
            if is_whole:
                found = await self._all(collection)
            else:
                found = await self._documents.list(collection, prefix=prefix, after=after, limit=limit)
        except StoreUnavailable:
            kept = self._read(collection)
            if kept is None:
                raise
            self._old.add(collection)
            matching = [item for item in kept if item.key.startswith(prefix) and item.key > after]
            return matching[:limit]
        if is_whole:
            self._old.discard(collection)
            if not found and self._read(collection) and await self.restore():
                return await self.list(collection)
            if changes == self._changes[collection]:
                await self._keep(collection, found)
            # What was read during a change, or kept on disk meanwhile, may lack it: its reader would go back to before.
            if changes != self._changes[collection]:
                return await self.list(collection)
        return found

    async def _all(self, collection: str) -> _Documents:
        """Read a collection from the store a page at a time, so that the event loop serves others in between.

        A document that is as it was when it was read last is the same object.
        """
        found: _Documents = []
        known = self._known.get(collection, {})
        while True:
            page = await self._documents.list(collection, after=found[-1].key if found else "", limit=_PAGE)
            found += [before if (before := known.get(one.key)) == one else one for one in page]
            if len(page) < _PAGE:
                return found
            await asyncio.sleep(0)

    async def restore(self) -> bool:
        """Put what is kept back into a store that has lost it; whether it had. What the store has stays as it is.

        Raises
        ------
        StoreError
            The store does not take it; as long as it lacks the mark, the next look begins again.
        """
        collection, key = self._mark
        mark = next((document for document in self._read(collection) or () if document.key == key), None)
        if mark is None or await self._documents.get(collection, key) is not None:
            return False
        documents = [
            (name, found) for name in sorted(self._collections) for found in self._read(name) or () if found != mark
        ]
        note = PutBack(tuple((name, found.key) for name, found in documents))
        await self._documents.put(collection, NOTE, msgspec.json.encode(note))
        for name, found in [*documents, (collection, mark)]:
            with suppress(Conflict):
                await self._documents.put(name, found.key, found.value, version=0)
        _log.error(
            "the store has lost the configuration: %d documents kept in %s were put back; nothing is canceled",
            len(documents),
            self._data / _DIRECTORY,
        )
        return True

    async def put(self, collection: str, key: str, value: bytes, *, version: int | None = None) -> int:
        """Write a document to the store."""
        stored = await self._documents.put(collection, key, value, version=version)
        self._changes[collection] += 1
        if collection in self._known:
            self._known[collection][key] = Document(key, stored, value)
            self._unwritten.add(collection)
        return stored

    async def delete(self, collection: str, key: str) -> bool:
        """Delete a document from the store."""
        was_there = await self._documents.delete(collection, key)
        self._changes[collection] += 1
        if collection in self._known and self._known[collection].pop(key, None) is not None:
            self._unwritten.add(collection)
        return was_there

    async def _keep(self, collection: str, found: _Documents) -> None:
        fresh = {document.key: document for document in found}
        if self._known.get(collection) != fresh:
            self._known[collection] = fresh
            self._unwritten.add(collection)
        if collection in self._unwritten:
            await self._write(collection)

    async def _write(self, collection: str) -> None:
        async with self._writing:
            self._unwritten.discard(collection)
            content = msgspec.msgpack.encode(self._read(collection))
            try:
                await asyncio.to_thread(write_whole, self._data / _DIRECTORY / f"{collection}{_SUFFIX}", content)
            except OSError as error:
                self._unwritten.add(collection)
                self._outage.goes_on(error)
            else:
                self._outage.is_over()

    def _read(self, collection: str) -> _Documents | None:
        known = self._known.get(collection)
        if known is not None:
            return [known[key] for key in sorted(known)]
        return read_kept(self._data, collection)
