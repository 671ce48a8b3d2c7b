"""Small documents with compare-and-set, each a znode."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from functools import partial
from typing import Any, Final

from kazoo.client import KazooClient
from kazoo.exceptions import BadVersionError, NodeExistsError

from bus.coordinators.zookeeper.connection import Connection, Request
from bus.coordinators.zookeeper.names import node_of, text_of
from bus.errors import StoreError, StoreUnavailable
from bus.localized_text import localized
from bus.ports.store import Document, changed_meanwhile

ROOT: Final = "bus"
# A server ends the connection of a request over 1,048,575 bytes (``jute.maxbuffer``); this leaves room for its head.
MOST_BYTES: Final = 0xFFFFF - 256
_MOST_TRIES: Final = 100
_AT_ONCE: Final = 500


class ZookeeperDocuments:
    """A ``DocumentStore`` in ZooKeeper. Make it in a running event loop; it connects by itself, for ever.

    A document's version is its znode's and one. What was acknowledged rests on the disks of a majority, and a read
    sees all that was acknowledged to anybody before: each costs a transaction, as a change does. A call takes a few
    seconds at most: then it raises ``StoreUnavailable``, and a change says whether it may have been made. One that is
    made late changes only the version that it was meant for.

    Parameters
    ----------
    address
        ``HOST:PORT,HOST:PORT/PATH``; without a path, documents are below ``/bus``.
    """

    def __init__(self, address: str) -> None:
        hosts, _, path = address.partition("/")
        self._root = f"/{path or ROOT}"
        self._connection = Connection(hosts)

    async def get(self, collection: str, key: str) -> Document | None:
        """Return one document."""
        (found,) = await self._read(f"read {collection}/{key}", collection, [key])
        return found

    async def list(
        self, collection: str, *, prefix: str = "", after: str = "", limit: int | None = None
    ) -> builtins.list[Document]:
        """Return documents by key order; each is as it was at some moment of the call, not all of the same."""
        keys = [key for key in await self._keys(collection) if key.startswith(prefix) and key > after]
        found: builtins.list[Document] = []
        at_once = _AT_ONCE if limit is None else min(limit, _AT_ONCE)
        while keys and (limit is None or len(found) < limit):
            found += filter(None, await self._read(f"read {collection}", collection, keys[:at_once]))
            keys = keys[at_once:]
        return found[:limit]

    async def put(self, collection: str, key: str, value: bytes, *, version: int | None = None) -> int:
        """Write a document; durable when it returns.

        Raises
        ------
        StoreError
            It is over ``MOST_BYTES`` with the name of its znode; nothing was sent.
        """
        self._refuse_large(collection, key, value)
        for _ in range(_MOST_TRIES):
            expected = await self._version(collection, key) if version is None else version
            if await self._written(collection, key, value, expected):
                return expected + 1
            if version is not None and (present := await self._version(collection, key)) != version:
                raise changed_meanwhile(collection, key, present, version)
        raise _restless(collection, key)

    async def delete(self, collection: str, key: str) -> bool:
        """Delete a document; durable when it returns."""
        for _ in range(_MOST_TRIES):
            version = await self._version(collection, key)
            if not version:
                return False
            if await self._deleted(collection, key, version):
                return True
        raise _restless(collection, key)

    async def close(self) -> None:
        """Give up the connection; calls after it raise ``StoreUnavailable``."""
        await self._connection.close()

    async def _read(self, what: str, collection: str, keys: Sequence[str]) -> builtins.list[Document | None]:
        paths = [self._path(collection, key) for key in keys]
        answers = await self._asked(what, *(partial(KazooClient.get_async, path=path) for path in paths))
        return [_document(key, answer) for key, answer in zip(keys, answers, strict=True)]

    async def _keys(self, collection: str) -> builtins.list[str]:
        children = partial(KazooClient.get_children_async, path=self._path(collection))
        (nodes,) = await self._asked(f"list {collection}", children)
        return sorted(key for node in nodes or () if (key := text_of(node)) is not None)

    async def _version(self, collection: str, key: str) -> int:
        """Return the version that is there, 0 for none."""
        exists = partial(KazooClient.exists_async, path=self._path(collection, key))
        (stat,) = await self._asked(f"read {collection}/{key}", exists)
        return 0 if stat is None else int(stat.version) + 1

    async def _asked(self, what: str, *requests: Request) -> builtins.list[Any]:
        """Return answers that know of all that was acknowledged before, whichever server gives them."""
        barrier = partial(_barrier, path=self._root)
        return (await self._connection.ask(what, barrier, *requests))[1:]

    async def _written(self, collection: str, key: str, value: bytes, expected: int) -> bool:
        """Write a document whose version is still the expected one; whether it was."""
        path = self._path(collection, key)
        request = (
            partial(KazooClient.set_async, path=path, value=value, version=expected - 1)
            if expected
            else partial(KazooClient.create_async, path=path, value=value, makepath=True)
        )
        return await self._changed(f"write {collection}/{key}", request)

    async def _deleted(self, collection: str, key: str, present: int) -> bool:
        """Delete a document whose version is still the one that was read; whether it was."""
        path = self._path(collection, key)
        request = partial(KazooClient.delete_async, path=path, version=present - 1)
        return await self._changed(f"delete {collection}/{key}", request)

    async def _changed(self, what: str, request: Request) -> bool:
        try:
            (answer,) = await self._connection.ask(what, request, changes=True)
        except (BadVersionError, NodeExistsError):
            return False
        return answer is not None

    def _path(self, *names: str) -> str:
        return "/".join([self._root, *map(node_of, names)])

    def _refuse_large(self, collection: str, key: str, value: bytes) -> None:
        size = len(self._path(collection, key)) + len(value)
        if size > MOST_BYTES:
            said = localized(
                "{collection}/{key} has {size} bytes with its name, and ZooKeeper takes {most}; nothing was written",
                collection=collection,
                key=key,
                size=size,
                most=MOST_BYTES,
            )
            raise StoreError(
                said, hint=localized("a document of a coordinator is small: leave out what it need not have")
            )


def _barrier(client: KazooClient, path: str) -> Any:
    """Have a majority agree on a transaction that changes nothing; what the session reads behind it is not older.

    ``sync`` does not do that: the leader answers it for its own clients before it has applied what others were told.
    """
    transaction = client.transaction()
    transaction.check(path, -1)
    return transaction.commit_async()


def _document(key: str, answer: Any) -> Document | None:
    if answer is None:
        return None
    value, stat = answer
    return Document(key, stat.version + 1, value or b"")


def _restless(collection: str, key: str) -> StoreUnavailable:
    return StoreUnavailable(
        localized(
            "others changed {collection}/{key} {count} times in a row; nothing was written",
            collection=collection,
            key=key,
            count=_MOST_TRIES,
        )
    )
