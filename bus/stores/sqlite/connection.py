"""Opening a file of the store: durable settings, the schema and its version."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import apsw

from bus.errors import ConfigurationError
from bus.stores.sqlite.failures import translating

BUSY_MILLISECONDS: Final = 5_000
_PAGE_BYTES: Final = 8_192
_JOURNAL_BYTES: Final = 64 * 1_048_576

_SETTINGS: Final = f"""
PRAGMA page_size = {_PAGE_BYTES};
PRAGMA journal_mode = WAL;
PRAGMA synchronous = FULL;
PRAGMA journal_size_limit = {_JOURNAL_BYTES};
PRAGMA cache_size = -16000;
PRAGMA temp_store = MEMORY;
"""


def open_writer(path: Path, *, schema: str, version: int) -> apsw.Connection:
    """Open a file for writing; makes it with ``schema`` when it is new.

    Raises
    ------
    ConfigurationError
        A newer version of the bus wrote the file.
    StoreError
        The file cannot be opened or is not a database.
    """
    new = not path.exists()
    with translating(path.name):
        connection = apsw.Connection(str(path))
        try:
            connection.set_busy_timeout(BUSY_MILLISECONDS)
            connection.execute(_SETTINGS)
            _check_schema(connection, path, schema, version)
        except BaseException:
            connection.close()
            raise
    if new:
        sync_directory(path.parent)
    return connection


def open_reader(path: Path) -> apsw.Connection:
    """Open an existing file for reading only; its snapshots do not wait for the writer."""
    with translating(path.name):
        connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
        connection.set_busy_timeout(BUSY_MILLISECONDS)
        connection.execute("PRAGMA query_only = ON; PRAGMA cache_size = -4000")
    return connection


def sync_directory(path: Path) -> None:
    """Make the directory's entries durable."""
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _check_schema(connection: apsw.Connection, path: Path, schema: str, version: int) -> None:
    found = connection.pragma("user_version")
    if found == version:
        return
    if isinstance(found, int) and found > version:
        raise ConfigurationError(
            f"{path} has version {found} of the store's format; this bus knows {version}",
            hint="start the version of the bus that wrote it, or a newer one",
        )
    connection.execute("BEGIN IMMEDIATE")
    try:
        if connection.pragma("user_version") != version:
            connection.execute(schema)
            connection.pragma("user_version", version)
        connection.execute("COMMIT")
    except BaseException:
        connection.execute("ROLLBACK")
        raise
