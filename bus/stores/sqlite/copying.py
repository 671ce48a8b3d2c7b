"""Copies all files of an embedded store at one moment, while the bus continues to write."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from bus.databases import SqliteSnapshot
from bus.stores.sqlite import control_sql
from bus.stores.sqlite.errors import translating
from bus.stores.sqlite.keys import label_of
from bus.stores.sqlite.locking import alone
from bus.stores.sqlite.partitions import trace_sql
from bus.stores.sqlite.partitions.directory import CONTROL, FILES_LOCK, LOCKS

_KINDS: Final = ("traces", "control")  # the order in which a writer takes both
_MESSAGES: Final = "SELECT coalesce(max(row), 0) FROM message"


@contextmanager
def held(directory: Path) -> Iterator[Sequence[SqliteSnapshot]]:
    """Yield every file of a store, as all of them are between two writes: rows and traces that belong together.

    Writers of all processes wait for the moment that this takes, a millisecond for each file that is new in it.

    Raises
    ------
    StoreUnavailable
        A process has been writing for some seconds without an end, or the disk does not answer.
    """
    with ExitStack() as opened:
        with translating(directory.name):
            stills = _held(directory, opened)
        yield stills


def messages(still: SqliteSnapshot) -> int:
    """Return how many messages a file has; none for the file of unfinished work."""
    return 0 if still.path.name == CONTROL else int(still.ask(_MESSAGES))


def newest_version(name: str) -> int | None:
    """Return the newest format of a store's file that this bus supports; None when the name is not of one."""
    if name == CONTROL:
        return len(control_sql.STEPS)
    return None if label_of(name) is None else len(trace_sql.STEPS)


def _held(directory: Path, opened: ExitStack) -> Sequence[SqliteSnapshot]:
    locks = directory / LOCKS
    stills: dict[str, SqliteSnapshot] = {}
    with alone(locks / FILES_LOCK):  # most are opened before the others have to wait
        _open_new(directory, stills, opened)
    with _nobody_writes(locks), alone(locks / FILES_LOCK):
        _open_new(directory, stills, opened)
        return [still.hold() for still in stills.values()]


@contextmanager
def _nobody_writes(locks: Path) -> Iterator[None]:
    with ExitStack() as turns:
        for kind in _KINDS:
            with alone(locks / f"{kind}.gate"):
                turns.enter_context(alone(locks / f"{kind}.lock"))
        yield


def _open_new(directory: Path, stills: dict[str, SqliteSnapshot], opened: ExitStack) -> None:
    present = sorted(path for path in directory.iterdir() if newest_version(path.name) is not None)
    for path in present:
        if path.name not in stills:
            stills[path.name] = still = SqliteSnapshot(path)
            opened.callback(still.close)
    for name in stills.keys() - {path.name for path in present}:  # dropped meanwhile, past its retention
        del stills[name]
