"""The length of the log that is known to be on disk, kept beside it, so that a truncated log is noticed.

SQLite reads its log as far as it is whole, and takes a shorter one for all there is. The mark is written after each
commit's fsync and not synced itself: it may fall behind the log, and never runs ahead of it. So a log that is shorter
than its mark has lost what was acknowledged, while the torn end of a call that was cut off is no loss.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from struct import Struct
from typing import Final, NamedTuple
from zlib import crc32

NAME: Final = "spool.synced"
_FIELDS: Final = Struct("<qq")
_CHECK: Final = Struct("<I")


class Extent(NamedTuple):
    """The number of frames in the log, 0 when the file has all of them, and of records that were ever appended."""

    frames: int
    appended: int


class Mark:
    """The mark of an open spool."""

    def __init__(self, directory: Path, appended: int) -> None:
        self._file = -1
        with suppress(OSError):  # a full disk, say: then there is none, and nothing is derived from it
            self._file = os.open(directory / NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self.appended = appended

    def commit(self, frames: int, appended: int) -> None:
        """Note that the log has so many frames on disk, and that so many records more were appended."""
        self.appended += appended
        with suppress(OSError):  # it falls behind
            _write(self._file, Extent(frames, self.appended))

    def empty(self) -> None:
        """Note, durably, that the file has all of the log: only then may the log be written anew, or cut.

        Raises
        ------
        OSError
            The disk failed.
        """
        if self._file >= 0:
            _write(self._file, Extent(0, self.appended))
            os.fsync(self._file)

    def close(self) -> None:
        """Close the file; may be called twice."""
        if self._file >= 0:
            os.close(self._file)
        self._file = -1


def read(directory: Path) -> Extent:
    """Return the last mark; nothing when there is none, or none that can be read."""
    try:
        content = (directory / NAME).read_bytes()
    except OSError:
        return Extent(0, 0)
    fields, check = content[: _FIELDS.size], content[_FIELDS.size :]
    if len(content) != _FIELDS.size + _CHECK.size or _CHECK.pack(crc32(fields)) != check:
        return Extent(0, 0)
    return Extent(*_FIELDS.unpack(fields))


def empty(directory: Path, appended: int) -> None:
    """Note for a spool that is not open yet that its file has all of the log; durable when it returns."""
    mark = Mark(directory, appended)
    try:
        mark.empty()
    finally:
        mark.close()


def _write(file: int, extent: Extent) -> None:
    fields = _FIELDS.pack(*extent)
    os.pwrite(file, fields + _CHECK.pack(crc32(fields)), 0)
