"""The contract of stores for documents."""

# ruff: noqa: D102, S101, PLR2004

from __future__ import annotations

import asyncio

import pytest

from bus.errors import Conflict
from bus.ports.store import Document, DocumentWrite, Store
from bus.testing.writes import message


class DocumentContract:
    """The behaviour of ``bus.ports.store.DocumentStore``."""

    async def test_a_document_is_read_back(self, store: Store) -> None:
        assert await store.get("keys", "a") is None
        assert await store.put("keys", "a", b"\x00one") == 1
        assert await store.get("keys", "a") == Document("a", 1, b"\x00one")
        assert await store.get("users", "a") is None
        assert await store.put("keys", "a", b"two") == 2
        assert await store.delete("keys", "a")
        assert not await store.delete("keys", "a")
        assert await store.get("keys", "a") is None

    async def test_put_compares_the_version(self, store: Store) -> None:
        assert await store.put("c", "k", b"1", version=0) == 1
        for version in (0, 2):
            with pytest.raises(Conflict):
                await store.put("c", "k", b"x", version=version)
        assert await store.put("c", "k", b"2", version=1) == 2
        with pytest.raises(Conflict):
            await store.put("c", "none", b"x", version=1)
        assert await store.get("c", "k") == Document("k", 2, b"2")

    async def test_of_many_compare_and_sets_one_wins(self, store: Store) -> None:
        await store.put("c", "k", b"")
        puts = (store.put("c", "k", b"%d" % number, version=1) for number in range(20))
        results = await asyncio.gather(*puts, return_exceptions=True)
        assert sorted(type(result).__name__ for result in results) == ["Conflict"] * 19 + ["int"]

    async def test_list_is_ordered_and_paged(self, store: Store) -> None:
        keys = ["a", "a/1", "a/2", "a/\u00e9", "a/\U0001f600", "b", "B", "a%"]
        for key in keys:
            await store.put("c", key, key.encode())
        await store.put("d", "a/3", b"")
        assert [document.key for document in await store.list("c")] == sorted(keys)
        assert [document.key for document in await store.list("c", prefix="a/")] == sorted(keys)[3:7]
        assert [document.key for document in await store.list("c", after="a/1", limit=2)] == ["a/2", "a/\u00e9"]
        assert [document.key for document in await store.list("c", prefix="a/", after="a/2")] == sorted(keys)[5:7]
        assert await store.list("none") == []


class WrittenDocumentContract:
    """Documents that a store of traces writes with outcomes."""

    async def test_documents_are_written_with_outcomes_or_alone(self, store: Store) -> None:
        await store.put("c", "k", b"1")
        await store.write([message()], [DocumentWrite("c", "k", b"2"), DocumentWrite("d", "n", b"3")])
        assert await store.get("c", "k") == Document("k", 2, b"2")
        assert await store.get("d", "n") == Document("n", 1, b"3")
        assert await store.trace(message().id) is not None
        await store.write([], [DocumentWrite("d", "n", b"4"), DocumentWrite("d", "n", b"5")])
        assert await store.get("d", "n") == Document("n", 3, b"5")
        await store.write([], [])
        await store.note([DocumentWrite("d", "n", b"6"), DocumentWrite("e", "m", b"7")])
        assert await store.get("d", "n") == Document("n", 4, b"6")
        assert await store.get("e", "m") == Document("m", 1, b"7")
