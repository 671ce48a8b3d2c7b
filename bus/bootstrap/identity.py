"""The name of a process, kept under its data directory, so that it is the same after a restart."""

from __future__ import annotations

import itertools
import re
import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Final

import msgspec

from bus.errors import SpoolLocked
from bus.files import make_directory, write_whole
from bus.spool import is_live
from bus.spool.lock import OwnerLock

_NAME: Final = re.compile("[0-9a-f]{32}")
_PROCESSES: Final = "processes"
_FORMER: Final = "former.json"


@contextmanager
def claim_name(data: Path, roles: Sequence[str]) -> Iterator[str]:
    """Yield a name that no other process of this data directory has meanwhile; its leases have it.

    Several processes with the same roles may share the directory: each takes the first name that is free.
    """
    for number in itertools.count(1):
        directory = data / _PROCESSES / f"{'-'.join(roles)}-{number}"
        make_directory(directory)
        try:
            lock = OwnerLock.take(directory)
        except SpoolLocked:
            continue
        try:
            yield _name(directory / "name")
        finally:
            lock.release()
        return


def gone_from(data: Path) -> dict[str, frozenset[str]]:
    """Return the names of processes that worked on a data directory and are gone, with the roles of each."""
    return dict(_named(path) for path in _kept(data) if not is_live(path.parent))


@contextmanager
def hold_gone(data: Path) -> Iterator[dict[str, frozenset[str]]]:
    """Yield what `gone_from` returns, of processes that cannot come back under their names meanwhile."""
    with ExitStack() as locks:
        found: dict[str, frozenset[str]] = {}
        for path in _kept(data):
            with suppress(SpoolLocked):
                locks.callback(OwnerLock.take(path.parent).release)
                found |= [_named(path)]
        yield found


def names_of(data: Path) -> dict[str, list[str]]:
    """Return the names of all processes that work or worked on a data directory, with the roles of each."""
    return {name: sorted(roles) for name, roles in (_named(path) for path in _kept(data))}


def name_kept(data: Path, roles: Sequence[str]) -> str:
    """Return the name of the first process with these roles that works on a data directory."""
    return _name(data / _PROCESSES / f"{'-'.join(roles)}-1" / "name")


def keep_former(data: Path, names: Mapping[str, Sequence[str]]) -> None:
    """Note, durably, whose queues were put into a data directory from a backup, with the roles of each."""
    write_whole(data / _PROCESSES / _FORMER, msgspec.json.encode(names))


def former_of(data: Path, roles: Sequence[str]) -> set[str]:
    """Return the processes whose queues a backup put here, of those for which one with these roles goes on."""
    try:
        found = msgspec.json.decode((data / _PROCESSES / _FORMER).read_bytes(), type=dict[str, list[str]])
    except FileNotFoundError:
        return set()
    return {name for name, own in found.items() if set(own) <= set(roles)}


def _kept(data: Path) -> list[Path]:
    """Return the files with the names of the processes that work or worked on a data directory."""
    paths = (data / _PROCESSES).glob("*/name")
    return [path for path in paths if _NAME.fullmatch(path.read_text("ascii", errors="replace"))]


def _named(path: Path) -> tuple[str, frozenset[str]]:
    return path.read_text("ascii"), frozenset(path.parent.name.rpartition("-")[0].split("-"))


def _name(path: Path) -> str:
    """Return the name in a file; a new one when there is none, or none that can be read."""
    name = path.read_text("ascii", errors="replace") if path.exists() else ""
    if not _NAME.fullmatch(name):
        name = secrets.token_hex(16)
        write_whole(path, name.encode())
    return name
