"""Files of a data or spool directory that other users than the owner can read or change."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

_OTHERS: Final = 0o077
# The files of a bus of up to 64 processes in its data directory; other files are never checked.
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
    """Return the files and directories of the bus that other users can read or change, outermost first.

    Raises
    ------
    OSError
        The directory belongs to another user and is not readable.
    """
    return [path for path in _all(directory) if _mode(path) & _OTHERS]


def close(paths: list[Path]) -> None:
    """Restrict files and directories to their owner.

    Raises
    ------
    OSError
        A file belongs to another user; those before it are restricted.
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
