"""Copies spools at one moment, while their owners continue to work."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

import apsw

from bus.databases import SqliteSnapshot
from bus.errors import SpoolError
from bus.spool.file import NAME
from bus.spool.inspect import spools
from bus.spool.lock import is_live

_TRIES: Final = 10
# A record is durable in the next place before it leaves one: who is looked at in this order misses none on its way.
_FLOW: Final = ("journal-receiver", "receiver", "journal", "journal-dispatcher", "direct", "outcomes")
_RECORDS: Final = "SELECT coalesce(sum(records), 0) FROM tally WHERE lane > 0 AND records > 0"


@contextmanager
def held(root: Path) -> Iterator[Sequence[SqliteSnapshot]]:
    """Yield every spool at or below a directory, all within some milliseconds, those of gone processes first.

    Whatever moves from one to another meanwhile is in one of the two.

    Raises
    ------
    SpoolError
        One cannot be read, or processes come and go so fast that no moment has all.
    """
    for _ in range(_TRIES):
        with ExitStack() as opened:
            found = _in_order(root)
            try:
                stills = [_held(path, opened) for path in found]
            except apsw.CantOpenError:
                continue  # a process has emptied one and removed it
            except apsw.Error as error:
                raise SpoolError(
                    f"a spool below {root} cannot be read: {error}", hint="see docs/operations.md, Damaged files"
                ) from error
            if set(_in_order(root)) == set(found):
                yield stills
                return
    raise SpoolError(f"the spools below {root} come and go all the time", hint="try again")


def records(spool: SqliteSnapshot) -> int:
    """Return how many records a spool has."""
    return int(spool.ask(_RECORDS))


def _held(directory: Path, opened: ExitStack) -> SqliteSnapshot:
    still = SqliteSnapshot(directory / NAME)
    opened.callback(still.close)
    return still.hold()


def _in_order(root: Path) -> list[Path]:
    return sorted(spools(root), key=lambda path: (is_live(path), _place(path.name), path))


def _place(name: str) -> int:
    return _FLOW.index(name) if name in _FLOW else len(_FLOW)
