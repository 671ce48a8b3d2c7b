"""A Unix socket that an agent listens on: one agent at a time, and no file of one that is gone in the way."""

from __future__ import annotations

import fcntl
import os
import socket
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from bus.errors import ConfigurationError

_MODE: Final = 0o660
_BACKLOG: Final = 2048
_PROBE: Final = 1.0
_ANOTHER: Final = "choose another with --socket"


@contextmanager
def listening(path: Path) -> Iterator[socket.socket]:
    """Yield a socket that listens at a path, which its owner and their group may use; the file is gone afterwards.

    A lock beside it tells whose it is, also while two start at once; the file of one that is gone is replaced.

    Raises
    ------
    ConfigurationError
        Somebody else listens there, or it cannot be made.
    """
    try:
        lock = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise _refused(path, error.strerror or str(error)) from error
    try:
        _own(path, lock)
        with _bound(path) as listener:
            yield listener
    finally:
        os.close(lock)


def _own(path: Path, lock: int) -> None:
    """Make sure that nobody listens there, and remove what somebody left who did."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise _refused(path, "another agent does") from error
    try:
        is_socket = stat.S_ISSOCK(path.lstat().st_mode)
    except FileNotFoundError:
        return
    if not is_socket:
        raise _refused(path, "a file that is no socket is there")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(_PROBE)
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:  # nobody listens; whoever is busy, or speaks otherwise, answers differently
            path.unlink(missing_ok=True)
            return
        except OSError as error:
            raise _refused(path, f"another program may: {error.strerror or error}") from error
    raise _refused(path, "another program does")


@contextmanager
def _bound(path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        try:
            listener.bind(str(path))
            path.chmod(_MODE)  # before anybody can connect
            listener.listen(_BACKLOG)
        except OSError as error:
            raise _refused(path, error.strerror or str(error)) from error
        listener.setblocking(False)
        try:
            yield listener
        finally:
            with suppress(OSError):
                path.unlink()


def _refused(path: Path, why: str) -> ConfigurationError:
    return ConfigurationError(f"cannot listen on {path}: {why}", hint=_ANOTHER)
