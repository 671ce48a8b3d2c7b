"""SQLite files as they are at one moment, to be copied while their owners go on writing."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, Self

import apsw

_PATIENCE: Final = 5_000  # milliseconds
_STEP: Final = 256
_TICK: Final = 1_000_000_000  # ns; files whose time is nearer than this may change once more without showing it
_VERSION_AT: Final = 60
_VERSION_BYTES: Final = 4
_MAGIC: Final = b"SQLite format 3\0"

Advance = Callable[[int], None]
"""Is told how many bytes more are done."""


class SqliteSnapshot:
    """A database at one moment: from ``hold`` on it stays what it was then for whoever reads it here.

    Its file is not written and nobody waits; only its log cannot be emptied before this is closed.

    Raises
    ------
    apsw.Error
        The file cannot be opened or read, or is not a database.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.state = ""
        self._db = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
        self._db.set_busy_timeout(_PATIENCE)
        self._db.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)

    def hold(self) -> Self:
        """Choose the moment; takes microseconds. ``state`` then tells this content from any other, if it can."""
        self.state = state_of(self.path)
        self._db.execute("BEGIN")
        self._db.pragma("user_version")  # the first read is what holds the log
        return self

    @property
    def bytes(self) -> int:
        """How large the copy will be."""
        return int(self._db.pragma("page_count")) * int(self._db.pragma("page_size"))

    def ask(self, query: str) -> Any:
        """Return the first value that a query gives."""
        return next(iter(self._db.execute(query)))[0]

    def copy(self, target: Path, advance: Advance) -> None:
        """Write the content into a new file, page by page, without a log; not durable when it returns.

        Raises
        ------
        OSError
            The disk of the target is full.
        apsw.Error
            The content cannot be read, or the target not be written.
        """
        size = int(self._db.pragma("page_size"))
        copied = apsw.Connection(str(target))
        try:
            copied.pragma("journal_mode", "OFF")
            copied.pragma("synchronous", "OFF")
            with copied.backup("main", self._db, "main") as work:
                while not work.done:
                    left = work.remaining
                    work.step(_STEP)
                    advance(max((left or work.page_count) - work.remaining, 0) * size)
        except apsw.FullError as error:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(target)) from error
        finally:
            copied.close()

    def close(self) -> None:
        """Let go of the content."""
        self._db.close(True)


def state_of(path: Path) -> str:
    """Return what is different whenever a database was written since; empty when that cannot be told yet."""
    found = []
    for each in (path, path.with_name(f"{path.name}-wal")):
        try:
            stat = each.stat()
        except FileNotFoundError:
            found.append("-")
            continue
        if abs(time.time_ns() - stat.st_mtime_ns) < _TICK:
            return ""
        found.append(f"{stat.st_ino}.{stat.st_size}.{stat.st_mtime_ns}")
    return " ".join(found)


def version_of(path: Path) -> int | None:
    """Return the version in the head of a database without opening it as one; None when it is none, or not there.

    What is in the log only does not count.
    """
    try:
        with path.open("rb") as file:
            head = os.pread(file.fileno(), _VERSION_AT + _VERSION_BYTES, 0)
    except FileNotFoundError:
        return None
    if len(head) < _VERSION_AT + _VERSION_BYTES or not head.startswith(_MAGIC):
        return None
    return int.from_bytes(head[_VERSION_AT:], "big")
