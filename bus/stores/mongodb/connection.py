"""The client of one database: its options for safety and deadlines, and one way to call it."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final, TypeVar

import pymongo
from pymongo import AsyncMongoClient
from pymongo.asynchronous.collection import AsyncCollection
from pymongo.asynchronous.database import AsyncDatabase
from pymongo.errors import ConfigurationError as DriverConfigurationError
from pymongo.errors import InvalidName, InvalidOperation, InvalidURI, ServerSelectionTimeoutError
from pymongo.monitoring import ConnectionClosedEvent, ConnectionPoolListener
from pymongo.read_concern import ReadConcern

from bus.call_watch import CallHangs, CallWatch
from bus.error_texts import error_text
from bus.errors import ConfigurationError
from bus.stores.mongodb.errors import translate, translating

Form = dict[str, Any]
Collection = AsyncCollection[Form]
Value = TypeVar("Value")

DATABASE: Final = "bus"
DEADLINE: Final = 5.0  # seconds for one exchange with the server; the driver keeps it
_BATCH: Final = 1_000
_MAJORITY: Final = ReadConcern("majority")
_TURN: Final = 0.02
_SHORT: Final = 2.0  # seconds to find a server
_SHORT_MS: Final = 2_000
_KNOWN_AWAY: Final = 1.0  # seconds for which no call waits for a server again
_CONNECT_MS: Final = 1_500  # shorter, so that the error of a server that is not found says why

# These hold whatever the URL says: nothing is acknowledged that a majority does not have in its journal, and what is
# read is what the primary has, for the writes compare it.
OPTIONS: Final[Form] = {
    "appname": "bus",
    "w": "majority",
    "journal": True,
    "readPreference": "primary",
    "readConcernLevel": "local",
    "retryReads": True,
    "retryWrites": True,
    "serverSelectionTimeoutMS": _SHORT_MS,
    "connectTimeoutMS": _CONNECT_MS,
    "waitQueueTimeoutMS": _SHORT_MS,
    "heartbeatFrequencyMS": _SHORT_MS,
    "socketTimeoutMS": int(DEADLINE * 1000),
    "unicode_decode_error_handler": "replace",  # a foreign document with broken text must not hide the others
    "datetime_conversion": "DATETIME_AUTO",
}


class _Losses(ConnectionPoolListener):
    """Counts connections that ended; the server may have been lost, and come back without its latest data.

    A server's own events would come up to a second late; these come before the call that met the loss continues.
    """

    count = 0

    def connection_closed(self, event: ConnectionClosedEvent) -> None:  # noqa: ARG002 - the driver's signature
        """Count."""
        self.count += 1

    def _ignore(self, event: object) -> None:
        """Do nothing."""

    pool_created = pool_ready = pool_cleared = pool_closed = _ignore
    connection_created = connection_ready = _ignore
    connection_check_out_started = connection_check_out_failed = connection_checked_out = connection_checked_in = (
        _ignore
    )


class Connection:
    """A client of one database; connects by itself, and retries without end.

    Parameters
    ----------
    url
        Of the servers.
    database
        Its name; empty for the one that the URL names, or else ``bus``.

    Raises
    ------
    ConfigurationError
        The URL is not one of a MongoDB.
    """

    def __init__(self, url: str, database: str = "") -> None:
        self._url = url
        self._name = database
        self._losses = _Losses()
        self._missed: ServerSelectionTimeoutError | None = None
        self._missed_at = 0.0
        self._call_watch = CallWatch("the client of MongoDB")
        self._client, self._database = self._open()

    def _open(self) -> tuple[AsyncMongoClient[Form], AsyncDatabase[Form]]:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error", UserWarning)  # an option of the URL that is unknown or impossible
                client: AsyncMongoClient[Form] = AsyncMongoClient(self._url, event_listeners=[self._losses], **OPTIONS)
            return client, client[self._name] if self._name else client.get_default_database(DATABASE)
        except (DriverConfigurationError, InvalidName, InvalidURI, UserWarning, ValueError) as error:
            # No password in a log.
            why = "a part of it is invalid" if "@" in self._url else error_text(error)
            raise ConfigurationError(
                f"the store's URL cannot be used: {why}",
                hint="write it as mongodb://USER:PASSWORD@HOST:PORT/DATABASE?replicaSet=NAME, "
                "with special characters of user and password percent-encoded",
            ) from error

    def __getitem__(self, name: str) -> Collection:
        return self._database[name]

    @property
    def losses(self) -> int:
        """Number of connections that ended; objects made in the server before may have to be made again."""
        return self._losses.count

    @property
    def database(self) -> AsyncDatabase[Form]:
        """The database itself."""
        return self._database

    @property
    def _has_server(self) -> bool:
        """Whether the driver, which keeps looking, has found a server that takes writes."""
        found: bool = self._client.topology_description.has_writable_server()
        return found

    async def exchange(self, what: str, work: Callable[[], Coroutine[Any, Any, Value]]) -> Value:
        """Call the server once within a deadline, and raise the store's errors; ``what`` is for their text.

        It is never cancelled, as the driver may lose a lock by that: a caller that is cancelled leaves it to its
        deadline, until when it may take effect.

        Raises
        ------
        StoreUnavailable
            No server is found within two seconds, or at once when that was so a moment ago; or there is no answer
            within five.
        StoreError
            The server refused.
        """
        now = asyncio.get_running_loop().time
        if self._missed is not None and now() - self._missed_at < _KNOWN_AWAY and not self._has_server:
            raise translate(self._missed, what) from self._missed
        client = self._client
        with translating(what):
            try:
                return await self._call_watch.uncancelled(self._within_deadline(work), within=DEADLINE, client=client)
            except CallHangs:
                self._renew(client)
                raise
            except ServerSelectionTimeoutError as missed:
                # A copy: the traceback of the error itself would keep the documents of the failed call in memory.
                self._missed, self._missed_at = ServerSelectionTimeoutError(str(missed)), now()
                raise
            except InvalidOperation as error:
                if client is self._client:
                    raise
                raise TimeoutError from error  # another call has replaced the client

    def _renew(self, stuck: AsyncMongoClient[Form]) -> None:
        """Replace a client whose calls neither end nor fail."""
        if stuck is self._client:
            self._losses.count += 1
            self._client, self._database = self._open()
            self._call_watch.start(stuck.close())

    async def _within_deadline(self, work: Callable[[], Coroutine[Any, Any, Value]]) -> Value:
        with pymongo.timeout(DEADLINE):
            if not self._has_server:
                # The driver itself would search until the deadline.
                with pymongo.timeout(_SHORT):
                    await self._client.admin.command("ping")
            return await work()

    async def find(
        self,
        collection: str,
        condition: Form,
        *,
        fields: Sequence[str] | None = None,
        sort: Sequence[tuple[str, int]] | None = None,
        skip: int = 0,
        limit: int = 0,
        settled: bool = False,
    ) -> list[Form]:
        """Return the documents that meet a condition, all in one reply as a rule; raises as ``exchange`` does.

        With ``settled`` as a majority has them, so that no change of primary takes back what was read.
        """
        concern = _MAJORITY if settled else None
        found = self._database.get_collection(collection, read_concern=concern).find(
            condition, fields, sort=sort, skip=skip, limit=limit, batch_size=limit or _BATCH
        )
        return await self.exchange(f"read {collection}", lambda: found.to_list(None))

    async def aggregate(self, collection: str, stages: Sequence[Form]) -> list[Form]:
        """Return the result of an aggregation pipeline on a collection; raises as ``exchange`` does."""

        async def groups() -> list[Form]:
            return await (await self[collection].aggregate(stages)).to_list(None)

        return await self.exchange(f"count {collection}", groups)

    async def close(self) -> None:
        """Close all connections."""
        # The driver forgets the socket of a monitor that is connecting at this moment; one turn later it has failed.
        await asyncio.sleep(_TURN)
        await self._client.close()
        await self._call_watch.finish(DEADLINE)
