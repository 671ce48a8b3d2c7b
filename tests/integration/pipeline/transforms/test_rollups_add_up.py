import datetime as dt
import math
import random
from collections import defaultdict

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from pipeline.schemas import EVENTS
from pipeline.transforms.blocks import Allowance, events_of, parsed
from pipeline.transforms.histogram import GREATEST_ERROR, bucket_of, quantile
from pipeline.transforms.rolling import merged, readable, rolled_up
from tests.harness.trace_lines import block, settled

NOW = 1_763_700_000_000


def events(spark: SparkSession, given: list[dict]) -> DataFrame:
    arrived = dt.datetime.fromtimestamp(NOW / 1000, dt.UTC)
    rows = spark.createDataFrame([(block(given), arrived)], "value string, arrived timestamp")
    return events_of(parsed(rows), Allowance(late=10**6, future=10**6))


def mixed(count: int, seed: int = 1) -> list[dict]:
    chance = random.Random(seed)
    return [
        settled(
            NOW - chance.randrange(7_200_000),
            subscription=chance.choice(["shop", "mail"]),
            status=chance.choice(["delivered", "delivered", "retrying"]),
            attempt=chance.randrange(1, 4),
            bytes=chance.randrange(1000),
            biz_id=f"b{chance.randrange(50)}",
            latency_us=int(math.exp(chance.gauss(9, 1.5))),
        )
        for _ in range(count)
    ]


def counted(given: list[dict], step: int) -> dict[tuple[int, str], tuple[int, ...]]:
    """Count without Spark."""
    counts: dict[tuple[int, str], list[int]] = defaultdict(lambda: [0] * 5)
    for event in given:
        delivered = event["status"] == "delivered"
        row = counts[event["at"] // step * step, event["subscription"]]
        for place, more in enumerate((1, delivered, not delivered, event["attempt"] > 1, event["bytes"])):
            row[place] += more
    return {key: tuple(row) for key, row in counts.items()}


@pytest.fixture(scope="module")
def minutes(spark):
    rows = rolled_up(events(spark, mixed(3000))).persist()
    yield rows
    rows.unpersist()


@pytest.mark.parametrize(("grain", "step"), [("minute", 60_000), ("hour", 3_600_000), ("day", 86_400_000)])
def test_shares_of_minutes_add_up_to_every_grain(minutes, grain, step):
    rows = merged(minutes, grain).collect()
    found = {
        (int(row.minute.replace(tzinfo=dt.UTC).timestamp() * 1000), row.subscription): (
            row.events,
            row.delivered,
            row.failed,
            row.retries,
            row.bytes,
        )
        for row in rows
    }
    assert found == counted(mixed(3000), step)


def test_cutting_the_stream_elsewhere_gives_the_same_rollups(spark, minutes):
    given = mixed(3000)
    first, second = (rolled_up(events(spark, part)) for part in (given[:1000], given[1000:]))
    together, whole = (
        {(row.minute, row.subscription): row.asDict() for row in readable(merged(rows)).collect()}
        for rows in (first.unionByName(second), minutes)
    )
    assert together == whole


def test_distinct_biz_ids_are_counted_over_minutes(minutes):
    rows = readable(merged(minutes, "day")).groupBy().agg(F.max("distinct_biz_ids"))
    assert rows.first()[0] == 50


def test_quantiles_are_within_two_per_cent_of_exact(spark):
    chance = random.Random(3)
    times = [int(math.exp(chance.gauss(9, 2))) + 1 for _ in range(20_000)]
    flat = spark.createDataFrame([(time,) for time in times], "us bigint")
    buckets = flat.groupBy(bucket_of(F.col("us")).alias("b")).count()
    histogram = buckets.agg(F.map_from_entries(F.collect_list(F.struct("b", "count"))).alias("h"))
    shares = (0.01, 0.5, 0.95, 0.99, 1.0)
    found = histogram.select(*[quantile(F.col("h"), share) for share in shares]).first()
    ordered = sorted(times)
    for share, estimate in zip(shares, found, strict=True):
        exact = ordered[max(math.ceil(share * len(ordered)), 1) - 1]
        assert abs(estimate - exact) <= exact * (GREATEST_ERROR + 1e-9)


def test_an_empty_histogram_has_no_quantile(spark):
    empty = spark.range(1).select(F.create_map().cast("map<int,bigint>").alias("h"))
    assert empty.select(quantile(F.col("h"), 0.5)).first()[0] is None


def test_nothing_rolls_up_to_nothing(spark):
    assert merged(rolled_up(spark.createDataFrame([], EVENTS.schema))).count() == 0
