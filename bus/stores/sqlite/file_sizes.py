"""The sizes of a store's files, and checkpoints of its log."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from bus.domain.health.vitals import StoreFigures

_LOG: Final = "-wal"


def read_sizes(directory: Path) -> StoreFigures:
    """Return the bytes of all files, and of the largest write-ahead log how far its file is behind it.

    Reads the directory, so it belongs into a thread. A file that goes meanwhile is left out.
    """
    total, log, unfolded = 0, 0, 0
    for path, size, changed in _files(directory):
        total += size
        if path.name.endswith(_LOG) and size > log:
            log, unfolded = size, _behind(path, changed)
    return StoreFigures(bytes=total, log=log, unfolded=unfolded)


def _behind(log: Path, changed: float) -> int:
    """Return for how long (ms) a log was written to since a checkpoint last wrote to its file."""
    try:
        written = log.with_name(log.name.removesuffix(_LOG)).stat().st_mtime
    except OSError:
        return 0
    return max(0, round((changed - written) * 1000))


def _files(directory: Path) -> Iterator[tuple[Path, int, float]]:
    for path in directory.iterdir():
        try:
            found = path.stat()
        except OSError:
            continue
        if path.is_file():
            yield path, found.st_size, found.st_mtime
