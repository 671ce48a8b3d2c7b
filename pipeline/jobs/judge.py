"""``judge``: which series were outside of their norms in the last three whole hours of the rollups."""

from __future__ import annotations

import datetime as dt
from typing import Final, NamedTuple

import numpy as np
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from bus.domain.health.findings import Deviation
from pipeline.jobs import baseline
from pipeline.lake.batches import ROLLUP_LINE
from pipeline.lake.lake import Lake
from pipeline.norms.judging import WINDOWS
from pipeline.norms.weeks import place_of
from pipeline.schemas import ROLLUPS, THRESHOLDS
from pipeline.transforms.deviating import judged
from pipeline.transforms.hourly import hourly

FRESH: Final = dt.timedelta(hours=3)
"""The greatest age of the last whole hour; earlier hours do not describe the present."""


class Judgement(NamedTuple):
    """The result of a run.

    Attributes
    ----------
    until
        When the last whole hour of the rollups ended; None when there is none.
    metrics
        How many metrics of series could be judged.
    deviations
        Those that are out.
    why
        Why nothing could be judged; empty when something was.
    """

    until: dt.datetime | None
    metrics: int
    deviations: list[Deviation]
    why: str


def looked_at(lake: Lake, now: dt.datetime) -> Judgement:
    """Return up to when there is something to judge, or why there is not, as far as that is seen without Spark."""
    last = baseline.last_hour(lake)
    if last is None:
        return Judgement(None, 0, [], "there is no whole hour of rollups yet")
    until = min(last, now.replace(minute=0, second=0, microsecond=0))  # some events are dated a little ahead
    why = ""
    if now - until > FRESH:
        why = f"the last whole hour of rollups ended at {until:%Y-%m-%dT%H:%MZ}, see whether rollup runs"
    elif not lake.files(THRESHOLDS, line=baseline.LINE):
        why = "the lake has no norms yet: bus pipeline baseline"
    return Judgement(until, 0, [], why)


def judge(spark: SparkSession, lake: Lake, until: dt.datetime) -> Judgement:
    """Judge the three hours before a whole hour by the norms in force."""
    last = int(until.timestamp()) // 3600
    hours = list(range(last - WINDOWS, last))
    since = until - WINDOWS * baseline.HOUR
    rollups = lake.read(spark, ROLLUPS, line=ROLLUP_LINE, since=since, before=until)
    places = place_of(np.array(hours, dtype=np.int64)).tolist()
    norms = baseline.thresholds(spark, lake).where(F.col("hour_of_week").isin(places))
    found = judged(
        (row.asDict() for row in hourly(rollups).collect()), (row.asDict() for row in norms.collect()), hours
    )
    why = "" if found.metrics else "no metric has both a value and a limit in these hours: norms need three weeks"
    return Judgement(until, *found, why)
