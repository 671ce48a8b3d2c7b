"""Puts a backup into an empty data directory, as a bus of its own."""

from __future__ import annotations

import asyncio
import enum
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from bus.backups.archive import copy_file, digest_of
from bus.backups.manifest import Manifest, Part, find_manifest
from bus.backups.taking import Begin
from bus.bootstrap.data_format import format_of
from bus.bootstrap.identity import keep_former
from bus.bootstrap.restored import begin_restore, end_restore, is_mark, restored_from
from bus.bootstrap.store import embedded, open_store
from bus.cluster.member import COLLECTION as MEMBERS
from bus.cluster.peers import PeerKey
from bus.domain.delivery.leases import retries_of, starting
from bus.error_texts import error_text
from bus.errors import BackupError
from bus.files import make_directory, sync_directory
from bus.ports.clock import Clock
from bus.settings import Settings
from bus.spool import is_live
from bus.spool.inspect import spools

_PLACED: Final = frozenset({"spool", "configuration", "store"})
_IGNORED: Final = frozenset({"lost+found"})
_FRESH: Final = ".restored"
_LOGS: Final = ("-wal", "-shm")


class RestoreResult(NamedTuple):
    """What was put back, and how many of its files an earlier run that was cut off had put there."""

    manifest: Manifest
    kept: int


class Extent(enum.Enum):
    """How much of a bus was lost, and so is put back."""

    ALL = enum.auto()
    """The restored bus is another one."""
    DISK = enum.auto()
    """The store lives, and the bus goes on with it: leave it as it is. Only for a backup without one."""
    STORE = enum.auto()
    """The data directory lives, and the bus goes on with its queues: put back the store alone."""


def restore(
    directory: Path, settings: Settings, clock: Clock, begin: Begin, *, extent: Extent = Extent.ALL
) -> RestoreResult:
    """Put a backup into the data directory of these settings, and into their store; durable when it returns.

    All of it is verified before anything is written. A run that was cut off is gone on with by the same call; no bus
    starts on what it left. The restored bus knows none of the processes of the old one, and they do not know it.

    Raises
    ------
    BackupError
        The backup is not whole or damaged, the target is not empty, a bus runs there, or the disk does not take it.
    StoreError
        The store that was put back beside it does not answer; what is on disk stays, and the same call goes on.
    """
    manifest = _whole(directory)
    store = _store_for(manifest, settings, extent)
    places = _places(manifest, settings, store, extent)
    _refuse_target(settings.data, store, manifest, extent)
    roots = [] if extent is Extent.STORE else [root for root in manifest.roots if root != "."]
    marked = [settings.data, *(settings.data / root for root in roots)]
    with _explained(directory, settings.data):
        _verify(directory, manifest, begin)
        for place in marked:
            begin_restore(place, manifest.id)
        kept = _put(directory, places, begin)
        if extent is not Extent.STORE:
            for root, names in manifest.roots.items():
                keep_former(settings.data / root, names)
        if manifest.store != "none" and extent is not Extent.DISK:
            asyncio.run(_become_another(settings, clock, {name for names in manifest.roots.values() for name in names}))
        for place in reversed(marked):  # the first one says whether all of it has ended
            end_restore(place)
    return RestoreResult(manifest, kept)


def _whole(directory: Path) -> Manifest:
    manifest = find_manifest(directory)
    if manifest is None:
        raise BackupError(
            f"there is no whole backup in {directory}; nothing was written",
            hint="a backup that was cut off is ended by the same bus backup once more",
        )
    return manifest


def _store_for(manifest: Manifest, settings: Settings, extent: Extent) -> Path | None:
    """Return where the files of the store belong; None when the backup has none."""
    store = embedded(settings)
    if extent is Extent.STORE and manifest.store != "sqlite":
        raise BackupError(
            "there is no store in this backup; nothing was written", hint="restore the database by its own means"
        )
    if extent is Extent.DISK and manifest.store == "sqlite":
        raise BackupError(
            "this backup has the store in it, so what is restored is another bus; nothing was written",
            hint="leave --same-bus out",
        )
    if manifest.store == "sqlite" and store is None:
        raise BackupError(
            "this backup has an SQLite store in it, and the settings name another one; nothing was written",
            hint="leave BUS_STORE out, or name sqlite:///PATH",
        )
    if manifest.store == "mongodb" and store is not None:
        raise BackupError(
            "the store of this bus is a MongoDB, which is not in the backup; nothing was written",
            hint="restore the database by its own means, then give --config or BUS_STORE that names it",
        )
    return store if manifest.store == "sqlite" else None


def _places(manifest: Manifest, settings: Settings, store: Path | None, extent: Extent) -> Mapping[Part, Path]:
    found = {}
    kinds = {"store"} if extent is Extent.STORE else _PLACED
    for part in manifest.parts:
        if part.kind in kinds:
            root = store if part.kind == "store" and store is not None else settings.data
            found[part] = _below(root, part.path)
    return found


def _below(root: Path, path: str) -> Path:
    """Return a place below a directory; a backup may have been made by a stranger."""
    if Path(path).is_absolute() or ".." in Path(path).parts:
        raise BackupError(f"the backup has a file for {path!r}, outside of the bus; nothing was written")
    return root / path


def _refuse_target(data: Path, store: Path | None, manifest: Manifest, extent: Extent) -> None:
    """Refuse a place that holds anything but what an earlier run has put there of the same backup."""
    if extent is Extent.STORE and (live := [path for path in spools(data) if is_live(path)]):
        raise BackupError(f"a bus works on {live[0]}; nothing was written", hint="stop every process of the bus first")
    begun = restored_from(data)
    if begun is None:
        _refuse_full([store] if extent is Extent.STORE else [data, store])
    elif begun != manifest.id:
        raise BackupError(
            f"another backup was being restored into {data}; nothing was written",
            hint="continue that one, or remove its files",
        )


def _refuse_full(places: Sequence[Path | None]) -> None:
    for place in places:
        if place is None or not place.exists():
            continue
        if not place.is_dir() or any(not _may_stay(path.name) for path in place.iterdir()):
            raise BackupError(
                f"{place} is not an empty directory; nothing was written",
                hint="give --data a new one; what is in this one may be all that is left",
            )


def _may_stay(name: str) -> bool:
    return name in _IGNORED or is_mark(name)


def _verify(directory: Path, manifest: Manifest, begin: Begin) -> None:
    """Read all files and compare them with what was written; none is newer than this bus."""
    advance = begin("verify", manifest.bytes)
    for part in manifest.parts:
        path = directory / part.file
        if not path.is_file():
            raise BackupError(f"{path} is missing; nothing was restored", hint=_ANOTHER)
        if path.stat().st_size != part.bytes or digest_of(path, advance) != part.sha256:
            raise BackupError(
                f"{path} is damaged: it is not what the backup wrote ({part.name}); nothing was restored", hint=_ANOTHER
            )
        _refuse_newer(part, path)


_ANOTHER: Final = "take another copy of the backup, or an earlier backup"


def _refuse_newer(part: Part, path: Path) -> None:
    """Refuse a file that this bus would refuse to start on."""
    found = format_of(path, Path(part.path).name)
    if found is not None and found.is_newer:
        raise BackupError(
            f"{path} has format {found.format}; this bus supports {found.known}; nothing was restored",
            hint="use the version of the bus that made the backup, or a newer one",
        )


def _put(directory: Path, places: Mapping[Part, Path], begin: Begin) -> int:
    """Put each file in its place unless it is there; return how many were."""
    advance = begin("restore", sum(part.bytes for part in places))
    kept = 0
    for part, place in places.items():
        if place.is_file() and place.stat().st_size == part.bytes and digest_of(place) == part.sha256:
            kept += 1
        else:
            _put_one(directory / part.file, place)
        advance(part.bytes)
    return kept


def _put_one(source: Path, place: Path) -> None:
    make_directory(place.parent)
    fresh = place.with_name(place.name + _FRESH)
    fresh.unlink(missing_ok=True)
    try:
        copy_file(source, fresh)
    except BaseException:
        fresh.unlink(missing_ok=True)
        raise
    for log in _LOGS:  # of a run that was cut off while it had the file open
        place.with_name(place.name + log).unlink(missing_ok=True)
    fresh.replace(place)
    sync_directory(place.parent)


async def _become_another(settings: Settings, clock: Clock, former: AbstractSet[str]) -> None:
    """Have the restored bus take no process of the old one for its own, and the other way round; end their leases."""
    store = await open_store(settings, clock)
    try:
        members = await store.list(MEMBERS)
        owners = former | {member.key for member in members}
        retries = [retries_of(owner) for owner in sorted(owners)]
        for owner in ("", *sorted(owners), *retries, *map(starting, retries)):
            await store.reclaim(owner)
        for member in members:
            await store.delete(MEMBERS, member.key)
        await PeerKey(store, clock).renew()
    finally:
        await store.close()


@contextmanager
def _explained(directory: Path, data: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise BackupError(
            f"{directory} is not restored to {data}: {error_text(error)}",
            hint="repair the disk or free space, then run the same command again: it continues",
        ) from error
