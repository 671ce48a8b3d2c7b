import datetime as dt

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.testing import assertDataFrameEqual

from bench.events import MONDAY, generate, lines_of
from bench.proving import reconcile, search
from bench.trace_day import SENDERS, Traffic, events_of_days, ledger_of_events
from pipeline.lake.lake import Lake
from pipeline.lake.storage import Storage
from pipeline.transforms.blocks import Allowance, events_of, ledger_of, malformed_of, parsed

# What the proofs and measurements of the pipeline stand on; the product does not.
pytestmark = pytest.mark.proof
DAY = Traffic(6_000, MONDAY, seed=3)
KEY = ("emitter", "seq", "position")


@pytest.fixture(scope="module")
def events(spark: SparkSession) -> DataFrame:
    return events_of_days(spark, DAY).persist()


def test_a_day_is_as_large_as_asked_for_and_has_natural_keys(events):
    rows = events.agg(
        F.count("*").alias("rows"),
        F.countDistinct(*KEY).alias("keys"),
        F.countDistinct("destination").alias("destinations"),
        F.min("at").alias("first"),
        F.min(F.length("id")).alias("short"),
        F.sum((F.col("status") == "retrying").cast("int")).alias("retried"),
    ).first()
    assert abs(rows.rows / DAY.events - 1) < 0.15
    assert rows.keys == rows.rows
    assert rows.destinations >= len(SENDERS) - 2
    assert rows.first.replace(tzinfo=dt.UTC) >= MONDAY
    assert (rows.short, rows.retried > 5) == (36, True)


def test_the_same_seed_gives_the_same_events_whatever_the_partitions(spark, events):
    names = ("id", "subscription", "attempt", "status", "latency_us", *KEY)
    again = events_of_days(spark, DAY).repartition(3)
    assertDataFrameEqual(again.select(*names), events.select(*names))


def test_the_ledger_says_of_the_events_what_a_count_says(events):
    ledger = ledger_of_events(events).groupBy("stage").agg(F.sum("count").alias("n"), F.bit_xor("xor").alias("x"))
    counted = events.where("stage = 'settled' and status != 'retrying' or stage in ('sent', 'accepted', 'published')")
    stage = F.when(F.col("stage") == "settled", F.col("status")).otherwise(F.col("stage")).alias("stage")
    expected = events.select(F.lit("expected").alias("stage"), "id", F.explode("expected")).drop("col")
    rows = counted.select(stage, "id").unionByName(expected)
    alone = rows.groupBy("stage").agg(F.count("*").alias("n"), F.bit_xor(F.xxhash64("id")).alias("x"))
    assertDataFrameEqual(ledger, alone)


def test_lines_are_read_as_the_events_they_were_made_of(events):
    lines = parsed(lines_of(events).withColumn("arrived", F.lit(MONDAY + dt.timedelta(days=1)))).persist()
    allowed = Allowance(late=10**6, future=10**6)
    names = ("id", "stage", "subscription", "attempt", "status", "at", "bytes", "latency_us", "minute", "sent_minute")
    assertDataFrameEqual(events_of(lines, allowed).select(*names), events.select(*names))
    figures = ("stage", "destination", "subscription", "minute", "count", "xor", "sum", "latency")
    assertDataFrameEqual(ledger_of(lines).select(*figures), ledger_of_events(events).select(*figures))
    assert malformed_of(lines).isEmpty()


@pytest.mark.timeout(600)
def test_what_was_left_out_is_found_by_the_job_and_by_the_reference(spark, tmp_path):
    lost = DAY._replace(lost=60)
    generate(spark, Lake(Storage(str(tmp_path))), lost)
    gone = events_of_days(spark, DAY).count() - events_of_days(spark, lost).count()
    assert gone > 10
    _, found = reconcile(spark, tmp_path)
    assert found[1] == gone
    assert search(tmp_path)[1] == found
