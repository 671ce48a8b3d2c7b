"""What is looked at before Spark is started, which takes its time, and before a job runs for an hour in vain."""

from __future__ import annotations

from pathlib import Path

from bus.errors import ConfigurationError
from pipeline.lake.lake import Lake
from pipeline.lake.storage import Storage
from pipeline.schemas import Table


def lake_with(root: str, table: Table) -> Lake:
    """Return a lake; raises ``ConfigurationError`` when nothing of a table that the stream writes is in it."""
    lake = Lake(Storage(root))
    if not lake.files(table):
        raise ConfigurationError(
            f"the lake {root} has no {table.name} yet",
            hint=f"bus pipeline rollup --events data/events --lake {root} --once",
        )
    return lake


def check_report(path: Path | None) -> None:
    """See that a report can be written; raises ``ConfigurationError``."""
    if path is not None and (path.is_dir() or not path.absolute().parent.is_dir()):
        raise ConfigurationError(f"a report cannot be written to {path}", hint="name a file in a folder that is there")


def check_events(folder: str | None) -> None:
    """See that trace events are there, as far as they are on this machine; raises ``ConfigurationError``."""
    if folder is not None and "://" not in folder and not Path(folder).is_dir():
        raise ConfigurationError(
            f"{folder} is no folder; a bus writes its trace events to DATA/events", hint="start it with events = files"
        )
