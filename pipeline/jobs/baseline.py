"""``baseline``: what is usual in each hour of the week, from the rollups of past weeks, as limits for alarms."""

from __future__ import annotations

import datetime as dt
import hashlib
from typing import Final, NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from pipeline.errors import JobFailed
from pipeline.lake.batches import ROLLUP_LINE
from pipeline.lake.lake import Lake
from pipeline.lake.manifest import DataFile
from pipeline.schemas import ROLLUPS, THRESHOLDS
from pipeline.transforms.hourly import hourly
from pipeline.transforms.norming import backtested, normed

VERSION: Final = 1
LINE: Final = f"baseline-v{VERSION}"
HOUR: Final = dt.timedelta(hours=1)


class Span(NamedTuple):
    """The weeks that norms are made from; ``before`` is exclusive and a whole hour."""

    before: dt.datetime
    weeks: int

    @property
    def since(self) -> dt.datetime:
        """The start of the first week."""
        return self.before - dt.timedelta(weeks=self.weeks)


def last_hour(lake: Lake) -> dt.datetime | None:
    """Return the end of the last whole hour of the rollups, from their files; None when there are none.

    The hour of the latest rollup is left out: more of it may follow.
    """
    greatest = max(
        (file.greatest for file in lake.files(ROLLUPS, line=ROLLUP_LINE) if file.greatest is not None), default=None
    )
    if greatest is None:
        return None
    latest = dt.datetime.fromtimestamp(greatest / 1_000_000, dt.UTC)
    return latest.replace(minute=0, second=0, microsecond=0)


def may_have_hours(lake: Lake, span: Span) -> bool:
    """Whether there may be rollups of a span, by the first and last times of the files."""
    return bool(_files(lake, span))


def history(spark: SparkSession, lake: Lake, span: Span) -> DataFrame:
    """Return the hours of all series in a span (``transforms.hourly``)."""
    return hourly(lake.read(spark, ROLLUPS, line=ROLLUP_LINE, since=span.since, before=span.before))


def norms_at(hours: DataFrame, span: Span) -> DataFrame:
    """Return the norms of hours (``schemas.THRESHOLDS``)."""
    return normed(hours).withColumn("computed", F.lit(span.before))


def publish(lake: Lake, hours: DataFrame, span: Span, now: int) -> None:
    """Publish the norms of hours in place of all published before, unless they are from the same files as those.

    If norms of this span were published before, and then replaced or outdated by later rollups, the new commit is named
    with ``now`` (ms) too.

    Raises
    ------
    JobFailed
        There are no hours; the norms in force stay.
    """
    facts = {"since": span.since.isoformat(), "before": span.before.isoformat(), "read": _digest(lake, span)}
    older = lake.manifests(LINE)
    if any(manifest.facts == facts for manifest in older):
        return
    if hours.isEmpty():
        raise JobFailed(
            f"nothing was rolled up in {span.weeks} weeks before {span.before:%Y-%m-%dT%H:%MZ}; norms in force stay",
            hint="end the history elsewhere (--before)",
        )
    name = f"{span.before:%Y%m%dT%H}-{span.weeks}w"
    commit = lake.begin(LINE, name) or lake.begin(LINE, f"{name}-{now}")
    if commit is None:
        return
    commit.stage(THRESHOLDS, norms_at(hours, span), files=1)
    lake.publish(commit, replaces=[manifest.name for manifest in older], facts=facts)


def _digest(lake: Lake, span: Span) -> str:
    """Return a digest of the paths of a span's files."""
    paths = sorted(file.path for file in _files(lake, span))
    return hashlib.sha256("\n".join(paths).encode()).hexdigest()[:16]


def _files(lake: Lake, span: Span) -> list[DataFile]:
    return lake.files(ROLLUPS, line=ROLLUP_LINE, since=span.since, before=span.before)


def thresholds(spark: SparkSession, lake: Lake) -> DataFrame:
    """Return the norms in force (``schemas.THRESHOLDS``)."""
    return lake.read(spark, THRESHOLDS, line=LINE)


def backtest(hours: DataFrame, *, seed: int, weeks: int) -> DataFrame:
    """Return the scores of faults that were put into the past (``transforms.norming.SCORES``)."""
    return backtested(hours, seed=seed, weeks=weeks)
