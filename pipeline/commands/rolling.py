"""``bus pipeline rollup``."""

from __future__ import annotations

import sys
import threading
from contextlib import nullcontext
from typing import Any, Final, NamedTuple

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from bus.cli.output import print_json_line
from bus.errors import ConfigurationError
from pipeline.commands.looking import check_events, check_lake, has_few_lines
from pipeline.ending import ended_by_signals
from pipeline.errors import JobFailed, line_of
from pipeline.jobs.batch import Batch
from pipeline.jobs.rollup import Plan, start
from pipeline.lake.lake import Lake
from pipeline.lake.locking import alone
from pipeline.lake.storage import Storage
from pipeline.metrics import StreamMetrics, serve
from pipeline.object_store import is_object_store
from pipeline.options import SessionOptions
from pipeline.schemas import EVENTS, SIDE
from pipeline.session import running
from pipeline.sources.lines import from_files, from_kafka
from pipeline.transforms.blocks import Allowance

_GAP: Final = ("may have been lost", "may have been missed", "KAFKA_DATA_LOSS")  # what Spark says of one


class RollupOptions(NamedTuple):
    """The arguments of the command; ``metrics`` is the address where they are served.

    ``accept_gap`` skips records that Kafka does not have any more.
    """

    lake: str
    events: str | None
    kafka: str | None
    topic: str
    checkpoint: str
    every: float
    batch: float
    partitions: int
    late: int
    metrics: tuple[str, int] | None = None
    accept_gap: bool = False


def run(options: RollupOptions, session: SessionOptions, *, as_json: bool) -> None:
    """Run the stream until it has read all, or until a signal ends it between two batches."""
    if (options.events is None) == (options.kafka is None):
        raise ConfigurationError("name one source", hint="--events DATA/events, or --kafka HOST:PORT")
    if options.kafka is not None and session.connectors is None:
        raise ConfigurationError(
            "Kafka needs Spark's connector", hint="bus pipeline connectors jars; --connectors jars"
        )
    if options.accept_gap and options.kafka is None:
        raise ConfigurationError("--accept-gap is for a gap in Kafka", hint="leave it out for files")
    for place in (options.checkpoint, options.events or ""):
        if is_object_store(place) and not is_object_store(options.lake):
            raise ConfigurationError(f"{place} is in an object store, and the lake is not", hint="have both in one")
    check_events(options.events)
    check_lake(options.lake)
    metrics, small = StreamMetrics(), not options.every and has_few_lines(options.events)
    with (
        ended_by_signals() as asked,
        alone(options.lake),
        serve(metrics, *options.metrics) if options.metrics is not None else nullcontext(),
        running("rollup", session, options.lake, small=small) as spark,
    ):
        _run(options, metrics, spark, asked, as_json=as_json)


def _run(
    options: RollupOptions, metrics: StreamMetrics, spark: SparkSession, asked: threading.Event, *, as_json: bool
) -> None:
    allowance = Allowance(late=options.late)
    plan = Plan(options.checkpoint, options.every, allowance=allowance, partitions=options.partitions)

    def done(batch: Batch) -> None:
        metrics.committed(batch)
        _tell(batch, as_json)

    lines, lake = _lines(spark, options), Lake(Storage(options.lake))
    stream = start(spark, lake, lines, plan, done=done, progressed=metrics.progressed)
    try:
        stream.wait(asked)
    except (PySparkException, OSError) as error:
        cause = error.__cause__ if isinstance(error.__cause__, Exception) else error
        raise JobFailed(
            f"the stream stopped: {line_of(cause)}; what was committed stays",
            hint=hint_of(line_of(cause)),
        ) from error


def hint_of(cause: str) -> str:
    """Return advice on the cause that stopped a stream."""
    if any(word in cause for word in _GAP):
        return (
            "once with --accept-gap it goes on behind what Kafka does not have any more; reconcile then tells the gap"
        )
    return "mend the cause and start it again: it goes on behind the last commit"


def _lines(spark: SparkSession, options: RollupOptions) -> DataFrame:
    if options.kafka is not None:
        return from_kafka(spark, options.kafka, options.topic, batch=options.batch, accept_gap=options.accept_gap)
    return from_files(spark, options.events or "", batch=options.batch)


def _tell(batch: Batch, as_json: bool) -> None:
    if as_json:
        print_json_line(told_of_batch(batch))
    else:
        sys.stderr.write(f"{line_of_batch(batch)}\n")


def told_of_batch(batch: Batch) -> dict[str, Any]:
    """Return the report of a batch for programs."""
    events, side = batch.read.rows(EVENTS.name), batch.read.rows(SIDE.name)
    told = {"batch": batch.number, "events": events, "side": side, "seconds": batch.read.facts["seconds"]}
    fresh = batch.freshness
    return told | {"freshness_s": fresh.told() if fresh is not None else None, "repeated": batch.repeated}


def line_of_batch(batch: Batch) -> str:
    """Return the report of a batch for people."""
    told, fresh = told_of_batch(batch), batch.freshness
    words = [f"{told['events']} events", f"{told['side']} to the side", f"{told['seconds']} s"]
    if fresh is not None:
        words.append(f"freshness p50 {fresh.p50:.1f} s, p95 {fresh.p95:.1f} s")
    if batch.repeated:
        words.append("was published before")
    return f"batch {batch.number}: {', '.join(words)}"
