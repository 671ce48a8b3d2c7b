"""A lake's rollups, to be compared with a count made by hand or with another lake."""

from __future__ import annotations

import datetime as dt
import math
from typing import Any

from pyspark.sql import SparkSession

from pipeline.lake.batches import READ_LINE, ROLLUP_LINE
from pipeline.lake.lake import Lake
from pipeline.schemas import ROLLUPS, SIDE
from pipeline.transforms.histogram import GREATEST_ERROR
from pipeline.transforms.rolling import merged, readable
from tests.harness.trace_traffic import Key, Traffic

Row = dict[str, Any]
_SHARES = {"p50_ms": 0.5, "p95_ms": 0.95, "p99_ms": 0.99}


def read_rollups(spark: SparkSession, lake: Lake) -> dict[Key, Row]:
    """Return the rollups of traffic that has one stage, by minute, one row each."""
    rows = read_all_rollups(spark, lake)
    found = {(_ms(row["minute"]), row["destination"], row["subscription"]): row for row in rows}
    assert len(found) == len(rows)
    return found


def read_all_rollups(spark: SparkSession, lake: Lake) -> list[Row]:
    """Return the rollups of all stages, in an order of their own."""
    rows = [row.asDict() for row in readable(merged(lake.read(spark, ROLLUPS, line=ROLLUP_LINE))).collect()]
    return sorted(rows, key=lambda row: (row["minute"], row["stage"], row["destination"], row["subscription"]))


def read_side(spark: SparkSession, lake: Lake) -> list[tuple[Any, ...]]:
    """Return what was put aside, in an order of its own."""
    rows = lake.read(spark, SIDE, line=READ_LINE).select("emitter", "seq", "position", "verdict", "raw").collect()
    return sorted(tuple(row) for row in rows)


def assert_agrees(rollups: dict[Key, Row], traffic: Traffic) -> None:
    """Assert that rollups are what counting by hand gives: counts exactly, estimates within their bounds."""
    names = ("events", "delivered", "failed", "retries", "bytes")
    found = {key: [row[name] for name in names] for key, row in rollups.items()}
    assert found == traffic.counts
    for key, row in rollups.items():
        exact = len(traffic.biz_ids[key])
        assert abs(row["distinct_biz_ids"] - exact) <= max(exact * 0.05, 1)
        times = sorted(traffic.times[key])
        for name, share in _SHARES.items():
            true = times[max(math.ceil(share * len(times)), 1) - 1] / 1000
            assert abs(row[name] - true) <= true * (GREATEST_ERROR + 1e-9)


def _ms(time: dt.datetime) -> int:
    return round(time.replace(tzinfo=dt.UTC).timestamp() * 1000)
