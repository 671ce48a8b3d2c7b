"""Formats of the files in a data directory: those of a newer version are refused before anything is opened."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from bus.bootstrap.spools import directories_of_queues
from bus.bootstrap.store import embedded
from bus.databases import version_of
from bus.error_texts import error_text
from bus.errors import ConfigurationError
from bus.files import write_whole
from bus.settings import Settings
from bus.spool.file import NAME as SPOOL_NAME
from bus.spool.file import VERSION as SPOOL_FORMAT
from bus.spool.file import is_plausible
from bus.stores.sqlite.copying import newest_version

_log = logging.getLogger(__name__)

FORMAT: Final = 1
"""Of all that is below a data directory and has no version of its own: whoever changes one of these, raises it."""
NAME: Final = "format.json"


class _Format(msgspec.Struct, frozen=True):
    format: int
    version: str


class FormatMismatch(NamedTuple):
    """A file, the format it has, and the newest that this bus knows."""

    path: Path
    format: int
    known: int

    @property
    def is_newer(self) -> bool:
        """Whether only a newer bus can read it."""
        return self.format > self.known


def refuse_newer(settings: Settings) -> None:
    """Raise ``ConfigurationError`` when a newer bus wrote the data directory or the embedded store; changes nothing.

    What a newer bus had only begun to write is found when it is opened.
    """
    for found in _formats(settings):
        if found.is_newer:
            raise ConfigurationError(
                f"{found.path} has format {found.format}, of a newer bus; this one supports {found.known}; nothing was "
                "changed",
                hint="start the version of the bus that wrote it, or a newer one; or restore a backup of before",
            )


def format_of(path: Path, name: str = "") -> FormatMismatch | None:
    """Return the format that a spool's, a store's or a data directory's file has; None for any other and a new one.

    ``name`` is what it is called there, where ``path`` is a copy of it.
    """
    name = name or path.name
    if name == NAME:
        return FormatMismatch(path, _read(path), FORMAT)
    known = SPOOL_FORMAT if name == SPOOL_NAME else newest_version(name)
    version = None if known is None else version_of(path)
    if known is None or version is None or (name == SPOOL_NAME and not is_plausible(version)):
        return None
    return FormatMismatch(path, version, known)


def note_format(data: Path, version: str) -> None:
    """Note which bus works on a data directory, as far as the disk lets; durable when it returns."""
    wanted = msgspec.json.encode(_Format(FORMAT, version))
    path = data / NAME
    with suppress(OSError):
        if path.read_bytes() == wanted:
            return
    try:
        write_whole(path, wanted)
    except OSError as error:
        _log.warning("the format of %s is not noted: %s", data, error_text(error))


def _formats(settings: Settings) -> Iterator[FormatMismatch]:
    store = embedded(settings)
    paths = [settings.data / NAME, *(each / SPOOL_NAME for each in directories_of_queues(settings.data))]
    if store is not None and store.is_dir():
        paths += sorted(store.iterdir())
    return (found for path in paths if (found := format_of(path)) is not None)


def _read(path: Path) -> int:
    """Return the format that a directory is noted to have; that of the first bus when nothing can be read."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=_Format).format
    except (OSError, msgspec.DecodeError):
        return 0
