"""The lock of a spool directory: one live owner at most, known to the kernel."""

from __future__ import annotations

import fcntl
import json
import os
import socket
import time
from contextlib import suppress
from pathlib import Path
from typing import Any
from weakref import WeakSet

from bus.errors import SpoolLocked

FILE_NAME = "owner.lock"
_TRIES = 4
_PAUSE = 0.02


class OwnerLock:
    """The flock on ``owner.lock``; the kernel gives it up with the process, however that ends.

    A forked child closes its inherited descriptor at once (closing does not unlock), so the lock lives and dies
    with the process that took it.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        _HELD.add(self)

    @classmethod
    def take(cls, directory: Path) -> OwnerLock:
        """Take the directory.

        Raises
        ------
        SpoolLocked
            Another process has it, or another spool of this process; the message names the process.
        """
        for attempt in range(_TRIES):
            if attempt:
                time.sleep(_PAUSE)  # an `is_live` probe of another process holds the lock for microseconds
            descriptor = os.open(directory / FILE_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            if _locked(descriptor, fcntl.LOCK_EX) and _is_still(directory, descriptor):
                with suppress(OSError):  # who owns it is for people; a full disk must not keep a spool closed
                    os.ftruncate(descriptor, 0)
                    os.pwrite(descriptor, json.dumps(_self()).encode(), 0)
                return cls(descriptor)
            os.close(descriptor)
        who = owner(directory)
        raise SpoolLocked(
            f"{directory} belongs to process {who.get('pid', '?')} on {who.get('host', '?')}",
            hint="Stop that process, or choose another spool directory.",
        )

    def release(self) -> None:
        """Give the directory up; may be called twice."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
        _HELD.discard(self)


def is_live(directory: Path) -> bool:
    """Whether a live process owns the directory; takes nothing and changes nothing."""
    try:
        descriptor = os.open(directory / FILE_NAME, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        return not _locked(descriptor, fcntl.LOCK_SH)
    finally:
        os.close(descriptor)


def owner(directory: Path) -> dict[str, Any]:
    """Return the data of the present or last owner: pid, host, started, process_started; empty when unknown."""
    with suppress(OSError, ValueError):
        found = json.loads((directory / FILE_NAME).read_bytes())
        if isinstance(found, dict):
            return found
    return {}


def _self() -> dict[str, Any]:
    return {
        "pid": os.getpid(),
        "host": socket.gethostname(),
        "started": int(time.time() * 1000),
        "process_started": _process_started(),
    }


def _process_started() -> int | None:
    """Return the kernel's start time of this process in clock ticks, which distinguishes a reused pid."""
    try:
        stat = Path("/proc/self/stat").read_text()
        return int(stat.rpartition(")")[2].split()[19])
    except (OSError, ValueError, IndexError):
        return None


def _locked(descriptor: int, kind: int) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_still(directory: Path, descriptor: int) -> bool:
    """Whether the locked file is the one in the directory, and not one that a sweeper just removed."""
    try:
        return (directory / FILE_NAME).stat().st_ino == os.fstat(descriptor).st_ino
    except FileNotFoundError:
        return False


def _after_fork() -> None:
    for lock in list(_HELD):
        lock.release()


_HELD: WeakSet[OwnerLock] = WeakSet()
os.register_at_fork(after_in_child=_after_fork)
