"""Names to addresses, without letting a dead name server hold up anything else."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

Lookup = Callable[[str, int], Awaitable[Sequence[str]]]

_MOST_THREADS: Final = 64
_MOST_NAMES: Final = 4096


async def system_lookup(host: str, port: int) -> Sequence[str]:
    """Ask the system's resolver, in a thread that a hanging name server cannot keep the process alive with.

    Raises
    ------
    OSError
        The name has no address, or nobody could tell.
    """
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[Sequence[str]] = loop.create_future()
    threading.Thread(target=_ask, args=(host, port, loop, answer), name=f"dns-{host}", daemon=True).start()
    return await answer


class Resolver:
    """Remembers answers for a while and asks once for all who wait for the same name. Errors are not remembered.

    Parameters
    ----------
    lookup
        Returns the addresses of a host, best first; raises OSError.
    ttl
        Seconds for which an answer is used; 0 asks every time.
    clock
        Seconds that never go back.
    """

    def __init__(
        self, lookup: Lookup = system_lookup, *, ttl: float = 10.0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._lookup = lookup
        self._ttl = ttl
        self._clock = clock
        self._known: dict[tuple[str, int], tuple[float, Sequence[str]]] = {}
        self._asking: dict[tuple[str, int], asyncio.Task[Sequence[str]]] = {}
        self._threads = asyncio.Semaphore(_MOST_THREADS)

    async def resolve(self, host: str, port: int) -> Sequence[str]:
        """Return the addresses of a host, at least one.

        Raises
        ------
        OSError
            There is none, or nobody could tell.
        """
        key = (host, port)
        expires, addresses = self._known.get(key, (0.0, ()))
        if addresses and self._clock() < expires:
            return addresses
        if key not in self._asking:
            self._asking[key] = asyncio.create_task(self._ask(key))
        return await _answer(self._asking[key])

    async def close(self) -> None:
        """Stop asking; who waits for an answer gets an OSError."""
        asking = list(self._asking.values())
        for task in asking:
            task.cancel()
        await asyncio.gather(*asking, return_exceptions=True)

    async def _ask(self, key: tuple[str, int]) -> Sequence[str]:
        try:
            async with self._threads:
                addresses = await self._lookup(*key)
        finally:
            del self._asking[key]
        if not addresses:
            raise OSError(f"{key[0]} has no address")
        self._remember(key, addresses)
        return addresses

    def _remember(self, key: tuple[str, int], addresses: Sequence[str]) -> None:
        if not self._ttl:
            return
        if len(self._known) >= _MOST_NAMES:
            self._known.clear()
        self._known[key] = (self._clock() + self._ttl, addresses)


async def _answer(asking: asyncio.Task[Sequence[str]]) -> Sequence[str]:
    """Wait for a shared answer: cancelling one who waits does not end it for the others."""
    try:
        return await asyncio.shield(asking)
    except asyncio.CancelledError as error:
        waiting = asyncio.current_task()
        if asking.cancelled() and waiting is not None and not waiting.cancelling():
            raise OSError("the resolver is closed") from error
        raise


def _ask(host: str, port: int, loop: asyncio.AbstractEventLoop, answer: asyncio.Future[Sequence[str]]) -> None:
    addresses: list[str] = []
    failure: Exception | None = None
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        addresses = list(dict.fromkeys(str(entry[4][0]) for entry in found))
    except (OSError, UnicodeError) as error:
        failure = error
    with contextlib.suppress(RuntimeError):  # the loop may be closed by now
        loop.call_soon_threadsafe(_settle, answer, addresses, failure)


def _settle(answer: asyncio.Future[Sequence[str]], addresses: Sequence[str], failure: Exception | None) -> None:
    if answer.done():
        return
    if failure is None:
        answer.set_result(addresses)
    else:
        answer.set_exception(failure)
