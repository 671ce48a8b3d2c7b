"""Connects to the first of several addresses that answers (RFC 8305), and remembers those that did not."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Coroutine, Sequence
from itertools import chain, zip_longest
from typing import Any, Final, NamedTuple

DELAY: Final = 0.25
"""Seconds after which the next address is tried as well, as RFC 8305 recommends."""
_LATE_FOR: Final = 600.0
_MOST_TRIED: Final = 16
_MOST_LATE: Final = 4096


class ConnectedSocket(NamedTuple):
    """A connected socket, its address, and the addresses that were tried before and did not answer in time."""

    sock: socket.socket
    address: str
    late: Sequence[str]


class LateAddresses:
    """Addresses that another one of the same host preceded: for ten minutes they are tried behind the others.

    Parameters
    ----------
    clock
        Seconds that never go back.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._until: dict[tuple[str, int], float] = {}

    def order(self, addresses: Sequence[str], port: int) -> list[str]:
        """Return the addresses in the order to try them, 16 at most: the families alternate, late ones are last."""
        now = self._clock()
        late = [address for address in addresses if self._until.get((address, port), 0.0) > now]
        others = [address for address in addresses if address not in late]
        return [*_alternating(others), *_alternating(late)][:_MOST_TRIED]

    def note(self, address: str, port: int, late: Sequence[str]) -> None:
        """Remember which address answered, and which did not."""
        self._until.pop((address, port), None)
        for one in late:
            self._until.pop((one, port), None)
            if len(self._until) >= _MOST_LATE:
                del self._until[next(iter(self._until))]
            self._until[one, port] = self._clock() + _LATE_FOR


def _alternating(addresses: Sequence[str]) -> list[str]:
    """Return the addresses so that each other one is of the first one's family, as long as there are both."""
    first = [address for address in addresses if (":" in address) == (":" in addresses[0])]
    second = [address for address in addresses if address not in first]
    return [address for address in chain(*zip_longest(first, second)) if address is not None]


async def connect_first(
    addresses: Sequence[str], connect: Callable[[str], Coroutine[Any, Any, socket.socket]], delay: float
) -> ConnectedSocket:
    """Connect to an address after the other, each ``delay`` seconds after the last one or once that failed.

    The first that is connected counts; all others are closed when this returns or is cancelled.

    Parameters
    ----------
    addresses
        At least one, in the order to try them.
    connect
        Connects to one; cancelling it closes its socket.

    Raises
    ------
    Exception
        None is connected: what ``connect`` raised for the last address.
    """
    tasks: list[asyncio.Task[socket.socket]] = []
    try:
        for address in addresses:
            tasks.append(asyncio.create_task(connect(address)))
            is_last = len(tasks) == len(addresses)
            await _first_success(tasks, None if is_last else delay, waits_for_all=is_last)
            if any(map(_is_connected, tasks)):
                break
        place = next((place for place, task in enumerate(tasks) if _is_connected(task)), len(tasks) - 1)
        reached = ConnectedSocket(tasks[place].result(), addresses[place], addresses[:place])
        del tasks[place]
        return reached
    finally:
        await _close(tasks)


async def _first_success(
    tasks: Sequence[asyncio.Task[socket.socket]], within: float | None, *, waits_for_all: bool
) -> None:
    """Wait for a connection; for the next failure as well, unless it ``waits_for_all``."""
    while running := [task for task in tasks if not task.done()]:
        done, _ = await asyncio.wait(running, timeout=within, return_when=asyncio.FIRST_COMPLETED)
        if not waits_for_all or any(map(_is_connected, done)):
            return


def _is_connected(task: asyncio.Task[socket.socket]) -> bool:
    return task.done() and task.exception() is None


async def _close(tasks: Sequence[asyncio.Task[socket.socket]]) -> None:
    """End attempts whose connections are not used."""
    for task in tasks:
        task.cancel()
    for found in await asyncio.gather(*tasks, return_exceptions=True):
        if isinstance(found, socket.socket):
            found.close()
