"""The last good configuration on this process's disk, for when the store is away, or comes back emptied."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from bus.errors import Conflict, StoreUnavailable
from bus.files import write_whole
from bus.ports.store import Document, DocumentStore

_log = logging.getLogger(__name__)
_SUFFIX: Final = ".snapshot"
_DIRECTORY: Final = "configuration"
NOTE: Final = "put_back"
_Documents = list[Document]


class PutBack(msgspec.Struct, frozen=True):
    """What was put back into a store that had been emptied: (collection, key) of each document."""

    documents: tuple[tuple[str, str], ...]


def decode_note(value: bytes) -> PutBack:
    """Return what a note in the store says was put back."""
    return msgspec.json.decode(value, type=PutBack)


def read_kept(data: Path, collection: str) -> _Documents | None:
    """Return what is kept of a collection below a data directory; None when nothing is, or it cannot be read."""
    try:
        return msgspec.msgpack.decode((data / _DIRECTORY / f"{collection}{_SUFFIX}").read_bytes(), type=_Documents)
    except (OSError, msgspec.DecodeError):
        return None


class Snapshot:
    """Documents of the store; whole collections that were read are kept on disk and read from there when it is away.

    What is kept is what the store has: secrets are encrypted and keys are hashed as they are there. Single documents
    come from the kept collection as well. Changes always need the store.

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
        self._written: dict[str, bytes] = {}
        self._old: set[str] = set()

    @property
    def is_old(self) -> bool:
        """Whether a collection was read from disk last, so that it may have been changed since."""
        return bool(self._old)

    async def get(self, collection: str, key: str) -> Document | None:
        """Return one document; of a kept collection the last one known when the store is away."""
        try:
            found = await self._documents.get(collection, key)
            if found is None and (collection, key) == self._mark:
                await self.restore()  # the mark is as new to who asks as all else
        except StoreUnavailable:
            kept = self._read(collection)
            if kept is None:
                raise
            return next((document for document in kept if document.key == key), None)
        return found

    async def list(self, collection: str, *, prefix: str = "", after: str = "", limit: int | None = None) -> _Documents:
        """Return documents by key order; of a kept collection the last ones known when the store is away."""
        try:
            found = await self._documents.list(collection, prefix=prefix, after=after, limit=limit)
        except StoreUnavailable:
            kept = self._read(collection)
            if kept is None:
                raise
            self._old.add(collection)
            matching = [item for item in kept if item.key.startswith(prefix) and item.key > after]
            return matching[:limit]
        if collection in self._collections and not prefix and not after and limit is None:
            self._old.discard(collection)
            if not found and self._read(collection) and await self.restore():
                return await self.list(collection)
            await self._keep(collection, found)
        return found

    async def restore(self) -> bool:
        """Put what is kept back into a store that has lost it; whether that was so. What it has stays as it is.

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
        return await self._documents.put(collection, key, value, version=version)

    async def delete(self, collection: str, key: str) -> bool:
        """Delete a document from the store."""
        return await self._documents.delete(collection, key)

    async def _keep(self, collection: str, found: _Documents) -> None:
        content = msgspec.msgpack.encode(found)
        if self._written.get(collection) == content:
            return
        try:
            await asyncio.to_thread(write_whole, self._data / _DIRECTORY / f"{collection}{_SUFFIX}", content)
        except OSError as error:
            _log.warning("the configuration of %s is not kept on disk: %s", collection, error)
        else:
            self._written[collection] = content

    def _read(self, collection: str) -> _Documents | None:
        return read_kept(self._data, collection)
