"""Takes a backup of a bus that runs, or of one that does not."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

import apsw

from bus.backups.archive import Archive, copy_file, open_archive
from bus.backups.manifest import FORMAT, Manifest, Part
from bus.backups.settings_file import NAME as SETTINGS_NAME
from bus.backups.settings_file import settings_file
from bus.bootstrap import VERSION
from bus.bootstrap.data_format import NAME as FORMAT_NAME
from bus.bootstrap.identity import names_of
from bus.bootstrap.store import embedded
from bus.databases import Advance, SqliteSnapshot
from bus.error_texts import error_text
from bus.errors import BackupError
from bus.files import open_private
from bus.ports.clock import Clock
from bus.settings import Settings
from bus.spool.recovery import copying as spool_copying
from bus.stores.snapshot import kept_files
from bus.stores.sqlite import copying as store_copying
from bus.stores.sqlite.partitions.directory import CONTROL

_SPOOL: Final = "spool"
_STORE: Final = "store"
_CONFIGURATION: Final = "configuration"
_SETTINGS: Final = "settings"

Begin = Callable[[str, int], Advance]
"""Is told of what begins, and how many bytes that is; returns what is told how many of them are done."""


class BackupResult(NamedTuple):
    """A whole backup, and how many of its files a run before this one had copied already."""

    manifest: Manifest
    kept: int


def take(
    settings: Settings,
    directory: Path,
    clock: Clock,
    begin: Begin,
    *,
    spools_only: bool = False,
    with_secrets: bool = False,
) -> BackupResult:
    """Copy the spools, the store and the configuration into a folder; durable, and whole, when it returns.

    It goes on with what an earlier run has copied, as far as that is still the same. Until it returns, a backup that
    the folder had before is the one that counts.

    Parameters
    ----------
    settings
        Of the bus; ``data`` may be a directory with the data directories of several processes below it.
    spools_only
        Leave the store out, since it is backed up with another process's spools, or by its own means.
    with_secrets
        Keep keys and passwords of the settings in the clear.

    Raises
    ------
    BackupError
        There is no bus, the folder is for something else, or the disk does not take it.
    SpoolError, StoreError
        What is to be copied cannot be read.
    """
    _refuse_place(settings.data, directory)
    with open_archive(directory) as archive, _explained(directory):
        work = _Work(archive, settings.data, begin)
        began_at = clock.now()
        work.copy_spools()  # before the store: what leaves a spool from now on, the store has by then
        store = "none" if spools_only else work.copy_store(embedded(settings))
        work.copy_configuration()
        work.write(_SETTINGS, SETTINGS_NAME, settings_file(settings, with_secrets=with_secrets))
        manifest = Manifest(
            format=FORMAT,
            version=VERSION,
            id=secrets.token_hex(16),
            began_at=began_at,
            ended_at=clock.now(),
            store=store,
            roots=work.roots(),
            parts=work.parts,
        )
        archive.finish(manifest)
    return BackupResult(manifest, work.kept)


class _Work:
    """Copies one kind after the other."""

    def __init__(self, archive: Archive, data: Path, begin: Begin) -> None:
        self._archive = archive
        self._data = data
        self._begin = begin
        self.parts: list[Part] = []
        self.kept = 0

    def copy_spools(self) -> None:
        with spool_copying.held(self._data) as stills:
            records = {still.path: spool_copying.records(still) for still in stills}
            self._copy(_SPOOL, self._data, stills, lambda still: records[still.path])

    def copy_store(self, directory: Path | None) -> str:
        """Copy an embedded store; return the kind of store that it is."""
        if directory is None:
            return "mongodb"
        if not (directory / CONTROL).exists():
            raise BackupError(
                f"there is no store in {directory}",
                hint="give --config or BUS_STORE as the bus has it, or --spools-only",
            )
        with store_copying.held(directory) as stills:
            self._copy(_STORE, directory, stills, store_copying.messages)
        return "sqlite"

    def copy_configuration(self) -> None:
        for path in (*kept_files(self._data), *sorted(self._data.rglob(FORMAT_NAME))):
            self.parts.append(
                self._archive.add(_CONFIGURATION, str(path.relative_to(self._data)), partial(copy_file, path))
            )

    def write(self, kind: str, path: str, content: bytes) -> None:
        def written(target: Path) -> None:
            with open_private(target) as file:
                file.write(content)

        self.parts.append(self._archive.add(kind, path, written))

    def roots(self) -> dict[str, dict[str, list[str]]]:
        """Return the data directories, with the processes that worked there."""
        files = [part.path for part in self.parts if part.kind in (_SPOOL, _CONFIGURATION)]
        found = {str(Path(path).parent.parent) for path in files if Path(path).name != FORMAT_NAME}
        return {root: names_of(self._data / root) for root in sorted(found)}

    def _copy(
        self, kind: str, root: Path, stills: Sequence[SqliteSnapshot], records: Callable[[SqliteSnapshot], int]
    ) -> None:
        advance = self._begin(kind, sum(still.bytes for still in stills))
        for still in stills:
            path = str(still.path.relative_to(root))
            part = self._archive.kept(kind, path, still.state)
            if part is None:
                write = partial(still.copy, advance=advance)
                part = self._archive.add(kind, path, write, records=records(still), state=still.state)
            else:
                self.kept += 1
                advance(still.bytes)
            self.parts.append(part)


def _refuse_place(data: Path, directory: Path) -> None:
    if not data.is_dir():
        raise BackupError(f"{data} is not there; nothing was written", hint="give the --data or --config of the bus")
    if directory.absolute().is_relative_to(data.absolute()):
        raise BackupError(
            f"{directory} is inside {data}, and would be lost with it; nothing was written",
            hint="give a folder on another disk",
        )


@contextmanager
def _explained(directory: Path) -> Iterator[None]:
    """Raise what tells whoever takes the backup what to do, instead of apsw's and the file system's errors."""
    again = "run the same command again: it goes on with what is copied"
    try:
        yield
    except OSError as error:
        raise BackupError(
            f"the backup in {directory} is not whole: {error_text(error)}",
            hint=f"free space or mend the disk, then {again}",
        ) from error
    except apsw.Error as error:
        raise BackupError(f"the backup in {directory} is not whole: {error}", hint=again) from error
