"""The partition files of a directory, which several processes open, make and drop at the same time."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import apsw

from bus.files import make_directory, sync_directory
from bus.stores.sqlite import control_sql
from bus.stores.sqlite.connection import inode_of, open_reader, open_writer
from bus.stores.sqlite.errors import translating
from bus.stores.sqlite.keys import Label, label_of
from bus.stores.sqlite.locking import WriteLock, alone
from bus.stores.sqlite.partitions import trace_sql
from bus.stores.sqlite.partitions.partition import Partition

CONTROL: Final = "control.db"
_DROPPED: Final = ".dropped"
LOCKS: Final = "locks"
FILES_LOCK: Final = "files.lock"
_TICK: Final = 100_000_000  # ns; a directory's time moves in steps shorter than this


class Directory:
    """The directory of the store's files, with locks for opening, dropping and writing them.

    A file is opened and dropped by one process at a time, because SQLite opens a file and its write-ahead log one
    after the other by their names: a drop in between would join the one to the other of a later file.
    Its methods that open or drop are to be called in a thread.
    """

    def __init__(self, path: Path) -> None:
        with translating(path.name):
            self._path = path
            self._name = str(path)
            make_directory(path / LOCKS)
            sync_directory(path.parent)  # always, since the process that made it may have died before this
            self._labels: frozenset[Label] = frozenset()
            self._listed_at = 0
            with self._alone():
                for dropped in path.glob(f"*{_DROPPED}"):
                    _clear(dropped.with_suffix(""))

    @property
    def path(self) -> Path:
        """The path of the directory."""
        return self._path

    def turn(self, name: str) -> WriteLock:
        """Return the right to write to the files of a kind; to be closed by the caller."""
        with translating(name):
            return WriteLock(self._path / LOCKS, name)

    def open_control(self) -> tuple[apsw.Connection, apsw.Connection]:
        """Open ``control.db``, made when it is not there: one connection to write and one to read."""
        path = self._path / CONTROL
        with self._alone():
            _clear(path)
            writer = open_writer(path, control_sql.STEPS)
            try:
                return writer, open_reader(path)
            except BaseException:
                writer.close()
                raise

    def open(self, label: Label, *, make: bool) -> Partition | None:
        """Open a partition; one that is not there is made, or is None."""
        path = self._path / label.file
        with self._alone():
            _clear(path)
            if not make and not path.exists():
                return None
            writer = open_writer(path, trace_sql.STEPS)
            try:
                return Partition(path, writer, open_reader(path))
            except BaseException:
                writer.close()
                raise

    def open_reader(self, label: Label) -> tuple[apsw.Connection, int] | None:
        """Open a partition to read, and return its inode too; None when it is not there."""
        path = self._path / label.file
        with self._alone():
            return (open_reader(path), self.inode(label)) if path.exists() else None

    def drop(self, label: Label) -> None:
        """Remove a partition that the caller has open, inside a write transaction.

        What a crash leaves of it goes before anybody opens a file of its name.
        """
        path = self._path / label.file
        with self._alone():
            path.rename(_dropped(path))
            sync_directory(self._path)
            _clear(path)

    def inode(self, label: Label) -> int:
        """Return the number of a partition's file; 0 when it is not there."""
        return inode_of(f"{self._name}/{label.file}")

    def labels(self) -> frozenset[Label]:
        """Return all partitions, those that other processes made included."""
        with translating(self._path.name):
            changed_at = os.stat(self._name).st_mtime_ns  # noqa: PTH116 - a third of the time
            if changed_at != self._listed_at:
                # What changes in the same tick of the clock after this would not show.
                self._listed_at = changed_at if abs(time.time_ns() - changed_at) > _TICK else 0
                found = (label_of(name) for name in os.listdir(self._name))  # noqa: PTH208 - names are wanted
                self._labels = frozenset(label for label in found if label is not None)
        return self._labels

    @contextmanager
    def _alone(self) -> Iterator[None]:
        with translating(self._path.name), alone(self._path / LOCKS / FILES_LOCK):
            yield


def _dropped(path: Path) -> Path:
    return path.with_name(path.name + _DROPPED)


def _clear(path: Path) -> None:
    """Remove what is left of a file that was dropped or moved away.

    A process that still has that file open has its log open too; no process may open that log again under the name of a
    new file.
    """
    if not path.exists():
        for suffix in ("-wal", "-shm"):
            path.with_name(path.name + suffix).unlink(missing_ok=True)
    _dropped(path).unlink(missing_ok=True)
