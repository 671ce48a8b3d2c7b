"""Errors of the store for each of apsw's exceptions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import apsw

from bus.error_texts import error_text
from bus.errors import StoreError, StoreUnavailable
from bus.localized_text import localized

# The file, the disk or another process is in the way: the same call may succeed later.
UNAVAILABLE: Final[tuple[type[apsw.Error], ...]] = (
    apsw.AbortError,
    apsw.BusyError,
    apsw.CantOpenError,
    apsw.FullError,
    apsw.IOError,
    apsw.InterruptError,
    apsw.LockedError,
    apsw.NoMemError,
    apsw.PermissionsError,
    apsw.ProtocolError,
    apsw.ReadOnlyError,
    apsw.SchemaChangeError,
    apsw.ConnectionClosedError,
    apsw.CursorClosedError,
    apsw.VFSFileClosedError,
)

# The file is not what was written.
DAMAGED: Final[tuple[type[apsw.Error], ...]] = (
    apsw.CorruptError,
    apsw.NotADBError,
    apsw.FormatError,
)

# A mistake in this package, or a build of SQLite that lacks a part; repeating the call cannot help.
REFUSED: Final[tuple[type[apsw.Error], ...]] = (
    apsw.AuthError,
    apsw.BindingsError,
    apsw.ConnectionNotClosedError,
    apsw.ConstraintError,
    apsw.EmptyError,
    apsw.ExecTraceAbort,
    apsw.ExecutionCompleteError,
    apsw.ExtensionLoadingError,
    apsw.ForkingViolationError,
    apsw.IncompleteExecutionError,
    apsw.InternalError,
    apsw.InvalidContextError,
    apsw.MismatchError,
    apsw.MisuseError,
    apsw.NoFTS5Error,
    apsw.NoLFSError,
    apsw.NotFoundError,
    apsw.RangeError,
    apsw.SQLError,
    apsw.ThreadingViolationError,
    apsw.TooBigError,
    apsw.VFSNotImplementedError,
)


def translate(error: apsw.Error, name: str) -> StoreError:
    """Return the store's error for one of apsw's that a file gave."""
    if isinstance(error, UNAVAILABLE):
        return StoreUnavailable(
            localized("store file {name} does not answer: {error}", name=name, error=error_text(error)),
            hint=localized("check the disk's free space and who else has the file open; writes stay in the spool"),
        )
    if isinstance(error, DAMAGED):
        return StoreError(
            localized("store file {name} is damaged: {error}", name=name, error=error_text(error)),
            hint=localized(
                "stop the bus, move the files that begin with {name} away, and restore them from a "
                "backup, or let the bus make new ones",
                name=name,
            ),
        )
    return StoreError(
        localized("store file {name} refused: {error}", name=name, error=error_text(error)),
        hint=localized("this is a defect of the bus; please report it"),
    )


@contextmanager
def translating(name: str) -> Iterator[None]:
    """Raise the store's errors instead of apsw's and the file system's."""
    try:
        yield
    except apsw.Error as error:
        raise translate(error, name) from error
    except OSError as error:
        raise StoreUnavailable(
            localized("store file {name} cannot be reached: {error}", name=name, error=error_text(error)),
            hint=localized("check the disk and the permissions of the store's directory; writes stay in the spool"),
        ) from error
