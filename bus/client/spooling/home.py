"""Spool directories under one root: each process has its own, and takes over orphaned ones."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from bus.client.fork_gate import GATE
from bus.client.spooling.marker import Marker
from bus.errors import SpoolLocked
from bus.spool import BlockingSpool, Options, is_live
from bus.spool.lock import FILE_NAME
from bus.spool.retire import remove

_log = logging.getLogger("bus.client")
_NAME: Final = re.compile(r".+-[0-9]+-[0-9a-f]{8}\.sdk")
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9._-]")
_TRIES: Final = 5
_SETTLED_SECONDS: Final = 60.0


def open_home(root: Path, source: str, options: Options) -> BlockingSpool:
    """Make a directory of this process's own under the root, ``SOURCE-PID-RANDOM.sdk``, and open it.

    Raises
    ------
    SpoolFailed
        The disk failed.
    """
    for _ in range(_TRIES):
        directory = root / f"{_prefix(source)}-{os.getpid()}-{os.urandom(4).hex()}.sdk"
        with suppress(SpoolLocked), GATE:  # a sweeper took it for an orphan before it was locked
            return BlockingSpool(directory, options)
    raise SpoolLocked(f"every new spool directory under {root} was taken by another process", hint="Try again.")


def _prefix(source: str) -> str:
    return _UNSAFE.sub("_", source).lstrip(".-")[:40] or "bus"


def is_of(directory: Path, source: str) -> bool:
    """Whether a directory was made by a process of this source."""
    return bool(_NAME.fullmatch(directory.name)) and directory.name.rsplit("-", 2)[0] == _prefix(source)


def id_of(directory: Path) -> str:
    """Return the unique id of a spool directory, eight hexadecimal digits; empty for a directory of another name."""
    return directory.stem.rpartition("-")[2] if _NAME.fullmatch(directory.name) else ""


def homes(root: Path) -> list[Path]:
    """Return the SDK's spool directories under a root; the root itself when it is one."""
    if _NAME.fullmatch(root.name):
        return [root] if root.is_dir() else []
    with suppress(FileNotFoundError, NotADirectoryError):
        return sorted(path for path in root.iterdir() if _NAME.fullmatch(path.name) and path.is_dir())
    return []


def orphans(root: Path, now: float) -> Iterator[Path]:
    """Return orphaned directories, whose owner has ended; ``now`` in seconds since the epoch.

    One without a lock file yet is left to its maker for a minute. One that is ``closed`` is passed over.
    """
    for directory in homes(root):
        with suppress(FileNotFoundError, PermissionError):
            if not is_live(directory) and ((directory / FILE_NAME).exists() or _is_settled(directory, now)):
                yield directory


def closed(root: Path) -> list[Path]:
    """Return the directories under a root that this process may not look into: those of other users."""
    return [directory for directory in homes(root) if not os.access(directory, os.R_OK | os.W_OK | os.X_OK)]


def _is_settled(directory: Path, now: float) -> bool:
    return now - directory.stat().st_mtime > _SETTLED_SECONDS


def adopt(directory: Path, options: Options) -> BlockingSpool | None:
    """Open an orphan, None when another process was faster: the lock decides.

    Raises
    ------
    SpoolFailed
        The disk failed.
    """
    try:
        with GATE:
            return BlockingSpool(directory, options)
    except (SpoolLocked, FileNotFoundError):
        return None


def retire(spool: BlockingSpool) -> bool:
    """Close a spool, and remove its directory when nothing is left in it; return whether it was removed.

    Only an owner appends to a directory, and no process opens one by the name of another, so what is empty under the
    lock stays empty. Damaged records that were set aside keep the directory, and so do leases that are not released.
    """
    with GATE:
        stats = spool.stats()
        spool.close()
    if stats.records or stats.damaged or Marker(spool.directory).codes:
        return False
    return remove(spool.directory)
