"""The rollup of a lake's events, by Spark and by DuckDB."""

from __future__ import annotations

import time
from collections.abc import Sequence
from multiprocessing.connection import Connection
from pathlib import Path

import duckdb
from pyspark.sql import functions as F

from bench.side_by_side import CORES, HEAP, Took, files_of
from pipeline.commands.following import Tasks
from pipeline.schemas import EVENTS
from pipeline.session import open_session
from pipeline.transforms.histogram import GROWTH
from pipeline.transforms.rolling import rolled_up

_DUCKDB = f"""
COPY (
  SELECT minute, stage, destination, subscription,
    count(*) AS events,
    count(*) FILTER (status = 'delivered') AS delivered,
    count(*) FILTER ((attempt > 0 AND status <> 'delivered') OR status = 'failed') AS failed,
    count(*) FILTER (attempt > 1) AS retries,
    sum(bytes)::BIGINT AS bytes,
    approx_count_distinct(biz_id) FILTER (biz_id <> '') AS biz_ids,
    histogram(ceil(ln(greatest(latency_us, 1)) / ln({GROWTH}))::INTEGER)
      FILTER (status = 'delivered' AND latency_us >= 0) AS latency
  FROM read_parquet(?) WHERE verdict = 'good' GROUP BY ALL
) TO '{{target}}' (FORMAT parquet, COMPRESSION zstd)
"""
_TOTALS = """
SELECT sum(events), sum(delivered), sum(failed), sum(retries), sum(bytes), count(*),
  sum(list_sum(map_values(latency))), sum(list_sum(map_keys(latency)))
FROM read_parquet(?)
"""


def by_spark(lakes: Sequence[Path], folder: Path, pipe: Connection) -> None:
    """Roll up with the job's own transform (``bench.side_by_side.Work``); the result is the totals."""
    spark = open_session("bench", master=f"local[{CORES}]", memory=HEAP)
    read = spark.read.schema(EVENTS.schema)
    files = [files_of(lake, EVENTS) for lake in lakes]
    # Once over a little: what Java compiles is not what is measured.
    rolled_up(read.parquet(files[0][0]).limit(100_000)).write.format("noop").mode("overwrite").save()
    pipe.send(None)
    for place, some in enumerate(files):
        target = folder / f"spark-{place}"
        tasks, began = Tasks(spark), time.monotonic()
        good = read.parquet(*some).where(F.col("verdict") == "good")
        rolled_up(good).repartition(1).write.parquet(str(target))
        pipe.send(Took(time.monotonic() - began, _totals(f"{target}/*.parquet"), *tasks.totals()))
    spark.stop()


def by_duckdb(lakes: Sequence[Path], folder: Path, pipe: Connection) -> None:
    """Aggregate the same into the same shape (``bench.side_by_side.Work``)."""
    duckdb.execute(f"SET threads = {CORES}; SET memory_limit = '4GB'; SET TimeZone = 'UTC'")
    pipe.send(None)
    for place, lake in enumerate(lakes):
        target = str(folder / f"duckdb-{place}")
        began = time.monotonic()
        duckdb.execute(_DUCKDB.format(target=target), [files_of(lake, EVENTS)])
        pipe.send(Took(time.monotonic() - began, _totals(target)))


def _totals(files: str) -> tuple[int, ...]:
    row = duckdb.execute(_TOTALS, [files]).fetchone()
    if row is None:
        raise ValueError(f"{files} has no rollups")
    return tuple(int(each) for each in row)
