"""Small documents with compare-and-set."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from typing import Any, Final

import msgspec
from pymongo import UpdateOne
from pymongo.errors import DuplicateKeyError

from bus.errors import StoreError, StoreUnavailable
from bus.localized_text import localized
from bus.ports.store import Document, DocumentWrite, changed_meanwhile
from bus.stores.mongodb.connection import Collection, Connection, Form
from bus.stores.mongodb.damaged import DamagedDocuments
from bus.stores.mongodb.forms import DamagedDocument
from bus.stores.mongodb.indexes import DOCUMENTS

_AFTER_ALL: Final = "\U0010ffff" * 4
_MOST_TRIES: Final = 100


class Documents:
    """The ``DocumentStore`` part: ``_id`` is collection and key, so that one index finds and orders them.

    What callers read is settled: a version that they compare with later names the same value permanently.
    """

    def __init__(self, connection: Connection, damaged: DamagedDocuments) -> None:
        self._connection = connection
        self._damaged = damaged

    @property
    def _documents(self) -> Collection:
        return self._connection[DOCUMENTS]

    async def get(self, collection: str, key: str) -> Document | None:
        """Return one document."""
        forms = await self._connection.find(DOCUMENTS, {"_id": _name(collection, key)}, settled=True)
        found = self._read(forms)
        if forms and not found:
            raise _unreadable(collection, key)
        return found[0] if found else None

    async def list(self, collection: str, *, prefix: str, after: str, limit: int | None) -> list[Document]:
        """Return documents by key order, without any that cannot be read."""
        first, last = _name(collection, after), _name(collection, prefix + _AFTER_ALL)
        found: builtins.list[Document] = []
        while limit is None or len(found) < limit:
            between = {"$gte": _name(collection, prefix), "$gt": first, "$lt": last}
            most = 0 if limit is None else limit - len(found)
            forms = await self._connection.find(
                DOCUMENTS, {"_id": between}, sort=[("_id", 1)], limit=most, settled=True
            )
            found += [document for document in self._read(forms) if document.key.startswith(prefix)]
            if limit is None or len(forms) < most:
                break
            first = forms[-1]["_id"]
        return found

    async def put(self, collection: str, key: str, value: bytes, *, version: int | None) -> int:
        """Write a document; durable when it returns."""
        for _ in range(_MOST_TRIES):
            present = await self._version(collection, key)
            if version is not None and version != present:
                raise changed_meanwhile(collection, key, present, version)
            if await self._written(collection, key, value, present):
                return present + 1
        raise StoreUnavailable(
            localized(
                "others changed {collection}/{key} {count} times in a row; nothing was written",
                collection=collection,
                key=key,
                count=_MOST_TRIES,
            )
        )

    async def put_all(self, documents: Sequence[DocumentWrite]) -> None:
        """Write documents in their order, whatever versions are there; durable when it returns."""
        if documents:
            await self._connection.exchange(
                f"write {DOCUMENTS}", lambda: self._documents.bulk_write([_upsert(each) for each in documents])
            )

    async def delete(self, collection: str, key: str) -> bool:
        """Delete a document; durable when it returns."""
        condition = {"_id": _name(collection, key)}
        done = await self._connection.exchange(
            f"remove from {DOCUMENTS}", lambda: self._documents.delete_one(condition)
        )
        return done.deleted_count > 0

    def _read(self, forms: Sequence[Form]) -> builtins.list[Document]:
        documents: list[Document] = []
        for form in forms:
            try:
                fields = [form.get(name) for name in Document._fields]
                documents.append(msgspec.convert(fields, Document))
            except msgspec.ValidationError as error:
                self._damaged.note(DOCUMENTS, form, DamagedDocument(str(error)))
        return documents

    async def _version(self, collection: str, key: str) -> int:
        forms = await self._connection.find(DOCUMENTS, {"_id": _name(collection, key)}, fields=["version"])
        if not forms:
            return 0
        version = forms[0].get("version")
        if not isinstance(version, int):
            raise _unreadable(collection, key)
        return version

    async def _written(self, collection: str, key: str, value: bytes, present: int) -> bool:
        """Write a document whose version is still the present one; whether it was."""
        name = _name(collection, key)
        new: dict[str, Any] = {"version": present + 1, "value": value}

        async def write() -> bool:
            if present:
                changed = await self._documents.update_one({"_id": name, "version": present}, {"$set": new})
                return changed.matched_count > 0
            try:
                await self._documents.insert_one({"_id": name, "collection": collection, "key": key, **new})
            except DuplicateKeyError:
                return False
            return True

        return await self._connection.exchange(f"write {DOCUMENTS}", write)


def _upsert(document: DocumentWrite) -> UpdateOne:
    changes = {
        "$set": {"value": document.value},
        "$inc": {"version": 1},
        "$setOnInsert": {"collection": document.collection, "key": document.key},
    }
    return UpdateOne({"_id": _name(document.collection, document.key)}, changes, upsert=True)


def _name(collection: str, key: str) -> str:
    return f"{collection}/{key}"


def _unreadable(collection: str, key: str) -> StoreError:
    return StoreError(
        localized(
            "document {collection}/{key} is not one that this bus can read; nothing was changed",
            collection=collection,
            key=key,
        ),
        hint=localized("another version or a person wrote it: restore it, or delete it and write it again"),
    )
