"""Documents that differ from those of the last reading of a collection."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from typing import Final, TypeVar

from bus.ports.store import Document, DocumentStore

Content = TypeVar("Content")
_SLICE: Final = 250  # documents after which the event loop serves others


class ChangedDocuments:
    """Reads whole collections, and decodes the documents that differ from those of the last reading.

    A reading counts once ``accept`` was called: what came of it is in force.
    """

    def __init__(self, documents: DocumentStore) -> None:
        self._documents = documents
        self._read: dict[str, dict[str, Document]] = {}
        self._accepted: dict[str, dict[str, Document]] = {}

    async def read(
        self, collection: str, in_force: Collection[str], decode: Callable[[Document], Content]
    ) -> tuple[list[Content], set[str]]:
        """Return the changed documents, decoded, and the keys of documents that are in force and were removed."""
        accepted = self._accepted.get(collection, {})
        documents: dict[str, Document] = {}
        decoded: list[Content] = []
        for found in await self._documents.list(collection):
            documents[found.key] = found
            if found.key not in in_force or accepted.get(found.key) != found:
                decoded.append(decode(found))
            if len(documents) % _SLICE == 0:
                await asyncio.sleep(0)
        self._read[collection] = documents
        return decoded, set(in_force) - documents.keys()

    def accept(self) -> None:
        """Have the next reading differ from the last one."""
        self._accepted = dict(self._read)
