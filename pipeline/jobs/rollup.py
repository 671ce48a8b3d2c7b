"""``rollup``: trace events as they come, into the lake's tables, exactly once in effect.

A batch of the stream makes two commits of the lake that its number names: first what it read, then the rollups of that.
A batch that Spark repeats after a crash finds its commits published, or makes them anew. Repeats of a block are left
out by Spark's state, for a time that is counted from when it was read: a watermark on the events' own times would
silently drop what a partition brings that lags behind the others.
"""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Final, NamedTuple

from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from pipeline.lake.lake import Lake
from pipeline.lake.manifest import Manifest
from pipeline.schemas import BLOCKS, EVENTS, LEDGER, PROGRESS, QUALITY, ROLLUPS, SIDE
from pipeline.transforms.blocks import (
    GOOD,
    Allowance,
    blocks_of,
    events_of,
    ledger_of,
    malformed_of,
    misdated,
    parsed,
)
from pipeline.transforms.quality import checks
from pipeline.transforms.rolling import rolled_up
from pipeline.watching import Watcher

READ_VERSION: Final = 1
ROLLUP_VERSION: Final = 1
READ_LINE: Final = f"read-v{READ_VERSION}"
"""The line of what was read: a greater version starts from a new checkpoint."""
ROLLUP_LINE: Final = f"rollup-v{ROLLUP_VERSION}"
"""The line of the rollups: a greater version is built from what was read, all of it (``rebuild``)."""
_READ: Final = "read_at"


class Plan(NamedTuple):
    """How the stream runs.

    Attributes
    ----------
    checkpoint
        Folder in which Spark keeps its progress; that of this version of the job is below it.
    every
        Seconds from one batch to the next; 0 ends the stream once all that is there was read.
    repeats
        Seconds for which a block that is read again is recognised.
    allowance
        Which events are late, and which future-dated.
    partitions
        Over how many tasks a batch is shuffled, and its state kept; the first start of a checkpoint fixes it.
    """

    checkpoint: str
    every: float = 5.0
    repeats: int = 6 * 3600
    allowance: Allowance = Allowance()
    partitions: int = 4


class Stream:
    """The running stream.

    Attributes
    ----------
    query
        Spark's query; it ends with ``StreamingQueryException`` when a source, the checkpoint or the lake fails. What
        was committed stays, and the next start goes on behind it.
    """

    def __init__(self, query: StreamingQuery, spark: SparkSession, watcher: Watcher) -> None:
        self.query = query
        self._spark = spark
        self._watcher = watcher

    def wait(self) -> None:
        """Return when the stream has ended; raises ``StreamingQueryException``."""
        try:
            self.query.awaitTermination()
        finally:
            self._spark.streams.removeListener(self._watcher)


def start(
    spark: SparkSession, lake: Lake, lines: DataFrame, plan: Plan, done: Callable[[Manifest], None] | None = None
) -> Stream:
    """Start the stream over lines (``pipeline.sources.lines``); ``done`` is told the first commit of each batch."""
    spark.conf.set("spark.sql.shuffle.partitions", str(plan.partitions))
    watcher = Watcher()
    spark.streams.addListener(watcher)

    def write(batch: DataFrame, number: int) -> None:
        manifest = _read(lake, batch, number, plan.allowance, watcher)
        roll_up(batch.sparkSession, lake, manifest)
        if done is not None:
            done(manifest)

    writer = (
        _once(lines, plan.repeats)
        .writeStream.queryName("rollup")
        .foreachBatch(write)
        .option("checkpointLocation", f"{plan.checkpoint}/{READ_LINE}")
    )
    pace = {"processingTime": f"{plan.every} seconds"} if plan.every else {"availableNow": True}
    return Stream(writer.trigger(**pace).start(), spark, watcher)


def roll_up(spark: SparkSession, lake: Lake, read: Manifest) -> None:
    """Publish the rollups of what a commit read, unless they were published before."""
    commit = lake.begin(ROLLUP_LINE, read.name)
    if commit is None:
        return
    events = lake.rows(spark, EVENTS, read.tables.get(EVENTS.name, ()))
    commit.stage(ROLLUPS, rolled_up(events.where(F.col("verdict") == GOOD)), files=1)
    lake.publish(commit)


def rebuild(spark: SparkSession, lake: Lake, done: Callable[[int, int], None] | None = None) -> int:
    """Publish the rollups of every commit that has none of this version yet; return of how many.

    ``done`` is told how many of how many there are so far.
    """
    known = {manifest.name for manifest in lake.manifests(ROLLUP_LINE)}
    missing = [manifest for manifest in lake.manifests(READ_LINE) if manifest.name not in known]
    for number, manifest in enumerate(missing, start=1):
        roll_up(spark, lake, manifest)
        if done is not None:
            done(number, len(missing))
    return len(missing)


def _once(lines: DataFrame, repeats: int) -> DataFrame:
    """Leave out lines that were read before."""
    named = parsed(lines).drop("block").withColumn(_READ, F.current_timestamp())
    return named.withWatermark(_READ, f"{repeats} seconds").dropDuplicatesWithinWatermark(["emitter", "seq"])


def _read(lake: Lake, batch: DataFrame, number: int, allowance: Allowance, watcher: Watcher) -> Manifest:
    """Publish what a batch brought, unless it was published before."""
    name = f"{number:012d}"
    commit = lake.begin(READ_LINE, name)
    if commit is None:
        return lake.manifest(READ_LINE, name)
    started = time.monotonic()
    kept = batch.drop(_READ).persist()  # asking for it twice would run the state twice
    try:
        lines, seen = parsed(kept), Observation()
        counted = events_of(lines, allowance).observe(seen, *_counts())
        commit.stage(EVENTS, counted)
        events = lake.rows(batch.sparkSession, EVENTS, commit.staged(EVENTS))
        small = [partial(commit.stage, BLOCKS, blocks_of(lines), files=1)]
        small.append(partial(commit.stage, LEDGER, ledger_of(lines), files=1))
        small.append(partial(commit.stage, SIDE, malformed_of(lines).unionByName(misdated(events)), files=1))
        with ThreadPoolExecutor() as pool:  # each is mostly Spark's waiting for itself
            for each in [pool.submit(stage) for stage in small]:
                each.result()
    finally:
        kept.unpersist()
    now = dt.datetime.now(dt.UTC)
    commit.put(QUALITY, [{"batch": number, "measured": now, **row} for row in _quality(seen.get)])
    commit.put(PROGRESS, [progress.row() for progress in watcher.take()])
    return lake.publish(commit, facts={"seconds": round(time.monotonic() - started, 3)})


_ROWS: Final = "rows"


def _counts() -> list[Column]:
    broken = [F.count_if(~condition).alias(name) for name, condition in checks().items()]
    return [F.count(F.lit(1)).alias(_ROWS), *broken]


def _quality(seen: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"check": name, "rows": seen[_ROWS], "broken": seen[name]} for name in checks()]
