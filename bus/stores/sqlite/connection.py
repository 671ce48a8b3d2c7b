"""Opening a file of the store: durable settings, the schema and its version; and waiting for other processes."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, TypeVar

import apsw

from bus.errors import ConfigurationError
from bus.files import make_private, sync_directory
from bus.stores.sqlite.errors import translating
from bus.stores.sqlite.locking import PATIENCE, POLL

Result = TypeVar("Result")
_PAGE_BYTES: Final = 8_192
_JOURNAL_BYTES: Final = 64 * 1_048_576

_SETTINGS: Final = f"""
PRAGMA page_size = {_PAGE_BYTES};
PRAGMA journal_mode = WAL;
PRAGMA synchronous = FULL;
PRAGMA journal_size_limit = {_JOURNAL_BYTES};
"""


def open_writer(path: Path, steps: Sequence[str]) -> apsw.Connection:
    """Open a file for writing, and make it when it is new; call it in a thread, while nothing else opens it.

    Parameters
    ----------
    steps
        What makes each version of the schema from the one before; a file's version is how many of them it has.

    Raises
    ------
    ConfigurationError
        A newer version of the bus wrote the file.
    StoreError
        The file cannot be opened or is not a database.
    """
    with translating(path.name):
        make_private(path)
        connection = apsw.Connection(str(path))
        try:
            connection.set_busy_timeout(round(PATIENCE * 1000))
            connection.execute(_SETTINGS).fetchall()  # a statement that gives rows holds up those behind it
            _bring_up(connection, path, steps)
            connection.set_busy_timeout(0)
        except BaseException:
            connection.close()
            raise
    return connection


def open_reader(path: Path) -> apsw.Connection:
    """Open an existing file for reading only, in a thread, while nothing drops it; its waits block."""
    with translating(path.name):
        connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
        try:
            connection.set_busy_timeout(round(PATIENCE * 1000))
            connection.execute("PRAGMA query_only = ON; PRAGMA cache_size = -4000").fetchall()
            connection.pragma("user_version")  # the first read opens the write-ahead log, by its name
        except BaseException:
            connection.close()
            raise
    return connection


async def patiently(call: Callable[[], Result]) -> Result:
    """Return the result of a short call, repeated while another process has a lock; the event loop is not blocked.

    Raises
    ------
    apsw.BusyError
        It had the lock for ``PATIENCE`` seconds. The connection must have no busy timeout of its own.
    """
    until = time.monotonic() + PATIENCE
    while True:
        try:
            return call()
        except apsw.BusyError:
            if time.monotonic() > until:
                raise
            await asyncio.sleep(POLL)


def inode_of(path: str) -> int:
    """Return the number of the file that a name stands for; 0 when there is none."""
    try:
        return os.stat(path).st_ino  # noqa: PTH116 - a third of the time
    except FileNotFoundError:
        return 0


def _bring_up(connection: apsw.Connection, path: Path, steps: Sequence[str]) -> None:
    found = int(connection.pragma("user_version"))
    if found == len(steps):
        return
    if found > len(steps):
        raise ConfigurationError(
            f"{path} has version {found} of the store's format; this bus supports {len(steps)}",
            hint="start the version of the bus that wrote it, or a newer one",
        )
    # Before the schema, so that the directory entry of a file that has the schema is durable.
    sync_directory(path.parent)
    connection.execute("BEGIN IMMEDIATE")
    try:
        for step in steps[int(connection.pragma("user_version")) :]:
            connection.execute(step)
        connection.pragma("user_version", len(steps))
        connection.execute("COMMIT")
    except BaseException:
        connection.execute("ROLLBACK")
        raise
