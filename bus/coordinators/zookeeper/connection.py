"""A session with an ensemble: kazoo's threads keep it up, and the event loop waits for its answers."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Final

from kazoo.client import KazooClient, KazooState
from kazoo.exceptions import NoNodeError

from bus.coordinators.zookeeper.errors import translating, unreached

DEADLINE: Final = 5.0  # seconds for the answers of one call
REACH: Final = 2.0  # seconds to wait for a connection
# Nothing of the bus lives in a session; its time-out (seconds) says how soon a server that hangs is left for another.
SESSION: Final = 4.0
_RETRY: Final = {"max_tries": -1, "delay": 0.1, "max_delay": 1.0}

# Where nobody set up logs, a command says by itself what is wrong.
logging.getLogger("kazoo").addHandler(logging.NullHandler())

Request = Callable[[KazooClient], Any]


class Connection:
    """A client of one ensemble; connects by itself, for ever. Make it, and use it, in a running event loop.

    Parameters
    ----------
    hosts
        ``HOST:PORT`` of its servers, comma separated.
    """

    def __init__(self, hosts: str) -> None:
        self._loop = asyncio.get_running_loop()
        self._connected = asyncio.Event()
        self._beginning = asyncio.Lock()
        self._closed = False
        self._client = KazooClient(hosts, timeout=SESSION, connection_retry=_RETRY)
        self._client.add_listener(self._changed)
        self._client.start_async()

    async def ask(self, what: str, *requests: Request, changes: bool = False) -> list[Any]:
        """Send requests in order, and return their answers; None for each whose znode is not there.

        Parameters
        ----------
        what
            For the text of an error.
        changes
            Whether they change something, so that without an answer it is not known whether they did.

        Raises
        ------
        StoreUnavailable
            There is no connection within two seconds, or no answer within five.
        StoreError
            ZooKeeper refused.
        """
        await self._reach(what)
        with translating(what, changes=changes):
            async with asyncio.timeout(DEADLINE):
                answers = [self._answer(request(self._client)) for request in requests]
                return list(map(_given, await asyncio.gather(*answers, return_exceptions=True)))

    async def close(self) -> None:
        """End the session and all threads; takes some seconds where a server hangs."""
        self._closed = True
        await asyncio.to_thread(self._end)

    async def _reach(self, what: str) -> None:
        async with self._beginning:
            if not self._closed and self._has_ended:
                await asyncio.to_thread(self._client.start_async)
        try:
            async with asyncio.timeout(REACH):
                await self._connected.wait()
        except TimeoutError as error:
            raise unreached(what) from error

    @property
    def _has_ended(self) -> bool:
        """Whether kazoo's thread is gone: an answer that it does not know ends it for good."""
        thread = self._client._connection._connection_routine  # noqa: SLF001 - there is no public way
        return not thread.is_alive()

    def _answer(self, result: Any) -> asyncio.Future[Any]:
        future: asyncio.Future[Any] = self._loop.create_future()
        result.rawlink(lambda done: self._loop.call_soon_threadsafe(_settle, future, done))
        return future

    def _changed(self, state: str) -> None:
        """Hear, in kazoo's thread, of a connection that was made or lost."""
        if state == KazooState.CONNECTED:
            self._loop.call_soon_threadsafe(self._connected.set)
            return
        # A server that was wiped would refuse, for ever, a client that has seen more; one that is behind does no harm,
        # for each read is behind a barrier.
        self._client.last_zxid = 0
        self._loop.call_soon_threadsafe(self._connected.clear)

    def _end(self) -> None:
        self._client.stop()
        self._client.close()


def _settle(future: asyncio.Future[Any], done: Any) -> None:
    if future.done():
        return
    if done.successful():
        future.set_result(done.value)
    else:
        future.set_exception(done.exception)


def _given(answer: Any) -> Any:
    if isinstance(answer, NoNodeError):
        return None
    if isinstance(answer, BaseException):
        raise answer
    return answer
