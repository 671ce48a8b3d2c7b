"""Files and directories that only their owner may read, and that are whole after a power cut, whenever it comes."""

from __future__ import annotations

import os
import resource
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO


def write_whole(path: Path, content: bytes) -> None:
    """Replace a file by one that has this content and is readable by its owner only; make its directory.

    Durable when it returns. Whoever reads it, and whatever a power cut leaves, has all of the old content or all of
    the new; others may write the same file at the same time.

    Raises
    ------
    OSError
        The disk does not take it; the file is what it was.
    """
    make_directory(path.parent)
    handle, fresh = tempfile.mkstemp(".new", f"{path.stem}.", path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        Path(fresh).replace(path)
    except BaseException:
        Path(fresh).unlink()
        raise
    sync_directory(path.parent)


def make_directory(directory: Path) -> None:
    """Make the directory and its parents for their owner only, durably; no effect when it is there."""
    missing = [path for path in (directory, *directory.parents) if not path.exists()]
    for path in (*reversed(missing[1:]), directory):
        path.mkdir(mode=0o700, exist_ok=True)
    for path in missing:
        sync_directory(path.parent)


def make_private(path: Path) -> None:
    """Make an empty database for its owner only, before SQLite opens it; no effect when it is there.

    SQLite gives its log and its index the mode of the database. What the disk refuses, it says itself when it opens.
    """
    with suppress(OSError):
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))


def open_private(path: Path) -> BinaryIO:
    """Open a file for writing from its beginning, made for its owner only when it is not there."""
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "wb")


def allow_open_files() -> None:
    """Allow this process as many open files as the system lets it have: connections and databases are some each."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def most_open_files() -> int:
    """Return how many files this process may have open."""
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def bytes_of(files: Iterable[Path]) -> int:
    """Return the sizes of files in sum; of one that is removed meanwhile, nothing."""
    total = 0
    for file in files:
        with suppress(FileNotFoundError):
            total += file.stat().st_size
    return total


def sync_directory(directory: Path) -> None:
    """Make the directory's entries durable."""
    sync(directory)


def sync(path: Path) -> None:
    """Make durable what anybody wrote to a file, or the entries of a directory."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
