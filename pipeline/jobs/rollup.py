"""``rollup``: trace events as they come, into the lake's tables, exactly once in effect.

A batch of the stream makes two commits of the lake, named by its number: first what it read, then the rollups of that.
A batch that Spark repeats after a crash finds its commits published, or makes them anew. Repeats of a block are dropped
by Spark's state, for some time after the block was read: a watermark on the events' own times would silently drop the
events of a partition that lags behind the others.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final, NamedTuple

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from pipeline.errors import JobFailed
from pipeline.jobs.batch import READ_AT, Batch, Sink, roll_up
from pipeline.lake.batches import READ_LINE, ROLLUP_LINE, batches_in, batches_of
from pipeline.lake.lake import Lake
from pipeline.object_store import CHECKPOINTS, is_object_store
from pipeline.session import silent
from pipeline.transforms.blocks import Allowance, parsed
from pipeline.watching import BatchProgress, Watcher

_LOOK_S: Final = 1
_LAST_BATCH_S: Final = 20.0
_LAST_WORD_S: Final = 10.0


class Plan(NamedTuple):
    """The configuration of the stream.

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
        Spark's query.
    """

    def __init__(self, query: StreamingQuery, spark: SparkSession, watcher: Watcher, sink: Sink) -> None:
        self.query = query
        self._spark = spark
        self._watcher = watcher
        self._sink = sink

    def is_idle(self, within: float) -> bool:
        """Whether Spark looked in the last so many seconds, and had read all that there was."""
        said = self._watcher.idle_since
        return said is not None and time.monotonic() - said < within

    def wait(self, asked: threading.Event | None = None) -> None:
        """Return when the stream has ended, by itself or because ``asked`` was set.

        One that was asked to end does so between two batches, or in the middle of one that takes longer than
        20 s: it is read again by the next start, as after a kill.

        Raises
        ------
        StreamingQueryException
            The source, the checkpoint or a job of Spark failed, which is then its cause. What was committed stays, and
            the next start continues behind it.
        JobFailed
            The checkpoint is not the lake's, or Spark left lines out, for the clock of this machine went back.
        Exception
            What else kept a batch from being published; it is read again by the next start.
        """
        try:
            while not self.query.awaitTermination(_LOOK_S):
                if self._watcher.dropped or (asked is not None and asked.is_set()):
                    self._end()
        except StreamingQueryException as error:
            failure = self._sink.failure
            if failure is None or isinstance(failure, (Py4JError, PySparkException)):
                raise error from failure
            raise failure from None
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
        while self.query.status["isTriggerActive"] and self._ended_batch() == batch:
            if self.query.awaitTermination(_LOOK_S):
                return
            if time.monotonic() >= deadline:
                self.query.stop()
                return
        with silent(self._spark):  # the next batch may have begun already
            self.query.stop()
            self._watcher.ended.wait(_LAST_WORD_S)  # its tasks end by themselves

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

    ``done`` is called with each batch once its commits are published, ``progressed`` with Spark's figures of it then.
    """
    spark.conf.set("spark.sql.shuffle.partitions", str(plan.partitions))
    if is_object_store(plan.checkpoint):
        for name, value in CHECKPOINTS.items():
            spark.conf.set(name, value)
    watcher = Watcher(progressed)
    sink = Sink(lake, plan.allowance, watcher, done)
    spark.streams.addListener(watcher)
    writer = (
        _once(lines, plan.repeats)
        .writeStream.queryName("rollup")
        .foreachBatch(sink.write)
        .option("checkpointLocation", f"{plan.checkpoint}/{READ_LINE}")
    )
    pace = {"processingTime": f"{plan.every} seconds"} if plan.every else {"availableNow": True}
    try:
        return Stream(writer.trigger(**pace).start(), spark, watcher, sink)
    except BaseException:
        spark.streams.removeListener(watcher)
        raise


def rebuild(spark: SparkSession, lake: Lake, done: Callable[[int, int], None] | None = None) -> int:
    """Publish the rollups of every commit that has none of this version yet; return for how many.

    ``done`` is called with how many are done, and how many there are.
    """
    known = batches_in(each.name for each in lake.manifests(ROLLUP_LINE))
    missing = [each for each in lake.manifests(READ_LINE) if known.isdisjoint(batches_of(each.name))]
    for number, manifest in enumerate(missing, start=1):
        roll_up(spark, lake, manifest)
        if done is not None:
            done(number, len(missing))
    return len(missing)


def _once(lines: DataFrame, repeats: int) -> DataFrame:
    """Leave out lines that were read before."""
    named = parsed(lines).drop("block").withColumn(READ_AT, F.current_timestamp())
    return named.withWatermark(READ_AT, f"{repeats} seconds").dropDuplicatesWithinWatermark(["emitter", "seq"])
