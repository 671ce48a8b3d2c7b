"""Everything that a partition has, in the order of ids, for a process beside those of the bus."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import apsw

from bus.domain.tracing.trace import Trace, decode_trace
from bus.errors import ConfigurationError
from bus.files import bytes_of
from bus.stores.sqlite.connection import open_reader
from bus.stores.sqlite.control_sql import DUE_NAMES, VALUES_OF_DOCUMENTS
from bus.stores.sqlite.errors import translating
from bus.stores.sqlite.keys import GREATEST, SMALLEST, Label, key_id, time_key
from bus.stores.sqlite.partitions import trace_sql
from bus.stores.sqlite.partitions.directory import CONTROL, Directory

_MOST_ROWS: Final = 1_000
_MOST_BYTES: Final = 8 * 2**20


class ScannedTrace(NamedTuple):
    """A trace, and the body of its message; None when it was not asked for."""

    trace: Trace
    body: bytes | None


def partitions_in(path: Path) -> list[Label]:
    """Return the partitions of a store's directory, the oldest first.

    Raises
    ------
    ConfigurationError
        There is no store.
    """
    if not (path / CONTROL).is_file():
        raise ConfigurationError(
            f"{path} has no store of a bus", hint="name the folder that has control.db, DATA/store of a bus"
        )
    return sorted(Directory(path).labels())


def bytes_in(path: Path, labels: Iterable[Label]) -> int:
    """Return the bytes of the files of partitions, write-ahead logs included; a dropped one has none."""
    return bytes_of(file for label in labels for file in path.glob(f"{label.file}*"))


def scan(
    path: Path, label: Label, *, since: int | None = None, before: int | None = None, bodies: bool = False
) -> Iterator[list[ScannedTrace]]:
    """Give what a partition has of a range of id times (ms, ``before`` exclusive), some megabytes at once.

    Each piece is a read of its own, for while one lasts no write-ahead log can be folded into its file. A partition
    that was dropped meanwhile ends it.
    """
    opened = Directory(path).open_reader(label)
    if opened is None:
        return
    connection, _ = opened
    try:
        yield from pieces_of(connection, label, since=since, before=before, bodies=bodies)
    finally:
        connection.close()


def pieces_of(
    connection: apsw.Connection,
    label: Label,
    *,
    since: int | None = None,
    before: int | None = None,
    bodies: bool = False,
) -> Iterator[list[ScannedTrace]]:
    """Run ``scan`` over an open connection."""
    after = SMALLEST if since is None else time_key(since)
    below = GREATEST if before is None else time_key(before)
    whole = False
    while not whole:
        with translating(label.name):
            piece, after, whole = _piece(connection, after, below, bodies=bodies)
        yield piece


def scan_due(path: Path) -> Iterator[tuple[str, str]]:
    """Give the message's id and the subscription of all unfinished work; the subscription is empty of one for later.

    Raises
    ------
    ConfigurationError
        There is no store.
    """
    partitions_in(path)
    connection = open_reader(path / CONTROL)
    after = 0
    try:
        while True:
            with translating(CONTROL):
                rows: list[Any] = connection.execute(DUE_NAMES, (after, _MOST_ROWS)).fetchall()
            yield from ((key_id(key), subscription) for _, key, subscription in rows)
            if len(rows) < _MOST_ROWS:
                return
            after = rows[-1][0]
    finally:
        connection.close()


def scan_documents(path: Path, collection: str) -> Iterator[bytes]:
    """Give the values of all documents of a collection, by key.

    Raises
    ------
    ConfigurationError
        There is no store.
    """
    partitions_in(path)
    connection = open_reader(path / CONTROL)
    try:
        with translating(CONTROL):
            rows: list[Any] = connection.execute(VALUES_OF_DOCUMENTS, (collection,)).fetchall()
    finally:
        connection.close()
    yield from (value for (value,) in rows)


def _piece(
    connection: apsw.Connection, after: bytes, below: bytes, *, bodies: bool
) -> tuple[list[ScannedTrace], bytes, bool]:
    """Return the next rows, the last key of them, and whether they are the last ones."""
    found: list[ScannedTrace] = []
    weight = 0
    query = trace_sql.SCAN_WITH_BODIES if bodies else trace_sql.SCAN
    rows = connection.execute(query, (after, below, _MOST_ROWS))
    for key, document, body in rows:
        found.append(ScannedTrace(decode_trace(document), body))
        after = key
        weight += len(document) + len(body or b"")
        if weight > _MOST_BYTES:
            rows.close()
            return found, after, False
    return found, after, len(found) < _MOST_ROWS
