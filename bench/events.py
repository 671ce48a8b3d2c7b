"""``python -m bench.events --lake LAKE [--count N]``: trace events of days as they are in life, as a lake's tables.

With ``--lines FOLDER`` also as the lines that emitters write, for the stream.
"""

from __future__ import annotations

import argparse
import datetime as dt
import sys
import time
from zlib import crc32

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from bench.trace_day import Traffic, blocks_of_events, events_of_days, ledger_of_events
from bus.errors import ConfigurationError
from pipeline.lake.batches import READ_LINE, ROLLUP_LINE, batch_name
from pipeline.lake.lake import Lake
from pipeline.lake.storage import Storage
from pipeline.schemas import BLOCKS, EVENTS, LEDGER, ROLLUPS
from pipeline.session import open_session
from pipeline.transforms.rolling import rolled_up
from pipeline.wire import WIRE_EVENT, WIRE_LEDGER

LINE = READ_LINE
_GENERATED = "generated"
MONDAY = dt.datetime(2026, 3, 2, tzinfo=dt.UTC)


def generate(spark: SparkSession, lake: Lake, traffic: Traffic, *, ledger: bool = True) -> DataFrame:
    """Publish the events of some days in the lake and return them; those that are there already are left.

    They are a batch of the stream's own line, since jobs read no other; its number follows from what it is made of.
    Raises as ``check_lake`` does.
    """
    check_lake(lake)
    commit = lake.begin(LINE, _batch(traffic))
    if commit is not None:
        commit.stage(EVENTS, events_of_days(spark, traffic))
        events = lake.rows(spark, EVENTS, commit.staged(EVENTS))
        if ledger:
            commit.stage(LEDGER, ledger_of_events(events))
            commit.stage(BLOCKS, blocks_of_events(events), files=1)
        lake.publish(commit, facts={_GENERATED: True})
    return lake.read(spark, EVENTS, line=LINE)


def check_lake(lake: Lake) -> None:
    """Raise ``ConfigurationError`` for the lake of a stream, whose newest batch these events would be taken for."""
    if any(not each.facts.get(_GENERATED) for each in lake.manifests(LINE)):
        raise ConfigurationError(f"{lake.storage.root} is the lake of a stream", hint="name a folder that is not there")


def roll_up_hours(lake: Lake, events: DataFrame, traffic: Traffic) -> None:
    """Publish rollups of whole hours: what a history of weeks needs, at a sixtieth of the rows."""
    commit = lake.begin(ROLLUP_LINE, _batch(traffic))
    if commit is not None:
        commit.stage(ROLLUPS, rolled_up(events.withColumn("minute", F.date_trunc("hour", "minute"))), files=1)
        lake.publish(commit)


def _batch(traffic: Traffic) -> str:
    return batch_name(crc32(repr(traffic).encode()))


def lines_of(events: DataFrame) -> DataFrame:
    """Return the lines (``value``) of events, each a block with its share of the ledger."""
    key = ("emitter", "seq")
    wire = F.struct("position", *[_on_the_wire(field.name) for field in WIRE_EVENT.fields])
    blocks = events.groupBy(*key).agg(
        F.array_sort(F.collect_list(wire)).alias("events"),
        F.unix_millis(F.max("arrived")).alias("at"),
        F.max("node").alias("node"),
    )
    row = F.struct(*[_on_the_wire(field.name) for field in WIRE_LEDGER.fields])
    ledger = ledger_of_events(events).groupBy(*key).agg(F.collect_list(row).alias("ledger"))
    in_order = F.row_number().over(Window.partitionBy("emitter").orderBy("seq"))
    whole = blocks.join(ledger, [*key]).withColumn("seq", in_order)
    block = F.struct(
        F.lit(1).alias("v"),
        "emitter",
        F.lit("receiver+dispatcher").alias("role"),
        "node",
        "seq",
        "at",
        F.lit(0).alias("lost"),
        F.transform("events", lambda event: event.dropFields("position")).alias("events"),
        "ledger",
    )
    return whole.select(F.to_json(block).alias("value"))


def _on_the_wire(name: str) -> Column:
    return F.unix_millis(name).alias(name) if name in {"at", "minute"} else F.col(name)


def parse() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.events", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--lake", required=True, help="folder of the lake")
    parser.add_argument("--count", type=int, default=1_000_000, help="of events, nearly")
    parser.add_argument("--days", type=int, default=1)
    parser.add_argument("--start", type=dt.datetime.fromisoformat, default=MONDAY, help="first day (UTC)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--lost", type=int, default=0, help="one in so many deliveries has no event of its end")
    parser.add_argument("--bare", action="store_true", help="events only, neither ledger nor blocks")
    parser.add_argument("--lines", metavar="FOLDER", help="write the lines of emitters there, too")
    parser.add_argument("--hours", action="store_true", help="publish rollups by hour, too: a history for baseline")
    return parser.parse_args()


def main() -> int:
    given = parse()
    start = given.start if given.start.tzinfo else given.start.replace(tzinfo=dt.UTC)
    traffic = Traffic(given.count, start, given.days, given.seed, given.lost)
    lake = Lake(Storage(given.lake))
    try:
        check_lake(lake)
    except ConfigurationError as error:
        sys.exit(f"error: {error} (hint: {error.hint})")
    spark = open_session("events", memory="3g")
    began = time.monotonic()
    events = generate(spark, lake, traffic, ledger=not given.bare)
    if given.hours:
        roll_up_hours(lake, events, traffic)
    if given.lines:
        lines_of(events).write.mode("overwrite").option("compression", "none").text(given.lines)
    print(f"{events.count()} events of {given.days} days in {given.lake}, {time.monotonic() - began:.0f} s")
    spark.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
