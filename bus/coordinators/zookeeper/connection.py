"""A session with an ensemble: kazoo's threads keep it up, and the event loop waits for its answers."""

from __future__ import annotations

import asyncio
import atexit
import logging
import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

from kazoo.client import KazooClient, KazooState
from kazoo.exceptions import NoNodeError

from bus.call_watch import CallWatch
from bus.coordinators.zookeeper.errors import translating, unreached

DEADLINE: Final = 5.0  # seconds for the answers of one call
REACH: Final = 2.0  # seconds to wait for a connection
# Nothing of the bus lives in a session; its time-out (seconds) says how soon a server that hangs is left for another.
SESSION: Final = 4.0
# Seconds without an answer and without the loss of the connection, after which the client itself hangs: kazoo gives a
# connection up within the session's time-out, which a server may extend to 20 of its ticks.
HANGS_AFTER: Final = 60.0
_END_WITHIN: Final = 15.0
_RETRY: Final = {"max_tries": -1, "delay": 0.1, "max_delay": 1.0}

_log = logging.getLogger(__name__)
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
        self._hosts = hosts
        self._call_watch = CallWatch("the client of ZooKeeper")
        self._closed = False
        self._losses = 0
        self._client = self._start()

    def _start(self) -> KazooClient:
        self._connected = asyncio.Event()
        client = KazooClient(self._hosts, timeout=SESSION, connection_retry=_RETRY)
        client.add_listener(partial(self._changed, client, self._connected))
        client.start_async()
        return client

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
        client, losses = self._client, self._losses
        with translating(what, changes=changes):
            answers = [self._answer(request(client)) for request in requests]
            _, missing = await asyncio.wait(answers, timeout=DEADLINE)
            if missing:
                self._call_watch.start(self._watch(answers, client, losses))
                raise TimeoutError
            self._call_watch.ended(client)
            return [_given(answer.exception() or answer.result()) for answer in answers]

    async def close(self) -> None:
        """End the session and all threads; takes some seconds where a server hangs."""
        self._closed = True
        await asyncio.to_thread(self._end(self._client).join, _END_WITHIN)

    async def _watch(self, answers: Sequence[asyncio.Future[Any]], client: KazooClient, losses: int) -> None:
        """Replace the client if a call is not answered, and does not fail with the loss of the connection either."""
        _, missing = await asyncio.wait(answers, timeout=HANGS_AFTER)
        if missing and losses == self._losses and client is self._client and not self._closed:
            self._call_watch.report(missing.pop(), client)
            self._replace()

    def _replace(self) -> None:
        self._end(self._client)
        self._losses += 1
        self._client = self._start()

    async def _reach(self, what: str) -> None:
        if not self._closed and self._has_ended:
            self._replace()
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
        future.add_done_callback(_retrieve)
        result.rawlink(lambda done: self._loop.call_soon_threadsafe(_settle, future, done))
        return future

    def _changed(self, client: KazooClient, connected: asyncio.Event, state: str) -> None:
        """Hear, in kazoo's thread, of a connection that was made or lost."""
        if state == KazooState.CONNECTED:
            self._loop.call_soon_threadsafe(connected.set)
            return
        # A server that was wiped would refuse, for ever, a client that has seen more; one that is behind does no harm,
        # for each read is behind a barrier.
        client.last_zxid = 0
        self._loop.call_soon_threadsafe(self._lost, connected)

    def _lost(self, connected: asyncio.Event) -> None:
        self._losses += 1
        connected.clear()

    def _end(self, client: KazooClient) -> threading.Thread:
        """End a client in a thread that the process does not wait for: a client that hangs may not end."""
        atexit.unregister(client.handler.stop)  # it would wait for the client's threads

        def end() -> None:
            try:
                client.stop()
                client.close()
            except Exception as error:  # noqa: BLE001 - whatever it was, the client is not used again
                _log.debug("a client of ZooKeeper did not end in order: %r", error)

        thread = threading.Thread(target=end, daemon=True)
        thread.start()
        return thread


def _retrieve(future: asyncio.Future[Any]) -> None:
    """Retrieve an error: a caller that has left does not, and the loop would log it."""
    if not future.cancelled():
        future.exception()


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
