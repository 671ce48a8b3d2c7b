"""``rollup``: trace events as they come, into the lake's tables, exactly once in effect.

A batch of the stream makes two commits of the lake that its number names: first what it read, then the rollups of that.
A batch that Spark repeats after a crash finds its commits published, or makes them anew. Repeats of a block are left
out by Spark's state, for a time that is counted from when it was read: a watermark on the events' own times would
silently drop what a partition brings that lags behind the others.
"""

from __future__ import annotations

import datetime as dt
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Final, NamedTuple

import msgspec
from pyspark.errors import StreamingQueryException
from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from pipeline.errors import JobFailed
from pipeline.lake.batches import batch_name, batches_of, is_joined
from pipeline.lake.lake import Commit, Lake
from pipeline.lake.manifest import Manifest
from pipeline.schemas import BLOCKS, EVENTS, LEDGER, PROGRESS, QUALITY, ROLLUPS, SIDE
from pipeline.transforms.blocks import (
    FUTURE,
    GOOD,
    LATE,
    Allowance,
    blocks_of,
    events_of,
    ledger_of,
    malformed_of,
    misdated,
    parsed,
)
from pipeline.transforms.freshness import HAPPENED, Freshness, freshness, happened, read_points
from pipeline.transforms.quality import checks
from pipeline.transforms.rolling import rolled_up
from pipeline.watching import BatchProgress, Watcher

READ_VERSION: Final = 1
ROLLUP_VERSION: Final = 1
READ_LINE: Final = f"read-v{READ_VERSION}"
"""The line of what was read: a greater version starts from a new checkpoint."""
ROLLUP_LINE: Final = f"rollup-v{ROLLUP_VERSION}"
"""The line of the rollups: a greater version is built from what was read, all of it (``rebuild``)."""
_READ: Final = "read_at"
_LOOK_S: Final = 1
_LAST_BATCH_S: Final = 20.0
_LAST_WORD_S: Final = 10.0
_LEFT: Final = f"_progress/{READ_LINE}.json"
_STREAM: Final = "sql.streaming.queryId"
"""Spark's local property and our fact: the id that a checkpoint gives its stream."""


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


class Batch(NamedTuple):
    """A batch of which both commits are published.

    Attributes
    ----------
    read, rolled
        What it read, and the rollups of that.
    repeated
        Whether an earlier run of the stream had published both.
    """

    read: Manifest
    rolled: Manifest
    repeated: bool

    @property
    def number(self) -> int:
        """Spark's number of it."""
        return int(self.read.name)

    @property
    def verdicts(self) -> dict[str, int]:
        """How many of its events are good, late and future-dated."""
        return {GOOD: 0, LATE: 0, FUTURE: 0, **self.read.facts.get(_VERDICTS, {})}

    @property
    def freshness(self) -> Freshness | None:
        """How old its good events were when their rollups could be read; None when it has none."""
        return freshness(self.verdicts[GOOD], self.read.facts.get(HAPPENED, ()), self.rolled.published)


class Stream:
    """The running stream.

    Attributes
    ----------
    query
        Spark's query.
    """

    def __init__(self, query: StreamingQuery, spark: SparkSession, watcher: Watcher, sink: _Sink) -> None:
        self.query = query
        self._spark = spark
        self._watcher = watcher
        self._sink = sink

    def wait(self, asked: threading.Event | None = None) -> None:
        """Return when the stream has ended, by itself or because ``asked`` was set.

        One that was asked to end does so between two batches, or in the middle of one that goes on for longer than
        20 s: it is read again by the next start, as after a kill.

        Raises
        ------
        StreamingQueryException
            The source or the checkpoint failed. What was committed stays, and the next start goes on behind it.
        JobFailed
            The checkpoint is not the lake's, or Spark left lines out, for the clock of this machine went back.
        Exception
            What else kept a batch from being published; it is read again by the next start.
        """
        try:
            while not self.query.awaitTermination(_LOOK_S):
                if self._watcher.dropped or (asked is not None and asked.is_set()):
                    self._end()
        except StreamingQueryException:
            if self._sink.failure is not None:
                raise self._sink.failure from None
            raise
        finally:
            self._watcher.ended.wait(_LAST_WORD_S)
            self._spark.streams.removeListener(self._watcher)
        self._sink.close()
        if self._watcher.dropped:
            raise JobFailed(
                f"Spark left out {self._watcher.dropped} lines as read long ago, and they are not in this lake: "
                "the clock of this machine went back by hours, or was ahead before",
                hint="set the clock, and read the source again into another lake",
            )

    def _end(self) -> None:
        deadline, batch = time.monotonic() + _LAST_BATCH_S, self._ended_batch()
        while self.query.status["isTriggerActive"] and self._ended_batch() == batch and time.monotonic() < deadline:
            if self.query.awaitTermination(_LOOK_S):
                return
        self.query.stop()

    def _ended_batch(self) -> object:
        progress = self.query.lastProgress
        return progress and progress["batchId"]


def start(
    spark: SparkSession,
    lake: Lake,
    lines: DataFrame,
    plan: Plan,
    *,
    done: Callable[[Batch], None] | None = None,
    progressed: Callable[[BatchProgress], None] | None = None,
) -> Stream:
    """Start the stream over lines (``pipeline.sources.lines``).

    ``done`` is told of each batch once its commits are published, ``progressed`` what Spark says of it then.
    """
    spark.conf.set("spark.sql.shuffle.partitions", str(plan.partitions))
    watcher = Watcher(progressed)
    sink = _Sink(lake, plan.allowance, watcher, done)
    spark.streams.addListener(watcher)
    writer = (
        _once(lines, plan.repeats)
        .writeStream.queryName("rollup")
        .foreachBatch(sink.write)
        .option("checkpointLocation", f"{plan.checkpoint}/{READ_LINE}")
    )
    pace = {"processingTime": f"{plan.every} seconds"} if plan.every else {"availableNow": True}
    return Stream(writer.trigger(**pace).start(), spark, watcher, sink)


def roll_up(spark: SparkSession, lake: Lake, read: Manifest) -> Manifest | None:
    """Publish the rollups of what a commit read; None when they were published before."""
    commit = lake.begin(ROLLUP_LINE, read.name)
    if commit is None:
        return None
    events = lake.rows(spark, EVENTS, read.tables.get(EVENTS.name, ()))
    commit.stage(ROLLUPS, rolled_up(events.where(F.col("verdict") == GOOD)), files=1)
    return lake.publish(commit)


def rebuild(spark: SparkSession, lake: Lake, done: Callable[[int, int], None] | None = None) -> int:
    """Publish the rollups of every commit that has none of this version yet; return of how many.

    ``done`` is told how many of how many there are so far.
    """
    known = batches_in(each.name for each in lake.manifests(ROLLUP_LINE))
    missing = [each for each in lake.manifests(READ_LINE) if known.isdisjoint(batches_of(each.name))]
    for number, manifest in enumerate(missing, start=1):
        roll_up(spark, lake, manifest)
        if done is not None:
            done(number, len(missing))
    return len(missing)


def batches_in(names: Iterable[str]) -> set[int]:
    """Return the numbers of the batches of commits."""
    return {number for name in names for number in batches_of(name)}


def _once(lines: DataFrame, repeats: int) -> DataFrame:
    """Leave out lines that were read before."""
    named = parsed(lines).drop("block").withColumn(_READ, F.current_timestamp())
    return named.withWatermark(_READ, f"{repeats} seconds").dropDuplicatesWithinWatermark(["emitter", "seq"])


class _Sink:
    """Takes the batches, one after the other, as often as Spark may give them.

    Attributes
    ----------
    failure
        What kept the last batch from being published.
    """

    def __init__(
        self, lake: Lake, allowance: Allowance, watcher: Watcher, done: Callable[[Batch], None] | None
    ) -> None:
        self.failure: Exception | None = None
        self._lake = lake
        self._allowance = allowance
        self._watcher = watcher
        self._done = done
        self._fresh: dict[int, Freshness | None] = {}
        self._joined = batches_in(each for each in lake.names(READ_LINE) if is_joined(each))

    def write(self, rows: DataFrame, number: int) -> None:
        """Publish what a batch brought, then the rollups of it; what was published before is left as it is."""
        try:
            self._write(rows, number)
        except Exception as error:
            self.failure = error  # Spark tells of it in the middle of a text
            raise

    def close(self) -> None:
        """Keep what Spark said of the last batches for the next run, which writes it down with its first batch."""
        rows = self._progress()
        if rows:
            self._lake.storage.write(_LEFT, msgspec.json.encode(rows))

    def _write(self, rows: DataFrame, number: int) -> None:
        read = self._read(rows, number)
        rolled = roll_up(rows.sparkSession, self._lake, read)
        batch = Batch(read, rolled or self._lake.manifest(ROLLUP_LINE, read.name), repeated=rolled is None)
        self._fresh[number] = batch.freshness
        if self._done is not None:
            self._done(batch)

    def _read(self, rows: DataFrame, number: int) -> Manifest:
        name, stream = batch_name(number), rows.sparkSession.sparkContext.getLocalProperty(_STREAM)
        commit = self._lake.begin(READ_LINE, name)
        found = self._lake.manifest(READ_LINE, name) if commit is None else None
        if number in self._joined or (found is not None and found.facts.get(_STREAM, stream) != stream):
            raise JobFailed(
                f"batch {number} is in the lake already: this checkpoint is not the one that the lake was written with",
                hint="give that one (--checkpoint), or begin another lake",
            )
        if commit is None:
            return self._lake.manifest(READ_LINE, name)
        started = time.monotonic()
        seen = _stage(self._lake, commit, rows, self._allowance)
        now = dt.datetime.now(dt.UTC)
        commit.put(QUALITY, [{"batch": number, "measured": now, **row} for row in _quality(seen)])
        commit.put(PROGRESS, [*self._left(), *self._progress()])
        facts = {
            "seconds": round(time.monotonic() - started, 3),
            _STREAM: stream,
            _VERDICTS: {verdict: seen[verdict] for verdict in (GOOD, LATE, FUTURE)},
            HAPPENED: read_points(seen[HAPPENED]),
        }
        return self._lake.publish(commit, facts=facts)

    def _progress(self) -> list[dict[str, Any]]:
        return [self._progress_row(each) for each in self._watcher.take()]

    def _progress_row(self, progress: BatchProgress) -> dict[str, Any]:
        fresh = self._fresh.pop(progress.batch, None)
        return {**progress.row(), **(fresh.row() if fresh is not None else {})}

    def _left(self) -> list[dict[str, Any]]:
        """Take what an earlier run kept; at worst, after a kill, it is lost."""
        if not self._lake.storage.exists(_LEFT):
            return []
        rows: list[dict[str, Any]] = msgspec.json.decode(self._lake.storage.read(_LEFT))
        self._lake.storage.remove(_LEFT)
        return [{**row, "measured": dt.datetime.fromisoformat(row["measured"])} for row in rows]


def _stage(lake: Lake, commit: Commit, rows: DataFrame, allowance: Allowance) -> dict[str, Any]:
    """Stage the tables of what a batch brought, and return what was counted on the way."""
    kept = rows.drop(_READ).persist()  # asking for it twice would run the state twice
    try:
        lines, seen = parsed(kept), Observation()
        commit.stage(EVENTS, events_of(lines, allowance).observe(seen, *_counts()))
        events = lake.rows(rows.sparkSession, EVENTS, commit.staged(EVENTS))
        small = [partial(commit.stage, BLOCKS, blocks_of(lines), files=1)]
        small.append(partial(commit.stage, LEDGER, ledger_of(lines), files=1))
        small.append(partial(commit.stage, SIDE, malformed_of(lines).unionByName(misdated(events)), files=1))
        with ThreadPoolExecutor() as pool:  # each is mostly Spark's waiting for itself
            for each in [pool.submit(stage) for stage in small]:
                each.result()
    finally:
        kept.unpersist()
    return seen.get


_ROWS: Final = "rows"
_VERDICTS: Final = "verdicts"


def _counts() -> list[Column]:
    verdict = F.col("verdict")
    broken = [F.count_if(~condition).alias(name) for name, condition in checks().items()]
    judged = [F.count_if(verdict == each).alias(each) for each in (GOOD, LATE, FUTURE)]
    return [F.count(F.lit(1)).alias(_ROWS), *broken, *judged, happened(verdict == GOOD).alias(HAPPENED)]


def _quality(seen: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"check": name, "rows": seen[_ROWS], "broken": seen[name]} for name in checks()]
