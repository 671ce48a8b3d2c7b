"""A lake as a stream leaves it after hours, with a commit every few seconds, made without Spark."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

from pyarrow import parquet

from bus.domain.identity import new_id
from bus.testing.clock import ManualClock
from pipeline.lake.batches import READ_LINE, ROLLUP_LINE, batch_name
from pipeline.lake.lake import Lake
from pipeline.lake.storage import Storage
from pipeline.schemas import EVENTS, LEDGER, PROGRESS, ROLLUPS, TABLES, Table

START = 1_763_700_000_000
"""Twenty minutes before a full hour."""
_ROWS = 5


def make_lake(root: Path, batches: int, *, minutes: float) -> Lake:
    """Return a lake with so many batches, so many minutes apart."""
    clock = ManualClock(START)
    lake = Lake(Storage(str(root)), clock)
    for number in range(batches):
        clock.jump(START + round(number * minutes * 60_000) - clock.now())
        _put(lake, READ_LINE, number, [EVENTS, LEDGER, PROGRESS], clock.now())
        _put(lake, ROLLUP_LINE, number, [ROLLUPS], clock.now())
    return lake


def rows_of(lake: Lake) -> dict[str, list[str]]:
    """Return the rows of each table, in an order of their own."""
    return {name: sorted(map(repr, _rows(lake, table))) for name, table in TABLES.items()}


def _rows(lake: Lake, table: Table) -> list[dict[str, Any]]:
    paths = [lake.storage.url(file.path) for file in lake.files(table)]
    return [row for path in paths for row in parquet.read_table(path).to_pylist()]


def _put(lake: Lake, line: str, number: int, tables: list[Table], time: int) -> None:
    commit = lake.begin(line, batch_name(number))
    assert commit is not None
    for table in tables:
        commit.put(table, [_row(table, number, time + place, place) for place in range(_ROWS)])
    lake.publish(commit, facts={"seconds": 0.1})


def _row(table: Table, number: int, time: int, place: int) -> dict[str, Any]:
    at = dt.datetime.fromtimestamp(time / 1000, dt.UTC)
    known: dict[str, Any] = {
        "emitter": "e",
        "seq": number,
        "position": place,
        "batch": number,
        "id": new_id(time),
        "destination": "orders",
        "latency": [(place, number)],
        "biz_ids": bytes([place]),
        table.time: at,
    }
    return {field.name: known.get(field.name) for field in table.schema.fields}
