"""Removing a spool's directory when it has nothing any more."""

from __future__ import annotations

import logging
import shutil
from pathlib import Path

from bus.error_texts import error_text
from bus.errors import SpoolLocked
from bus.spool.file import NAME
from bus.spool.lock import OwnerLock

_log = logging.getLogger(__name__)


def is_spool(directory: Path) -> bool:
    """Whether a directory is a spool's, whatever it is called."""
    return (directory / NAME).is_file()


def remove(directory: Path) -> bool:
    """Remove the directory of a spool that was found empty and is closed.

    False when another process has it again, or when there is more in it than a spool's files: evidence of damage, or
    files that do not belong to the bus.
    """
    try:
        lock = OwnerLock.take(directory)
    except (SpoolLocked, OSError):
        return False
    try:
        if any(path.is_dir() for path in directory.iterdir()):
            return False
        shutil.rmtree(directory)
    except OSError as error:
        _log.warning("the empty spool directory %s could not be removed: %s", directory, error_text(error))
        return False
    finally:
        lock.release()
    return True
