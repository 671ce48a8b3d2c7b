"""Hours of a lake with norms are judged, and a bus that is told has alarms of what is out."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyspark.sql import SparkSession

from pipeline.commands.telling import ReportTarget, tell_norms
from pipeline.jobs import baseline
from pipeline.jobs.judge import judge, looked_at
from pipeline.lake.batches import ROLLUP_LINE, batch_name
from pipeline.lake.lake import Lake
from pipeline.lake.storage import Storage
from pipeline.schemas import ROLLUPS
from tests.harness.bus_process import BusProcess
from tests.harness.waiting import wait_until

WEEKS = 4
NOW = dt.datetime.now(dt.UTC)
UNTIL = NOW.replace(minute=0, second=0, microsecond=0)
FAULT = UNTIL - dt.timedelta(hours=3)


def rows(since: dt.datetime, hours: int, *, faulty: bool) -> Iterator[tuple[Any, ...]]:
    """Give rollups of hours of three destinations: in faulty ones one is halved and slow, and one is silent."""
    chance = np.random.default_rng(7)
    for hour in range(hours):
        time = since + dt.timedelta(hours=hour)
        many = int(chance.poisson(1000 if faulty else 2000))
        failed = int(chance.binomial(many, 0.01))
        middle = 280 if faulty else 230
        latency = {int(bucket): 20 for bucket in chance.normal(middle, 5, 20).round()}
        yield (time, "accepted", "orders", "", many, 0, 0, 0, 0, None, {})
        yield (time, "settled", "orders", "shop", many + failed, many, failed, failed, 0, None, latency)
        yield (time, "accepted", "mails", "", int(chance.poisson(500)), 0, 0, 0, 0, None, {})
        if not faulty:
            yield (time, "accepted", "cards", "", int(chance.poisson(500)), 0, 0, 0, 0, None, {})
    yield (since + dt.timedelta(hours=hours), "accepted", "mails", "", 1, 0, 0, 0, 0, None, {})


def roll(spark: SparkSession, lake: Lake, number: int, found: Iterator[tuple[Any, ...]]) -> None:
    commit = lake.begin(ROLLUP_LINE, batch_name(number))
    assert commit is not None
    commit.stage(ROLLUPS, spark.createDataFrame(list(found), ROLLUPS.schema), files=1)
    lake.publish(commit)


@pytest.fixture
def lake(spark: SparkSession, tmp_path: Path) -> Lake:
    """A lake of weeks, with norms, that ends where the fault begins."""
    made = Lake(Storage(str(tmp_path / "lake")))
    roll(spark, made, 0, rows(FAULT - dt.timedelta(weeks=WEEKS), WEEKS * 168, faulty=False))
    span = baseline.Span(FAULT, WEEKS)
    baseline.publish(made, baseline.history(spark, made, span).persist(), span, 1)
    return made


@pytest.mark.timeout(400)
def test_a_fault_of_three_hours_is_found_and_told(spark: SparkSession, lake: Lake, tmp_path: Path) -> None:
    nothing = judge(spark, lake, FAULT - dt.timedelta(weeks=WEEKS + 1))
    assert (nothing.metrics, nothing.deviations) == (0, [])
    assert "norms need three weeks" in nothing.why
    roll(spark, lake, 1, rows(FAULT, 3, faulty=True))
    seen = looked_at(lake, NOW)
    assert (seen.until, seen.why) == (UNTIL, "")
    found = judge(spark, lake, UNTIL)
    assert (found.metrics, found.why) == (6, "")
    named = {(one.destination, one.subscription, one.metric): one for one in found.deviations}
    assert set(named) == {
        ("cards", "", "volume"),
        ("orders", "", "volume"),
        ("orders", "shop", "volume"),
        ("orders", "shop", "latency"),
    }
    assert named["cards", "", "volume"].value == 0
    halved = named["orders", "", "volume"]
    assert halved.low is not None
    assert halved.value < halved.low < halved.norm
    with BusProcess(tmp_path / "data") as bus:
        for code in ("orders", "cards"):
            bus.admin.destination(code)
        bus.admin.subscription("orders", "shop", "http://127.0.0.1:9/x")
        tell_norms(ReportTarget(bus.url, ""), UNTIL, found.deviations)

        def alarms() -> set[tuple[str, str | None]]:
            found = bus.admin.call("GET", "/api/v1/overview").json()["alarms"]
            return {(one["destination"], one["subscription"]) for one in found if one["destination"]}

        lanes: set[tuple[str, str | None]] = {("orders", None), ("orders", "shop"), ("cards", None)}
        wait_until(lambda: alarms() == lanes, within=30, what="what is out is an alarm", state=alarms)
