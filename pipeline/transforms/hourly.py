"""From rollups to series of hours: what norms are made of."""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from pipeline.transforms.histogram import quantile
from pipeline.transforms.rolling import merged

SERIES: Final = ("destination", "subscription")


def hourly(rollups: DataFrame) -> DataFrame:
    """Return a row for each hour of each series, from rollups (``schemas.ROLLUPS``) of any grain.

    A series is a destination (``subscription`` empty: what was accepted) or a subscription (what was delivered).
    Columns: ``hour`` since the epoch, ``volume``, ``attempts``, ``failed``, ``timed`` (deliveries with a latency) and
    ``p95_ms``. An hour in which others have something and a series has nothing is silence, a volume of 0; an hour in
    which nothing at all was rolled up is a hole in the record, and no row.
    """
    rows = merged(rollups.where(F.col("stage").isin("accepted", "settled")), "hour").select(
        *SERIES,
        F.floor(F.unix_seconds("minute") / 3600).alias("hour"),
        F.when(F.col("stage") == "accepted", F.col("events")).otherwise(F.col("delivered")).alias("volume"),
        (F.col("delivered") + F.col("failed")).alias("attempts"),
        "failed",
        F.aggregate(F.map_values("latency"), F.lit(0).cast("bigint"), lambda sum_, count: sum_ + count).alias("timed"),
        (quantile(F.col("latency"), 0.95) / 1000).alias("p95_ms"),
    )
    first = rows.groupBy(*SERIES).agg(F.min("hour").alias("first"))
    grid = rows.select("hour").distinct().crossJoin(first).where("hour >= first").drop("first")
    counts = [F.coalesce(name, F.lit(0)).alias(name) for name in ("volume", "attempts", "failed", "timed")]
    return grid.join(rows, [*SERIES, "hour"], "left").select(*SERIES, "hour", *counts, "p95_ms")
