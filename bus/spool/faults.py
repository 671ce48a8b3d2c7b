"""Errors of a spool for database errors."""

from __future__ import annotations

from pathlib import Path

import apsw

from bus.errors import SpoolFull
from bus.localized_text import localized

_RETRIABLE = (apsw.SQLITE_IOERR_SHMSIZE, apsw.SQLITE_IOERR_SHMOPEN, apsw.SQLITE_IOERR_SHMMAP)


def outcome(error: BaseException) -> str:
    """Sort a database error: ``full``, ``busy`` (both pass), ``corrupt`` or ``failed``."""
    if isinstance(error, apsw.FullError):
        return "full"
    if isinstance(error, apsw.IOError) and getattr(error, "extendedresult", 0) in _RETRIABLE:
        return "full"
    if isinstance(error, (apsw.BusyError, apsw.LockedError)):
        return "busy"
    if isinstance(error, (apsw.CorruptError, apsw.NotADBError)):
        return "corrupt"
    return "failed"


def full_error(directory: Path) -> SpoolFull:
    """Return the error for a disk that took no more."""
    return SpoolFull(
        localized(
            "the disk of the spool {directory} is full; nothing of this call was stored, nothing stored was lost",
            directory=str(directory),
        ),
        hint=localized("Free disk space."),
    )
