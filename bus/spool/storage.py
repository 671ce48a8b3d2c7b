"""A file that only takes up space, the ballast, to be given up when the disk is full."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from pathlib import Path

from bus.files import open_private

BALLAST = "ballast"


def lay_ballast(directory: Path, size: int) -> None:
    """Take up disk space that can be given back; no effect when it is there or the disk is nearly full."""
    path = directory / BALLAST
    if path.exists() or shutil.disk_usage(directory).free < 2 * size:
        return
    with suppress(OSError), open_private(path) as file:
        os.posix_fallocate(file.fileno(), 0, size)


def drop_ballast(directory: Path) -> None:
    """Give the ballast's space back; may be called twice."""
    (directory / BALLAST).unlink(missing_ok=True)


def free_space(directory: Path) -> int:
    """Return the bytes free on the directory's disk."""
    return shutil.disk_usage(directory).free
