"""The name of a process, kept under its data directory, so that it is the same after a restart."""

from __future__ import annotations

import itertools
import re
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from bus.errors import SpoolLocked
from bus.files import make_directory, write_whole
from bus.spool import is_live
from bus.spool.lock import OwnerLock

_NAME: Final = re.compile("[0-9a-f]{32}")


@contextmanager
def claim_name(data: Path, roles: Sequence[str]) -> Iterator[str]:
    """Yield a name that no other process of this data directory has meanwhile; its leases have it.

    Several processes with the same roles may share the directory: each takes the first name that is free.
    """
    for number in itertools.count(1):
        directory = data / "processes" / f"{'-'.join(roles)}-{number}"
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
    found: dict[str, frozenset[str]] = {}
    for path in (data / "processes").glob("*/name"):
        name = path.read_text("ascii", errors="replace")
        if _NAME.fullmatch(name) and not is_live(path.parent):
            found[name] = frozenset(path.parent.name.rpartition("-")[0].split("-"))
    return found


def _name(path: Path) -> str:
    """Return the name in a file; a new one when there is none, or none that can be read."""
    name = path.read_text("ascii", errors="replace") if path.exists() else ""
    if not _NAME.fullmatch(name):
        name = secrets.token_hex(16)
        write_whole(path, name.encode())
    return name
