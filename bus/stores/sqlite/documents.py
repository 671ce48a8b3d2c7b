"""Small documents with compare-and-set."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

import apsw

from bus.ports.store import Document, DocumentWrite, changed_meanwhile
from bus.stores.sqlite import control_sql as sql
from bus.stores.sqlite.control import Control

_AFTER_ALL: Final = "\U0010ffff" * 4


class Documents:
    """The ``DocumentStore`` part, in ``control.db``."""

    def __init__(self, control: Control) -> None:
        self._control = control

    async def get(self, collection: str, key: str) -> Document | None:
        """Return one document."""
        rows = await self._control.read(sql.GET_DOCUMENT, (collection, key))
        return Document(*rows[0]) if rows else None

    async def list(self, collection: str, *, prefix: str, after: str, limit: int | None) -> list[Document]:
        """Return documents by key order."""
        most = -1 if limit is None else limit
        rows = await self._control.read(sql.LIST_DOCUMENTS, (collection, prefix, after, prefix + _AFTER_ALL, most))
        return [Document(*row) for row in rows]

    async def put(self, collection: str, key: str, value: bytes, *, version: int | None) -> int:
        """Write a document; durable when it returns."""
        return await self._control.run(partial(_put, collection=collection, key=key, value=value, version=version))

    async def put_all(self, documents: Sequence[DocumentWrite], *, synced: bool = True) -> None:
        """Write documents in one transaction; durable when it returns if it is ``synced``."""
        await self._control.run(partial(put_all, documents=documents), synced=synced)

    async def delete(self, collection: str, key: str) -> bool:
        """Delete a document; durable when it returns."""
        return await self._control.run(partial(_delete, collection=collection, key=key))


def put_all(connection: apsw.Connection, *, documents: Sequence[DocumentWrite]) -> None:
    """Write documents, whatever versions are there."""
    for document in documents:
        _put(connection, **document._asdict(), version=None)


def _put(connection: apsw.Connection, *, collection: str, key: str, value: bytes, version: int | None) -> int:
    row = connection.execute(sql.DOCUMENT_VERSION, (collection, key)).fetchone()
    present = row[0] if row else 0
    if version is not None and version != present:
        raise changed_meanwhile(collection, key, present, version)
    connection.execute(sql.PUT_DOCUMENT, (collection, key, present + 1, value))
    return int(present + 1)


def _delete(connection: apsw.Connection, *, collection: str, key: str) -> bool:
    connection.execute(sql.DELETE_DOCUMENT, (collection, key))
    return connection.changes() > 0
