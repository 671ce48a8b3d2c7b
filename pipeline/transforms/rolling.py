"""Rollups: counts of each minute, in partial counts that add up to minutes, hours and days."""

from __future__ import annotations

from functools import reduce
from typing import Final, Literal

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from pipeline.transforms.histogram import bucket_of, quantile

KEY: Final = ("minute", "stage", "destination", "subscription")
_SUMS: Final = ("events", "delivered", "failed", "retries", "bytes")
_BUCKETS: Final = "map<int,bigint>"
Grain = Literal["minute", "hour", "day"]


def rolled_up(events: DataFrame) -> DataFrame:
    """Count events (``schemas.EVENTS``) by minute, stage, destination and subscription (``schemas.ROLLUPS``)."""
    delivered = F.col("status") == "delivered"
    failed = ((F.col("attempt") > 0) & ~delivered) | (F.col("status") == "failed")
    counts = events.groupBy(*KEY).agg(
        F.count("*").alias("events"),
        _count(delivered).alias("delivered"),
        _count(failed).alias("failed"),
        _count(F.col("attempt") > 1).alias("retries"),
        F.sum("bytes").alias("bytes"),
        F.hll_sketch_agg(F.when(F.col("biz_id") != "", F.col("biz_id"))).alias("biz_ids"),
    )
    timed = events.where(delivered & (F.col("latency_us") >= 0))
    buckets = timed.groupBy(*KEY, bucket_of(F.col("latency_us")).alias("bucket")).agg(F.count("*").alias("count"))
    return _with_latency(counts, buckets)


def merged(shares: DataFrame, grain: Grain = "minute") -> DataFrame:
    """Add up partial counts (``schemas.ROLLUPS``) to a row for each minute, hour or day; ``minute`` is its start."""
    shares = shares.withColumn("minute", F.date_trunc(grain, "minute"))
    counts = shares.groupBy(*KEY).agg(
        *[F.sum(name).alias(name) for name in _SUMS], F.hll_union_agg("biz_ids").alias("biz_ids")
    )
    flat = shares.select(*KEY, F.explode("latency").alias("bucket", "count"))
    return _with_latency(counts, flat.groupBy(*KEY, "bucket").agg(F.sum("count").alias("count")))


def readable(rollups: DataFrame) -> DataFrame:
    """Return merged rollups as people read them: distinct biz ids estimated, latency as p50, p95 and p99 in ms."""
    quantiles = [
        (quantile(F.col("latency"), share) / 1000).alias(f"p{int(share * 100)}_ms") for share in (0.5, 0.95, 0.99)
    ]
    return rollups.select(*KEY, *_SUMS, F.hll_sketch_estimate("biz_ids").alias("distinct_biz_ids"), *quantiles)


def _with_latency(counts: DataFrame, buckets: DataFrame) -> DataFrame:
    maps = buckets.groupBy(*KEY).agg(
        F.map_from_entries(F.array_sort(F.collect_list(F.struct("bucket", "count")))).alias("latency")
    )
    same = reduce(Column.__and__, [F.col(f"c.{name}") == F.col(f"m.{name}") for name in KEY])
    joined = counts.alias("c").join(maps.alias("m"), same, "left")
    return joined.select(
        *[f"c.{name}" for name in (*KEY, *_SUMS, "biz_ids")],
        F.coalesce("m.latency", F.create_map().cast(_BUCKETS)).alias("latency"),
    )


def _count(condition: Column) -> Column:
    return F.sum(F.when(condition, 1).otherwise(0)).cast("bigint")
