"""Latency as a histogram on a logarithmic scale, whose buckets can be added up over all times and processes.

A bucket reaches from one power of ``GROWTH`` to the next, so an estimate at its geometric middle is off by
``sqrt(GROWTH) - 1``, 1.98 %, at most (the idea of DDSketch, Masson et al. 2019, VLDB 12).
"""

from __future__ import annotations

import math
from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F

GROWTH: Final = 1.04
GREATEST_ERROR: Final = math.sqrt(GROWTH) - 1


def bucket_of(microseconds: Column) -> Column:
    """Return the number of the bucket of a time."""
    return F.ceil(F.log(F.greatest(microseconds, F.lit(1)).cast("double")) / F.lit(math.log(GROWTH))).cast("int")


def quantile(buckets: Column, share: float) -> Column:
    """Return the time (microseconds, double) that this share did not exceed; null of an empty histogram.

    Parameters
    ----------
    buckets
        ``map<int,bigint>``: how many there are in each bucket.
    share
        Between 0 and 1; the rank is the nearest one, ``ceil(share * count)``.
    """
    entries = F.array_sort(F.map_entries(buckets))
    total = F.aggregate(F.map_values(buckets), F.lit(0).cast("bigint"), lambda sum_, count: sum_ + count)
    rank = F.greatest(F.ceil(F.lit(share) * total), F.lit(1))
    start = F.struct(F.lit(0).cast("bigint").alias("below"), F.lit(None).cast("int").alias("bucket"))

    def step(state: Column, entry: Column) -> Column:
        below = state["below"] + entry["value"]
        bucket = F.coalesce(state["bucket"], F.when(below >= rank, entry["key"]))
        return F.struct(below.alias("below"), bucket.alias("bucket"))

    found = F.aggregate(entries, start, step)["bucket"]
    return F.pow(F.lit(GROWTH), found.cast("double") - F.lit(0.5))
