"""Reconciling a lake from which deliveries were removed, by Spark's job and by the same two levels in DuckDB."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Sequence
from multiprocessing.connection import Connection
from pathlib import Path

import duckdb
from pyspark.sql import SparkSession

from bench.side_by_side import CORES, HEAP, Took, files_of
from pipeline.commands.following import Tasks
from pipeline.commands.looking import is_small
from pipeline.jobs.reconcile import LINE, Plan, missing, reconciled, totals
from pipeline.lake.lake import Lake
from pipeline.lake.storage import Storage
from pipeline.schemas import EVENTS, LEDGER
from pipeline.session import open_session

_LONG_AFTER = dt.timedelta(days=365)
_DUCKDB = """
WITH places (stage, hop, side) AS (VALUES
    ('sent', 'accept', 'expected'), ('accepted', 'accept', 'settled'),
    ('accepted', 'publish', 'expected'), ('published', 'publish', 'settled'),
    ('expected', 'deliver', 'expected'), ('delivered', 'deliver', 'settled'), ('dead', 'deliver', 'ended')),
  sums AS (
    SELECT hop, destination, subscription, minute,
      coalesce(sum(count) FILTER (side = 'expected'), 0) AS expected,
      coalesce(sum(count) FILTER (side = 'settled'), 0) AS settled,
      coalesce(bit_xor(xor) FILTER (side = 'expected'), 0) AS expected_xor,
      coalesce(bit_xor(xor) FILTER (side = 'settled'), 0) AS settled_xor,
      coalesce(sum(sum::HUGEINT) FILTER (side = 'expected'), 0) AS expected_sum,
      coalesce(sum(sum::HUGEINT) FILTER (side = 'settled'), 0) AS settled_sum
    FROM read_parquet($ledger) JOIN places USING (stage) GROUP BY ALL),
  differing AS (
    SELECT * FROM sums WHERE expected <> settled OR expected_xor <> settled_xor
      OR (expected_sum - settled_sum) % 18446744073709551616::HUGEINT <> 0),
  minutes AS (SELECT DISTINCT destination, minute FROM differing WHERE hop = 'deliver'),
  near AS (
    SELECT e.* FROM read_parquet($events) e
    JOIN minutes m ON e.destination = m.destination AND e.sent_minute = m.minute),
  owed AS (
    SELECT id, destination, sent_minute AS minute, unnest(expected) AS subscription FROM near
    WHERE stage = 'accepted'),
  judged AS (
    SELECT o.* FROM owed o SEMI JOIN differing d ON d.hop = 'deliver' AND o.destination = d.destination
      AND o.subscription = d.subscription AND o.minute = d.minute)
SELECT (SELECT count(*) FROM sums), count(*) FROM judged
ANTI JOIN (SELECT id, subscription FROM near WHERE status IN ('delivered', 'dead')) USING (id, subscription)
"""


def by_spark(lakes: Sequence[Path], _folder: Path, pipe: Connection) -> None:
    """Run the job (``bench.side_by_side.Work``); the result is how many buckets there are and deliveries missing."""
    spark = open_session("bench", master=f"local[{CORES}]", memory=HEAP)
    reconcile(spark, lakes[0])  # what Java compiles is not what is measured
    pipe.send(None)
    for lake in lakes:
        pipe.send(reconcile(spark, lake))
    spark.stop()


def by_duckdb(lakes: Sequence[Path], _folder: Path, pipe: Connection) -> None:
    """Compare and search in the same way (``bench.side_by_side.Work``)."""
    duckdb.execute(f"SET threads = {CORES}; SET memory_limit = '4GB'; SET TimeZone = 'UTC'")
    pipe.send(None)
    for lake in lakes:
        pipe.send(search(lake))


def reconcile(spark: SparkSession, place: Path) -> Took:
    """Reconcile a lake as if never before; the result is how many buckets it has and deliveries are missing."""
    lake = Lake(Storage(str(place)))
    for manifest in lake.manifests(LINE):
        lake.storage.remove(lake.manifest_path(manifest))
    tasks, began = Tasks(spark), time.monotonic()
    plan = Plan(dt.datetime.now(dt.UTC) + _LONG_AFTER, complete=True)
    plan = plan._replace(screens=not is_small(lake, None, plan))
    with reconciled(spark, lake, plan) as proof:
        found = (sum(row.buckets for row in totals(proof)), missing(proof).count())
    return Took(time.monotonic() - began, found, *tasks.totals())


def search(lake: Path) -> Took:
    """Return the same of DuckDB."""
    given = {"ledger": files_of(lake, LEDGER), "events": files_of(lake, EVENTS)}
    began = time.monotonic()
    row = duckdb.execute(_DUCKDB, given).fetchone()
    return Took(time.monotonic() - began, tuple(int(each) for each in row or ()))
