"""The last good configuration on this process's disk, so that it starts and goes on while the store is away."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Final

import msgspec

from bus.errors import StoreUnavailable
from bus.files import write_whole
from bus.ports.store import Document, DocumentStore

_log = logging.getLogger(__name__)
_SUFFIX: Final = ".snapshot"
_Documents = list[Document]


class Snapshot:
    """Documents of the store; whole collections that were read are kept on disk and read from there when it is away.

    What is kept is what the store has: secrets are encrypted and keys are hashed as they are there. Single documents
    come from the kept collection as well. Changes always need the store.

    Parameters
    ----------
    directory
        Where a file for each collection is kept; made when it is not there.
    collections
        Which are kept. Others pass through.
    """

    def __init__(self, documents: DocumentStore, directory: Path, collections: frozenset[str]) -> None:
        self._documents = documents
        self._directory = directory
        self._collections = collections
        self._written: dict[str, bytes] = {}
        self._old: set[str] = set()

    @property
    def is_old(self) -> bool:
        """Whether a collection was read from disk last, so that it may have been changed since."""
        return bool(self._old)

    async def get(self, collection: str, key: str) -> Document | None:
        """Return one document; of a kept collection the last one known when the store is away."""
        try:
            return await self._documents.get(collection, key)
        except StoreUnavailable:
            kept = self._read(collection)
            if kept is None:
                raise
            return next((document for document in kept if document.key == key), None)

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
            await self._keep(collection, found)
        return found

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
            await asyncio.to_thread(write_whole, self._path(collection), content)
        except OSError as error:
            _log.warning("the configuration of %s is not kept on disk: %s", collection, error)
        else:
            self._written[collection] = content

    def _read(self, collection: str) -> _Documents | None:
        """Return what was kept of a collection; None when nothing was, or it cannot be read."""
        try:
            return msgspec.msgpack.decode(self._path(collection).read_bytes(), type=_Documents)
        except (OSError, msgspec.DecodeError):
            return None

    def _path(self, collection: str) -> Path:
        return self._directory / f"{collection}{_SUFFIX}"
