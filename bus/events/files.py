"""Blocks as lines of files, for one thread: rotated, bounded as a whole, and never at the cost of the disk's reserve.

A file is written as ``EMITTER-NUMBER.open`` under a lock, and renamed to ``.jsonl`` when it is closed; readers look at
those only. Nothing is synced: what a power cut takes is a gap, which reconciling finds.
"""

from __future__ import annotations

import fcntl
import itertools
import logging
import os
import shutil
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple
from weakref import WeakSet

from bus.domain.tracing.events import count_events
from bus.errors import EventsUnavailable
from bus.files import make_directory
from bus.localized_text import localized
from bus.ports.events import SealedBlock

_log = logging.getLogger(__name__)
OPEN: Final = ".open"
CLOSED: Final = ".jsonl"
ROTATE_SECONDS: Final = 3.0
ROTATE_BYTES: Final = 64 * 2**20
_LOOK_SECONDS: Final = 300.0
_MOST_FILES: Final = 50_000
_TAIL: Final = 64 * 2**10
_MODE: Final = 0o600


class Limits(NamedTuple):
    """How much of the disk trace events may have.

    Attributes
    ----------
    total
        Bytes of all files of the directory; beyond it the oldest closed ones are removed.
    reserve
        Free bytes of the disk below which nothing is written.
    rotate_bytes, rotate_seconds
        When a file is closed.
    """

    total: int
    reserve: int
    rotate_bytes: int = ROTATE_BYTES
    rotate_seconds: float = ROTATE_SECONDS


class EventFiles:
    """Writes blocks into files of one directory, which other processes may use as well; not for several threads.

    Parameters
    ----------
    emitter
        Begins the files' names.
    monotonic
        Seconds that never go back.
    removed, torn
        Told of events in files that were removed for the limit, and of lines that a dead process left cut off.
    """

    def __init__(
        self,
        directory: Path,
        emitter: str,
        limits: Limits,
        monotonic: Callable[[], float],
        *,
        removed: Callable[[int], object],
        torn: Callable[[int], object],
    ) -> None:
        self._directory = directory
        self._emitter = emitter
        self._limits = limits
        self._monotonic = monotonic
        self._removed = removed
        self._torn = torn
        self._numbers = itertools.count(1)
        self._file: _OpenFile | None = None
        self._rotate_at = 0.0
        self._look_at = 0.0
        self._bytes = 0
        self._count = 0

    @property
    def rotate_at(self) -> float | None:
        """When the open file is to be closed, in monotonic seconds; None when none is open."""
        return None if self._file is None else self._rotate_at

    def write(self, blocks: Sequence[SealedBlock]) -> None:
        """Append blocks, all or none; in the file when it returns, whatever becomes of this process.

        Raises
        ------
        EventsUnavailable
            The disk is full or failed.
        """
        lines = b"".join(block.line + b"\n" for block in blocks)
        try:
            make_directory(self._directory)
            self._check_room(len(lines))
            self._present(len(lines)).append(lines)
        except OSError as error:
            raise EventsUnavailable(
                localized(
                    "{directory} cannot be written: {error}; no message is affected",
                    directory=str(self._directory),
                    error=str(error.strerror or error),
                ),
                hint=localized("free disk, or set events = none"),
            ) from error

    @property
    def is_to_be_tended(self) -> bool:
        """Whether ``tend`` has something to do; costs no disk access, and may be asked by another thread."""
        now = self._monotonic()
        return self._is_over or now >= self._look_at or (self._file is not None and now >= self._rotate_at)

    def tend(self) -> None:
        """Close the file when it is time to, and keep the directory within its limit."""
        if self._file is not None and self._monotonic() >= self._rotate_at:
            self.rotate()
        if self._is_over or self._monotonic() >= self._look_at:
            self._look()

    def rotate(self) -> None:
        """Close the file; readers see it from now on."""
        file, self._file = self._file, None
        if file is not None:
            with suppress(OSError):  # it is closed by the next emitter here
                file.finish()
                self._bytes += file.size
                self._count += 1

    def closed(self) -> list[Path]:
        """Return the closed files of the directory, those closed first at the beginning."""
        return [path for _, _, path in self._closed()]

    def _check_room(self, size: int) -> None:
        free = shutil.disk_usage(self._directory).free
        if free - size < self._limits.reserve:
            raise EventsUnavailable(
                localized(
                    "the disk has {free} bytes free, and {reserve} are kept for outcomes; no message is affected",
                    free=free,
                    reserve=self._limits.reserve,
                ),
                hint=localized("free disk"),
            )

    def _present(self, size: int) -> _OpenFile:
        if self._file is not None and self._file.size + size > self._limits.rotate_bytes:
            self.rotate()
        if self._file is None:
            path = self._directory / f"{self._emitter}-{next(self._numbers):06d}{OPEN}"
            self._file = _OpenFile(path)
            self._rotate_at = self._monotonic() + self._limits.rotate_seconds
        return self._file

    @property
    def _is_over(self) -> bool:
        return self._bytes > self._limits.total or self._count > _MOST_FILES

    def _look(self) -> None:
        """Close what dead processes left, count what is there, and remove the oldest closed files beyond the limit."""
        self._look_at = self._monotonic() + _LOOK_SECONDS
        for path in self._directory.glob(f"*{OPEN}"):
            with suppress(OSError):
                adopt(path, self._torn)
        files = list(self._closed())
        self._bytes, self._count = sum(size for _, size, _ in files), len(files)
        gone = 0
        for _, size, path in files:
            if not self._is_over:
                break
            with suppress(OSError):  # another process did the same
                gone += _events_in(path)
                path.unlink()
            self._bytes -= size
            self._count -= 1
        if gone:
            _log.warning(
                "%s is over its limit of %d bytes: %d trace events of the oldest files were removed",
                *(self._directory, self._limits.total, gone),
            )
            self._removed(gone)

    def _closed(self) -> Iterable[tuple[int, int, Path]]:
        """Return modification time, size and path of closed files, the oldest first."""
        found = []
        with suppress(FileNotFoundError), os.scandir(self._directory) as entries:
            for entry in entries:
                if entry.name.endswith(CLOSED):
                    with suppress(FileNotFoundError):
                        status = entry.stat()
                        found.append((status.st_mtime_ns, status.st_size, Path(entry.path)))
        return sorted(found)


class _OpenFile:
    """A file that is being written; its lock tells others that its process lives."""

    def __init__(self, path: Path) -> None:
        self._path = path
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC
        self._descriptor = os.open(path, flags, _MODE)
        self.size = 0
        _HELD.add(self)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if not os.fstat(self._descriptor).st_nlink:
                raise FileNotFoundError(f"{path} was taken for one that a dead process left")
        except OSError:
            self.disown()
            raise

    def append(self, lines: bytes) -> None:
        """Write lines, all or none: what a full disk cut off is taken back, at the latest before the next lines."""
        if os.fstat(self._descriptor).st_size != self.size:
            os.ftruncate(self._descriptor, self.size)
        left = memoryview(lines)
        try:
            while left:
                left = left[os.write(self._descriptor, left) :]
        except OSError:
            with suppress(OSError):
                os.ftruncate(self._descriptor, self.size)
            raise
        self.size += len(lines)

    def finish(self) -> None:
        """Give it its final name, or remove it when it has nothing."""
        try:
            _finish(self._path, self._descriptor, self.size)
        finally:
            self.disown()

    def disown(self) -> None:
        """Close it as it is, without its final name."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
        _HELD.discard(self)


def adopt(path: Path, torn: Callable[[int], object]) -> None:
    """Close a file that a process left open, unless that lives; a line that was cut off is taken away, and told."""
    descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if not path.exists():  # somebody closed it meanwhile
            return
        size = os.fstat(descriptor).st_size
        whole = _whole(descriptor, size)
        if whole < size:
            torn(1)
        _finish(path, descriptor, whole)
    except BlockingIOError:
        return
    finally:
        os.close(descriptor)


def _whole(descriptor: int, size: int) -> int:
    """Return the length up to the end of the last whole line."""
    end = size
    while end > 0:
        start = max(0, end - _TAIL)
        place = os.pread(descriptor, end - start, start).rfind(b"\n")
        if place >= 0:
            return start + place + 1
        end = start
    return 0


def _finish(path: Path, descriptor: int, size: int) -> None:
    if os.fstat(descriptor).st_size != size:
        os.ftruncate(descriptor, size)
    if size:
        path.rename(path.with_suffix(CLOSED))
    else:
        path.unlink()


def _events_in(path: Path) -> int:
    with path.open("rb") as lines:
        return sum(count_events(line) for line in lines)


def _after_fork() -> None:
    """Close a parent's files in its child (closing does not unlock), so that the lock dies with the parent."""
    for file in list(_HELD):
        file.disown()


_HELD: Final[WeakSet[_OpenFile]] = WeakSet()
os.register_at_fork(after_in_child=_after_fork)
