"""A data directory that a backup is being put into: no bus starts there before all of it is."""

from __future__ import annotations

from fnmatch import fnmatch
from pathlib import Path
from typing import Final

import msgspec

from bus.errors import ConfigurationError
from bus.files import sync_directory, write_whole

_MARK: Final = "restoring.json"
_MARKS: Final = "restoring.*"


class _RestoreNote(msgspec.Struct, frozen=True):
    backup: str


def begin_restore(data: Path, backup: str) -> None:
    """Note, durably, which backup is put into a data directory."""
    write_whole(data / _MARK, msgspec.json.encode(_RestoreNote(backup)))


def is_mark(name: str) -> bool:
    """Whether a file is what `begin_restore` writes, or what it left when it was killed."""
    return fnmatch(name, _MARKS)


def end_restore(data: Path) -> None:
    """Note, durably, that all of it is there; may be called twice."""
    for path in data.iterdir():
        if is_mark(path.name):
            path.unlink()
    sync_directory(data)


def restored_from(data: Path) -> str | None:
    """Return which backup is being put into a data directory; None for one that is whole, empty if unknown."""
    try:
        return msgspec.json.decode((data / _MARK).read_bytes(), type=_RestoreNote).backup
    except (FileNotFoundError, NotADirectoryError):
        return None
    except msgspec.DecodeError:
        return ""


def refuse_half_restored(data: Path) -> None:
    """Raise ``ConfigurationError`` while a backup is being put into a data directory."""
    if restored_from(data) is not None:
        raise ConfigurationError(
            f"a restore into {data} is not complete; the bus does not start on incomplete data",
            hint="run the same bus restore again: it continues",
        )
