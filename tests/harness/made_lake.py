"""Lakes made without Spark: as a stream leaves one after hours, or with a few rows of whatever is asked for."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
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
        for line, tables in ((READ_LINE, (EVENTS, LEDGER, PROGRESS)), (ROLLUP_LINE, (ROLLUPS,))):
            put(lake, line, {table: _rows(table, number, clock.now()) for table in tables}, batch_name(number))
    return lake


def put(lake: Lake, line: str, rows: Mapping[Table, Sequence[Mapping[str, Any]]], name: str = batch_name(0)) -> Lake:
    """Publish rows of tables as one commit of a line; return the lake."""
    commit = lake.begin(line, name)
    assert commit is not None
    for table, each in rows.items():
        commit.put(table, each)
    lake.publish(commit, facts={"seconds": 0.1})
    return lake


def rows_of(lake: Lake) -> dict[str, list[str]]:
    """Return the rows of each table, in an order of their own."""
    return {name: sorted(map(repr, _read(lake, table))) for name, table in TABLES.items()}


def _read(lake: Lake, table: Table) -> list[dict[str, Any]]:
    paths = [lake.storage.url(file.path) for file in lake.files(table)]
    return [row for path in paths for row in parquet.read_table(path).to_pylist()]


def _rows(table: Table, number: int, time: int) -> list[dict[str, Any]]:
    return [_row(table, number, time + place, place) for place in range(_ROWS)]


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
