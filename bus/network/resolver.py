"""Remembers the addresses of names, and goes on with the last ones while no name server answers."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from bus.network.names import DnsLookup, Lookup

_PATIENCE: Final = 1.0
"""Seconds to wait for a new answer before the last one is used."""
_USABLE: Final = 86_400.0
"""Seconds for which an answer is used while no name server gives a new one (RFC 8767 has one to three days)."""
_LONGEST: Final = 30.0
_MOST_NAMES: Final = 4096


class _CachedAnswer(NamedTuple):
    """An answer: new until ``fresh``, and usable until ``usable`` while there is no new one."""

    addresses: Sequence[str]
    fresh: float
    usable: float


class Resolver:
    """Asks once at a time for each host, however many wait for it, and remembers the answer for a while.

    A name that is slow or fails delays only those who wait for it. While no name server answers, the last addresses of
    a name are used for a day; that a name does not exist ends that. Errors are not remembered.

    Parameters
    ----------
    lookup
        Returns the addresses of a host, best first; raises OSError, ``socket.gaierror`` with ``EAI_NONAME`` for a
        name that has none. None asks /etc/hosts and DNS.
    ttl
        Seconds for which an answer is used without asking; 0 asks every time, and remembers nothing.
    clock
        Seconds that never go back.
    """

    def __init__(
        self, lookup: Lookup | None = None, *, ttl: float = 10.0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._dns = DnsLookup()
        self._lookup = lookup or self._dns
        self._ttl = ttl
        self._clock = clock
        self._known: dict[str, _CachedAnswer] = {}
        self._asking: dict[str, tuple[float, asyncio.Task[Sequence[str]]]] = {}

    async def resolve(self, host: str, port: int) -> Sequence[str]:
        """Return the addresses of a host, at least one.

        Raises
        ------
        OSError
            There is none, or no name server answers and none is remembered.
        """
        now, known = self._clock(), self._known.get(host)
        if known is not None and now < known.fresh:
            return known.addresses
        if host not in self._asking:
            asking = asyncio.create_task(self._ask(host, port))
            asking.add_done_callback(_noticed)
            self._asking[host] = now, asking
        since, task = self._asking[host]
        if known is None or now >= known.usable:
            return await _answer(task)
        await asyncio.wait({task}, timeout=max(0.0, since + _PATIENCE - now))
        return await _answer(task) if task.done() else known.addresses

    async def close(self) -> None:
        """Stop asking; who waits for an answer gets an OSError."""
        asking = [task for _, task in self._asking.values()]
        for task in asking:
            task.cancel()
        await asyncio.gather(*asking, return_exceptions=True)
        self._dns.close()

    async def _ask(self, host: str, port: int) -> Sequence[str]:
        try:
            async with asyncio.timeout(_LONGEST):
                addresses = await self._lookup(host, port)
        except TimeoutError as error:
            return self._last(host, OSError(f"no answer for {host} within {_LONGEST:g} s"), error)
        except (OSError, UnicodeError) as error:
            return self._last(host, error)
        finally:
            del self._asking[host]
        if not addresses:
            return self._last(host, socket.gaierror(socket.EAI_NONAME, f"{host} has no address"))
        self._remember(host, addresses)
        return addresses

    def _last(self, host: str, failure: Exception, cause: Exception | None = None) -> Sequence[str]:
        """Return the last addresses for the time that an answer is used, or raise why there is no new one."""
        now, known = self._clock(), self._known.get(host)
        if known is None or now >= known.usable or _is_final(failure):
            self._known.pop(host, None)
            raise failure from cause
        self._known[host] = known._replace(fresh=now + self._ttl)
        return known.addresses

    def _remember(self, host: str, addresses: Sequence[str]) -> None:
        if not self._ttl:
            return
        self._known.pop(host, None)
        if len(self._known) >= _MOST_NAMES:
            del self._known[next(iter(self._known))]
        now = self._clock()
        self._known[host] = _CachedAnswer(addresses, now + self._ttl, now + _USABLE)


def _is_final(failure: Exception) -> bool:
    return isinstance(failure, UnicodeError) or (
        isinstance(failure, socket.gaierror) and failure.errno == socket.EAI_NONAME
    )


def _noticed(asking: asyncio.Task[Sequence[str]]) -> None:
    """Retrieve an error that no caller awaits, or the loop would log it."""
    if not asking.cancelled():
        asking.exception()


async def _answer(asking: asyncio.Task[Sequence[str]]) -> Sequence[str]:
    """Wait for a shared answer: cancelling one who waits does not end it for the others."""
    try:
        return await asyncio.shield(asking)
    except asyncio.CancelledError as error:
        waiting = asyncio.current_task()
        if asking.cancelled() and waiting is not None and not waiting.cancelling():
            raise OSError("the resolver is closed") from error
        raise
