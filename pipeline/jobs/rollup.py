"""``rollup``: trace events as they come, into the lake's tables, exactly once in effect.

Each batch is one commit of the lake, named by the batch's number: a batch that Spark repeats after a crash finds its
commit published, or stages it anew. Repeats of a block are left out by Spark's state, for a time that is counted from
when it was read: a watermark on the events' own times would drop what a lagging partition brings, silently.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from pipeline.lake.lake import Commit, Lake
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
from pipeline.transforms.quality import checked
from pipeline.transforms.rolling import rolled_up
from pipeline.watching import Watcher

VERSION: Final = 1
LINE: Final = f"rollup-v{VERSION}"
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
    """

    checkpoint: str
    every: float = 5.0
    repeats: int = 6 * 3600
    allowance: Allowance = Allowance()


def start(
    spark: SparkSession, lake: Lake, lines: DataFrame, plan: Plan, done: Callable[[Manifest], None] | None = None
) -> StreamingQuery:
    """Start the stream over lines (``pipeline.sources.lines``); ``done`` is told each commit.

    The caller waits for the query, which ends with Spark's ``StreamingQueryException`` when a source, the checkpoint
    or the lake fails. Whatever was committed stays; the next start goes on behind it.
    """
    watcher = Watcher()
    spark.streams.addListener(watcher)

    def write(batch: DataFrame, number: int) -> None:
        manifest = _write(lake, batch, number, plan.allowance, watcher)
        if manifest is not None and done is not None:
            done(manifest)

    writer = (
        _once(lines, plan.repeats)
        .writeStream.queryName("rollup")
        .foreachBatch(write)
        .option("checkpointLocation", f"{plan.checkpoint}/{LINE}")
    )
    return (
        writer.trigger(processingTime=f"{plan.every} seconds") if plan.every else writer.trigger(availableNow=True)
    ).start()


def _once(lines: DataFrame, repeats: int) -> DataFrame:
    """Leave out lines that were read before."""
    named = parsed(lines).drop("block").withColumn(_READ, F.current_timestamp())
    return named.withWatermark(_READ, f"{repeats} seconds").dropDuplicatesWithinWatermark(["emitter", "seq"])


def _write(lake: Lake, batch: DataFrame, number: int, allowance: Allowance, watcher: Watcher) -> Manifest | None:
    commit = lake.begin(LINE, f"{number:012d}")
    if commit is None:
        return None
    started = time.monotonic()
    kept = batch.drop(_READ).persist()  # asking for it twice would run the state twice
    try:
        lines = parsed(kept)
        events = _staged(lake, commit, batch.sparkSession, events_of(lines, allowance))
        commit.stage(BLOCKS, blocks_of(lines), files=1)
        commit.stage(LEDGER, ledger_of(lines), files=1)
        commit.stage(SIDE, malformed_of(lines).unionByName(misdated(events)), files=1)
    finally:
        kept.unpersist()
    commit.stage(ROLLUPS, rolled_up(events.where(F.col("verdict") == GOOD)), files=1)
    commit.stage(
        QUALITY, checked(events).withColumns({"batch": F.lit(number), "measured": F.current_timestamp()}), files=1
    )
    commit.stage(PROGRESS, _progress(batch.sparkSession, watcher), files=1)
    return lake.publish(commit, facts={"seconds": round(time.monotonic() - started, 3)})


def _staged(lake: Lake, commit: Commit, spark: SparkSession, events: DataFrame) -> DataFrame:
    """Write the events and return them as read back: parsing JSON is the dearest step, and is done once."""
    folder = commit.stage(EVENTS, events)
    return spark.read.schema(EVENTS.schema).parquet(lake.storage.url(folder))


def _progress(spark: SparkSession, watcher: Watcher) -> DataFrame:
    wire = ", ".join(
        f"{field.name} {'bigint' if field.name != 'query' else 'string'}" for field in PROGRESS.schema.fields
    )
    return spark.createDataFrame(watcher.take(), wire).withColumn("measured", F.timestamp_millis("measured"))
