"""``bus pipeline rollup``."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import NamedTuple

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from bus.cli.output import print_json_line
from bus.errors import ConfigurationError
from pipeline.errors import JobFailed
from pipeline.jobs.rollup import Plan, start
from pipeline.lake.lake import Lake
from pipeline.lake.manifest import Manifest
from pipeline.lake.storage import Storage
from pipeline.options import ConnectedOptions
from pipeline.schemas import EVENTS, SIDE
from pipeline.session import running
from pipeline.sources.lines import from_files, from_kafka
from pipeline.transforms.blocks import Allowance


class RollupOptions(NamedTuple):
    """What the command was given."""

    lake: str
    events: str | None
    kafka: str | None
    topic: str
    checkpoint: str
    every: float
    batch: float
    partitions: int
    late: int


def run(options: RollupOptions, session: ConnectedOptions, *, as_json: bool) -> None:
    """Run the stream until it has read all, or until a signal ends it between two batches."""
    if (options.events is None) == (options.kafka is None):
        raise ConfigurationError("name one source", hint="--events DATA/events, or --kafka HOST:PORT")
    if options.kafka is not None and session.connectors is None:
        raise ConfigurationError(
            "Kafka needs Spark's connector", hint="bus pipeline connectors jars; --connectors jars"
        )
    allowance = Allowance(late=options.late)
    plan = Plan(options.checkpoint, options.every, allowance=allowance, partitions=options.partitions)
    with running("rollup", session) as spark:
        stream = start(spark, Lake(Storage(options.lake)), _lines(spark, options), plan, _tell(as_json))
        _stop_on_signals(stream.query)
        try:
            stream.wait()
        except StreamingQueryException as error:
            raise JobFailed(
                f"the stream stopped: {str(error).splitlines()[0]}; what was committed stays",
                hint="mend the cause and start it again: it goes on behind the last commit",
            ) from error


def _lines(spark: SparkSession, options: RollupOptions) -> DataFrame:
    if options.kafka is not None:
        return from_kafka(spark, options.kafka, options.topic, batch=options.batch)
    folder = options.events or ""
    if "://" not in folder and not Path(folder).is_dir():
        raise ConfigurationError(
            f"{folder} is no folder; a bus writes its trace events to DATA/events", hint="start it with events = files"
        )
    return from_files(spark, folder, batch=options.batch)


def _tell(as_json: bool) -> Callable[[Manifest], None]:
    def tell(manifest: Manifest) -> None:
        events, side = manifest.rows(EVENTS.name), manifest.rows(SIDE.name)
        if as_json:
            print_json_line({"batch": int(manifest.name), "events": events, "side": side, **manifest.facts})
        else:
            sys.stderr.write(
                f"batch {int(manifest.name)}: {events} events, {side} to the side, {manifest.facts['seconds']} s\n"
            )

    return tell


def _stop_on_signals(query: StreamingQuery) -> None:
    def stop(_number: int, _frame: FrameType | None) -> None:
        query.stop()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)
