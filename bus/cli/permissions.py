"""A check of the file permissions of a data or spool directory."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

_OTHERS: Final = 0o077
# What a bus of up to 64 processes keeps in its data directory; nothing else is looked at, whatever was given.
_KEPT: Final = (
    *(
        "configuration",
        "direct",
        "events",
        "format.json",
        "journal",
        "journal-dispatcher",
        "journal-receiver",
        "outcomes",
    ),
    *("claims.db", "claims.db-shm", "claims.db-wal"),
    *("alarms.watch", "disk.samples"),
    *("permits.json", "processes", "quarantine", "receiver", "store"),
    *(f"p{number}" for number in range(1, 64)),
)
_MARKS: Final = ("processes", "store")


def opened(directory: Path) -> list[Path]:
    """Return what is open to others: files, queues and directories that the bus made, the outermost first.

    Raises
    ------
    OSError
        The directory is somebody else's, and closed to who asks.
    """
    return [path for path in _all(directory) if _mode(path) & _OTHERS]


def close(paths: list[Path]) -> None:
    """Leave them to their owner alone.

    Raises
    ------
    OSError
        They are somebody else's; those before are closed.
    """
    for path in paths:
        path.chmod(_mode(path) & ~_OTHERS)


def _all(directory: Path) -> Iterator[Path]:
    from bus.spool.inspect import spools  # noqa: PLC0415 - not for `bus --help`

    own = [directory / name for name in _KEPT if (directory / name).exists()]
    if any((directory / name).is_dir() for name in _MARKS):
        yield directory
    found = {path: None for root in [*own, *spools(directory)] for path in _below(root)}
    yield from sorted(found)


def _below(root: Path) -> Iterator[Path]:
    yield root
    for place, folders, files in os.walk(root):
        for name in (*folders, *files):
            path = Path(place, name)
            if not path.is_symlink():
                yield path


def _mode(path: Path) -> int:
    try:
        return stat.S_IMODE(path.stat().st_mode)
    except FileNotFoundError:  # a live bus has just removed it
        return 0
