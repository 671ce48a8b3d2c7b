import datetime as dt
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from pipeline.errors import JobFailed
from pipeline.jobs import baseline
from pipeline.lake.batches import ROLLUP_LINE, batch_name
from pipeline.lake.lake import Lake
from pipeline.lake.storage import Storage
from pipeline.norms.backtest import Fault
from pipeline.reports.baseline import page_of
from pipeline.reports.totals import totals
from pipeline.schemas import ROLLUPS
from tests.harness.made_lake import put

WEEKS = 5
MONDAY = dt.datetime(2026, 3, 2, tzinfo=dt.UTC)
HOLE = 200  # an hour of which nothing was rolled up


def rows() -> Iterator[tuple[Any, ...]]:
    """Give rollups of hours: a busy destination with a subscriber, and one that is nearly silent."""
    chance = np.random.default_rng(5)
    for hour in range(WEEKS * 168 + 1):
        time = MONDAY + dt.timedelta(hours=hour)
        many = int(chance.poisson(3000 if 8 <= time.hour < 20 else 600))
        latency = {int(bucket): 20 for bucket in chance.normal(230, 5, 20).round()}
        failed = int(chance.binomial(many, 0.01))
        if hour != HOLE:
            yield (time, "accepted", "orders", "", many, 0, 0, 0, 0, None, {})
            yield (time, "settled", "orders", "shop", many + failed, many, failed, failed, 0, None, latency)
        if hour % 7 == 0 and hour != HOLE:
            yield (time, "accepted", "rare", "", 1, 0, 0, 0, 0, None, {})


@pytest.fixture(scope="module")
def lake(spark: SparkSession, tmp_path_factory) -> Lake:
    made = Lake(Storage(str(tmp_path_factory.mktemp("lake"))))
    commit = made.begin(ROLLUP_LINE, "weeks")
    assert commit is not None
    commit.stage(ROLLUPS, spark.createDataFrame(list(rows()), ROLLUPS.schema), files=1)
    made.publish(commit)
    return made


@pytest.fixture(scope="module")
def span(lake: Lake) -> baseline.Span:
    last = baseline.last_hour(lake)
    assert last is not None
    return baseline.Span(last, WEEKS)


@pytest.mark.timeout(400)
def test_norms_are_published_once_and_stand_for_those_before(spark, lake, span):
    hours = baseline.history(spark, lake, span).persist()
    baseline.publish(lake, hours, span, 1)
    rows = baseline.thresholds(spark, lake).collect()
    orders = [row for row in rows if (row.destination, row.metric, row.subscription) == ("orders", "volume", "")]
    assert sorted(row.hour_of_week for row in orders) == list(range(168))
    assert {row.state for row in rows} == {"ready", "thin"}
    night, noon = orders_at(orders, 3), orders_at(orders, 14)
    assert noon > 3 * night
    page = page_of([row.asDict() for row in hours.collect()], [row.asDict() for row in rows], [], span.before)
    assert page.count("<figure>") >= 5
    assert "http" not in page

    baseline.publish(lake, hours, span, 2)
    assert len(lake.manifests(baseline.LINE)) == 1
    learning = baseline.Span(span.before, 2)
    baseline.publish(lake, baseline.history(spark, lake, learning), learning, 3)
    (row,) = baseline.thresholds(spark, lake).groupBy("computed").agg(F.collect_set("state").alias("states")).collect()
    assert row.states == ["learning"]
    assert row.computed.replace(tzinfo=dt.UTC) == span.before

    for now in (4, 5):  # asked for again after others were published: in force again, and once
        baseline.publish(lake, hours, span, now)
        (manifest,) = lake.manifests(baseline.LINE)
        assert manifest.facts["since"] == span.since.isoformat()
    assert len(lake.names(baseline.LINE)) == 3
    assert {row.state for row in baseline.thresholds(spark, lake).collect()} == {"ready", "thin"}


@pytest.mark.proof
def test_norms_follow_what_is_rolled_up_later_and_are_never_of_nothing(spark, tmp_path):
    made = Lake(Storage(str(tmp_path / "lake")))
    few = {"stage": "accepted", "destination": "orders", "subscription": "", "events": 5}
    ends = [{**few, "minute": MONDAY}, {**few, "minute": MONDAY + dt.timedelta(weeks=8)}]
    put(made, ROLLUP_LINE, {ROLLUPS: ends})

    def publish(weeks: int, now: int) -> None:
        span = baseline.Span(MONDAY + dt.timedelta(weeks=weeks), 1)
        assert baseline.may_have_hours(made, span), "the file spans them all"
        baseline.publish(made, baseline.history(spark, made, span), span, now)

    publish(1, 1)
    (norms,) = made.manifests(baseline.LINE)
    with pytest.raises(JobFailed, match="norms in force stay"):
        publish(4, 2)
    assert made.manifests(baseline.LINE) == [norms]
    put(made, ROLLUP_LINE, {ROLLUPS: [{**few, "minute": MONDAY + dt.timedelta(hours=1)}]}, batch_name(1))
    for now in (3, 4):
        publish(1, now)
    (again,) = made.manifests(baseline.LINE)
    assert again.replaces == (norms.name,)
    assert len(made.names(baseline.LINE)) == 2


def orders_at(rows: list, hour: int) -> float:
    (found,) = [row.norm for row in rows if row.hour_of_week == hour]
    return found


@pytest.mark.timeout(400)
def test_a_back_test_over_rolled_up_weeks_finds_outages_of_busy_series(spark, lake, span):
    hours = baseline.history(spark, lake, span)
    scored = {
        total.fault: total
        for total in totals(row.asDict() for row in baseline.backtest(hours, seed=1, weeks=WEEKS).collect())
    }
    assert scored[Fault.DROP].put >= 40
    assert scored[Fault.DROP].share >= 0.95
    assert scored[Fault.OUTAGE].put >= 40
    assert scored[Fault.DROP].alarms_a_month < 1
    assert scored[Fault.OUTAGE].share >= 0.95
    assert "rare" in scored[Fault.DROP].thin


def test_hours_of_no_rollups_are_a_hole_and_not_silence(spark, lake, span):
    found = {
        (row.destination, row.subscription): row
        for row in baseline.history(spark, lake, span)
        .groupBy("destination", "subscription")
        .agg(F.count("*").alias("hours"), F.sum("volume").alias("volume"))
        .collect()
    }
    assert {row.hours for row in found.values()} == {WEEKS * 168 - 1}
    assert found["rare", ""].volume == WEEKS * 168 / 7
