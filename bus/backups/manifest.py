"""The manifest of a backup, written once all files of it are on disk."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Final

import msgspec

from bus.errors import BackupError
from bus.files import write_whole

NAME: Final = "backup.json"
FORMAT: Final = 1


class Part(msgspec.Struct, frozen=True):
    """One file of a backup.

    Attributes
    ----------
    kind
        ``spool`` and ``configuration`` belong below the data directory, ``store`` into the store's; ``settings``
        are for people.
    path
        Where it belongs, relative to that.
    file
        Where it is in the backup.
    bytes, sha256
        Of its content.
    records
        How many records or messages are in it.
    state
        What the original's file was when it was copied; empty when that does not say whether it changed since.
    """

    kind: str
    path: str
    file: str
    bytes: int
    sha256: str
    records: int = 0
    state: str = ""

    @property
    def name(self) -> str:
        """What no other part of the backup has."""
        return f"{self.kind}/{self.path}"


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """A whole backup.

    Attributes
    ----------
    format
        Of the folder; a greater one is of a newer bus.
    version
        The bus that made it.
    id
        Of this state of the backup.
    began_at, ended_at
        When (ms): what was acknowledged before ``began_at`` is in it.
    store
        ``sqlite`` when the store is in it, ``mongodb`` when that is to be put back beside it, ``none`` when only spools
        were asked for.
    roots
        The data directories that are in it, relative to the one that was asked for, with the names of the processes
        that worked there and the roles of each.
    parts
        Its files.
    """

    format: int
    version: str
    id: str
    began_at: int
    ended_at: int
    store: str
    roots: dict[str, dict[str, list[str]]]
    parts: list[Part]

    def count(self, kind: str) -> int:
        """Return how many files of a kind there are."""
        return sum(part.kind == kind for part in self.parts)

    def records(self, kind: str) -> int:
        """Return how many records or messages the files of a kind have."""
        return sum(part.records for part in self.parts if part.kind == kind)

    @property
    def bytes(self) -> int:
        """Return the size of all files."""
        return sum(part.bytes for part in self.parts)


class _SealedManifest(msgspec.Struct, frozen=True):
    sha256: str
    backup: msgspec.Raw


class _Format(msgspec.Struct, frozen=True):
    format: int


def write_manifest(directory: Path, manifest: Manifest) -> None:
    """Replace what says that a backup is whole, durably; raises ``OSError``."""
    content = msgspec.json.encode(manifest)
    sealed = _SealedManifest(hashlib.sha256(content).hexdigest(), msgspec.Raw(content))
    write_whole(directory / NAME, msgspec.json.encode(sealed) + b"\n")


def find_manifest(directory: Path) -> Manifest | None:
    """Return what a folder says of the backup in it; None when there is no whole one.

    Raises
    ------
    BackupError
        It cannot be read, or a newer bus wrote it.
    """
    path = directory / NAME
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return None
    try:
        sealed = msgspec.json.decode(content, type=_SealedManifest)
        if hashlib.sha256(sealed.backup).hexdigest() != sealed.sha256:
            raise _damaged(path, "its checksum is another")
        found = msgspec.json.decode(sealed.backup, type=_Format)
        if found.format > FORMAT:
            raise BackupError(
                f"{path} has backup format {found.format}; this bus supports {FORMAT}; nothing was changed",
                hint="use the version of the bus that made it, or a newer one",
            )
        return msgspec.json.decode(sealed.backup, type=Manifest)
    except msgspec.DecodeError as error:
        raise _damaged(path, str(error)) from error


def _damaged(path: Path, why: str) -> BackupError:
    return BackupError(f"{path} is damaged: {why}", hint="take another backup, from another folder or medium")
