"""The folder of a backup: files that are whole once they have their names, and what was copied into it so far."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from fnmatch import fnmatch
from pathlib import Path
from typing import Final

import msgspec

from bus.backups.manifest import NAME, Manifest, Part, find_manifest, write_manifest
from bus.errors import BackupError, SpoolLocked
from bus.files import make_directory, make_private, sync, sync_directory
from bus.spool.lock import FILE_NAME, OwnerLock

FILES: Final = "files"
_PROGRESS: Final = "progress.jsonl"
_FRESH: Final = ".new"
_CHUNK: Final = 1 << 20
_SHORT: Final = 16
_TORN: Final = "backup.*.new"  # what a kill leaves of a manifest
_OURS: Final = frozenset({FILES, _PROGRESS, NAME, FILE_NAME, "lost+found"})

Write = Callable[[Path], None]


class Archive:
    """A folder with a backup, whole or under way; to be opened by ``open_archive``.

    A file's name has the hash of its content, so that a further run takes nothing from the backup that is there: that
    one counts until the next is whole.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        found = find_manifest(directory)
        known = [*(found.parts if found else ()), *self._progress()]
        self._known: dict[str, Part] = {part.name: part for part in known}
        for torn in (*directory.glob(_TORN), *(directory / FILES).glob(f"*{_FRESH}*")):
            torn.unlink()

    def kept(self, kind: str, path: str, state: str) -> Part | None:
        """Return what was copied of a file in this state before; None when it has to be copied."""
        part = self._known.get(f"{kind}/{path}")
        if part is None or not state or part.state != state or not self._has(part):
            return None
        return part

    def add(self, kind: str, path: str, write: Write, *, records: int = 0, state: str = "") -> Part:
        """Copy a file into the folder; durable when it returns, and known to a run that goes on after this one.

        Raises
        ------
        OSError
            The disk does not take it; nothing of it is left, as after anything that ``write`` raises.
        """
        fresh = self._directory / FILES / f"{_flat(kind, path)}{_FRESH}"
        try:
            make_private(fresh)
            write(fresh)
            size, digest = _synced(fresh)
            part = Part(kind, path, f"{FILES}/{_flat(kind, path)}-{digest[:_SHORT]}", size, digest, records, state)
            fresh.replace(self._directory / part.file)
        except BaseException:
            fresh.unlink(missing_ok=True)
            raise
        sync_directory(fresh.parent)
        self._note(part)
        return part

    def finish(self, manifest: Manifest) -> None:
        """Say that the backup is whole, then remove what is of an earlier one; durable when it returns."""
        write_manifest(self._directory, manifest)
        (self._directory / _PROGRESS).unlink(missing_ok=True)
        wanted = {part.file for part in manifest.parts}
        for path in (self._directory / FILES).iterdir():
            if f"{FILES}/{path.name}" not in wanted:
                path.unlink()
        sync_directory(self._directory)

    def _has(self, part: Part) -> bool:
        path = self._directory / part.file
        return path.is_file() and path.stat().st_size == part.bytes

    def _note(self, part: Part) -> None:
        self._known[part.name] = part
        with (self._directory / _PROGRESS).open("ab") as file:
            file.write(msgspec.json.encode(part) + b"\n")
            file.flush()
            os.fsync(file.fileno())

    def _progress(self) -> Iterator[Part]:
        path = self._directory / _PROGRESS
        if not path.exists():
            return
        content = path.read_bytes()
        for line in content[: content.rfind(b"\n") + 1].splitlines():
            try:
                yield msgspec.json.decode(line, type=Part)
            except msgspec.DecodeError:  # torn by a kill, and then written behind
                continue


@contextmanager
def open_archive(directory: Path) -> Iterator[Archive]:
    """Open a folder for a backup, made when it is not there; nobody else may write to it meanwhile.

    Raises
    ------
    BackupError
        It holds something else, another backup is being taken into it, or what is in it is of a newer bus.
    """
    if directory.is_dir() and (strange := _strange(directory)):
        raise BackupError(
            f"{directory} holds something that is no backup ({strange}); nothing was written",
            hint="give an empty folder, or one with a backup in it",
        )
    make_directory(directory / FILES)
    try:
        lock = OwnerLock.take(directory)
    except SpoolLocked as error:
        raise BackupError(f"another backup is being taken into {directory}", hint="wait until it has ended") from error
    try:
        yield Archive(directory)
    finally:
        lock.release()


def digest_of(path: Path, advance: Callable[[int], None] = lambda _: None) -> str:
    """Return the SHA-256 of a file's content; raises ``OSError``."""
    found = hashlib.sha256()
    with path.open("rb") as file:
        for chunk in _chunks(file.read):
            found.update(chunk)
            advance(len(chunk))
    return found.hexdigest()


def copy_file(source: Path, target: Path) -> None:
    """Copy a file into a new one of its owner's alone; durable but for its name when it returns; raises ``OSError``."""
    make_private(target)
    with source.open("rb") as read, target.open("wb") as written:
        for chunk in _chunks(read.read):
            written.write(chunk)
        written.flush()
        os.fsync(written.fileno())


def _chunks(read: Callable[[int], bytes]) -> Iterable[bytes]:
    return iter(lambda: read(_CHUNK), b"")


def _synced(path: Path) -> tuple[int, str]:
    """Make a file durable, and return its size and hash as they are read from it then."""
    sync(path)
    return path.stat().st_size, digest_of(path)


def _flat(kind: str, path: str) -> str:
    return f"{kind}-{path.replace('%', '%25').replace('/', '%2F')}"


def _strange(directory: Path) -> str:
    names = (path.name for path in directory.iterdir())
    return next((name for name in names if name not in _OURS and not fnmatch(name, _TORN)), "")
