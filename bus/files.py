"""Small files and directories that are whole after a power cut, whenever it comes."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


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
    """Make the directory and its parents, durably; no effect when it is there."""
    missing = [path for path in (directory, *directory.parents) if not path.exists()]
    directory.mkdir(parents=True, exist_ok=True)
    for path in missing:
        sync_directory(path.parent)


def sync_directory(directory: Path) -> None:
    """Make the directory's entries durable."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
