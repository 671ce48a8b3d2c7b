"""Checks of a command's inputs before Spark, which is slow to start, and before a job runs for an hour in vain."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from bus.errors import ConfigurationError
from bus.files import bytes_of
from bus.stores.address import sqlite_directory
from bus.stores.sqlite.partitions.scanning import partitions_in
from pipeline.jobs import archive
from pipeline.jobs.reconcile import Plan
from pipeline.lake.batches import READ_LINE, ROLLUP_LINE
from pipeline.lake.lake import Lake
from pipeline.lake.storage import Storage
from pipeline.options import SessionOptions
from pipeline.schemas import EVENTS, MESSAGES, ROLLUPS, Table
from pipeline.session import SMALL
from pipeline.sources.store import bytes_of_store

_BYTES_OF_AN_EVENT: Final = 200
_SMALL_STORE: Final = 256 * 2**20
_ROLLUP: Final = "rollup --once --events data/events"
_MADE: Final = {
    ROLLUPS.name: (ROLLUP_LINE, _ROLLUP),
    MESSAGES.name: (archive.LINE, "archive --store sqlite:///data/store"),
}
"""The line and the command that make a table; all other tables are made by the stream as it reads."""


def lake_with(root: str, table: Table) -> Lake:
    """Return a lake; raises ``ConfigurationError`` when nothing of a table is in it."""
    storage = Storage(root)
    storage.check()
    lake = Lake(storage)
    line, job = _MADE.get(table.name, (READ_LINE, _ROLLUP))
    if not lake.files(table, line=line):
        is_read = line == ROLLUP_LINE and lake.files(EVENTS, line=READ_LINE)
        hint = f"bus pipeline {'rebuild' if is_read else job} --lake {root}"
        raise ConfigurationError(f"the lake {root} has no {table.name} yet", hint=hint)
    return lake


def is_small(lake: Lake, store: str | None, plan: Plan) -> bool:
    """Whether a proof reads few events, and has but a small embedded store to read."""
    files = lake.files(EVENTS, line=READ_LINE, since=plan.since)
    has_small_store = store is None or bytes_of_store(store, since=plan.since, before=plan.before) < _SMALL_STORE
    return has_small_store and sum(file.rows for file in files) < SMALL


def has_few_lines(folder: str | None) -> bool:
    """Whether a folder of this machine has few trace events, by the size of its files; no other is looked into."""
    if folder is None or "://" in folder:
        return False
    return bytes_of(Path(folder).rglob("*.jsonl")) < SMALL * _BYTES_OF_AN_EVENT


def check_lake(root: str) -> None:
    """Check that a lake can be reached; it may be empty. Raises ``ConfigurationError``."""
    Storage(root).check()


def check_report(path: Path | None) -> None:
    """Check that a report can be written; raises ``ConfigurationError``."""
    if path is not None and (path.is_dir() or not path.absolute().parent.is_dir()):
        raise ConfigurationError(f"a report cannot be written to {path}", hint="name a file in a folder that is there")


def check_events(folder: str | None) -> None:
    """Check that a local folder of trace events exists; a URI is not checked. Raises ``ConfigurationError``."""
    if folder is not None and "://" not in folder and not Path(folder).is_dir():
        raise ConfigurationError(
            f"{folder} is no folder; a bus writes its trace events to DATA/events", hint="start it with events = files"
        )


def check_store(address: str | None, session: SessionOptions) -> None:
    """Check that a store can be read: an embedded one is there, or Spark is given the connector to MongoDB.

    Raises
    ------
    ConfigurationError
        It cannot be read, or the address is invalid.
    """
    if address is None:
        return
    directory = sqlite_directory(address)
    if directory is not None:
        partitions_in(directory)
    elif session.connectors is None:
        raise ConfigurationError(
            "MongoDB needs Spark's connector", hint="bus pipeline connectors jars; --connectors jars"
        )
