"""Locks between the processes that share a directory; the kernel frees those of a process that dies."""

from __future__ import annotations

import asyncio
import fcntl
import os
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Final

from bus.errors import StoreUnavailable
from bus.localized_text import localized
from bus.stores.sqlite.errors import translating

PATIENCE: Final = 5.0  # seconds that anything of the store waits for another process
_COURTESY: Final = 1.0
POLL: Final = 0.002


class WriteLock:
    """The right to write, which one process has at a time.

    SQLite's own lock goes to the process that happens to ask in the moment it is free, which is the process that just
    freed it. So there is a second lock, the gate: the process that waits for the first holds it, and the process that
    was just served has to wait for the gate. After ``_COURTESY`` seconds its holder counts as stopped, and the gate is
    ignored.
    """

    def __init__(self, folder: Path, name: str) -> None:
        self._name = name
        self._inside = asyncio.Lock()
        self._gate = _FileLock(folder / f"{name}.gate")
        self._lock = _FileLock(folder / f"{name}.lock")

    @asynccontextmanager
    async def held(self) -> AsyncIterator[None]:
        """Hold the turn; the event loop is not blocked while another process has it.

        Raises
        ------
        StoreUnavailable
            Another process had it for ``PATIENCE`` seconds.
        """
        async with self._inside:
            await self._take()
            try:
                yield
            finally:
                self._lock.free()

    def close(self) -> None:
        """Give up the files."""
        self._gate.close()
        self._lock.close()

    async def _take(self) -> None:
        now = time.monotonic()
        with translating(f"{self._name}.lock"):
            first = await _taken(self._gate, now + _COURTESY)
            try:
                if not await _taken(self._lock, now + PATIENCE):
                    raise _stalled(self._name)
            finally:
                if first:
                    self._gate.free()


@contextmanager
def alone(path: Path) -> Iterator[None]:
    """Hold the lock of a file; blocks the thread while another thread or process has it.

    Raises
    ------
    StoreUnavailable
        Another had it for ``PATIENCE`` seconds.
    """
    lock = _FileLock(path)
    try:
        until = time.monotonic() + PATIENCE
        while not lock.take():
            if time.monotonic() > until:
                raise _stalled(path.stem)
            time.sleep(POLL)
        try:
            yield
        finally:
            lock.free()
    finally:
        lock.close()


class _FileLock:
    """An exclusive lock on a file that is made when it is not there."""

    def __init__(self, path: Path) -> None:
        self._handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)

    def take(self) -> bool:
        """Take the lock if it is free; whether it was."""
        try:
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def free(self) -> None:
        """Free the lock."""
        fcntl.flock(self._handle, fcntl.LOCK_UN)

    def close(self) -> None:
        """Close the file."""
        os.close(self._handle)


async def _taken(lock: _FileLock, until: float) -> bool:
    while not lock.take():
        if time.monotonic() > until:
            return False
        await asyncio.sleep(POLL)
    return True


def _stalled(name: str) -> StoreUnavailable:
    return StoreUnavailable(
        localized(
            "another process has had the store's {name} lock for {seconds} s; nothing of this call was written",
            name=name,
            seconds=f"{PATIENCE:g}",
        ),
        hint=localized("look for a process of the bus that is stopped or hangs; writes stay in the spool"),
    )
