"""Checks of what the stream brings, all in one pass over a batch."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

_WEEK_US: Final = 7 * 24 * 3600 * 1_000_000


def _checks() -> dict[str, Column]:
    settled = F.col("stage") == "settled"
    return {
        "in time": F.col("verdict") == "good",
        "settled names a subscription": ~settled | (F.col("subscription") != ""),
        "settled names a status": ~settled | (F.col("status") != ""),
        "a post has an id": ~settled | (F.col("attempt") == 0) | (F.col("attempt_id") != ""),
        "a delivered post has a 2xx": (F.col("status") != "delivered")
        | (F.col("attempt") == 0)
        | F.col("code").between(200, 299),
        "latency is possible": F.col("latency_us").between(-1, _WEEK_US * 5),
        "size is possible": F.col("bytes") >= 0,
        "happened after the id was made": F.col("at") >= F.col("sent_minute"),
    }


def checked(events: DataFrame) -> DataFrame:
    """Return for each check of events (``schemas.EVENTS``) how many rows there were and how many broke it."""
    counts = [F.sum(F.when(condition, 0).otherwise(1)).alias(name) for name, condition in _checks().items()]
    one = events.agg(F.count("*").alias("rows"), *counts)
    rows = [
        F.struct(F.lit(name).alias("check"), F.coalesce(F.col(f"`{name}`"), F.lit(0)).alias("broken"))
        for name in _checks()
    ]
    return one.select("rows", F.explode(F.array(*rows)).alias("each")).select("each.check", "rows", "each.broken")
