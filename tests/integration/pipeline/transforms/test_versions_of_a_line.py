"""Readers take the rows of one version of a job, though an older or a newer one has left its own in the lake."""

import datetime as dt
from pathlib import Path

import msgspec
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from bench.events import MONDAY, generate
from bench.trace_day import Traffic
from pipeline.jobs import baseline
from pipeline.jobs.reconcile import LINE, Plan, read_proofs, reconciled, totals
from pipeline.lake.batches import READ_LINE, ROLLUP_LINE
from pipeline.lake.lake import Lake
from pipeline.lake.manifest import encode_manifest
from pipeline.lake.storage import Storage
from pipeline.schemas import ROLLUPS

HOUR = dt.timedelta(hours=1)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(Storage(str(tmp_path)))


def put_rollups(lake: Lake, line: str, hours: int) -> None:
    commit = lake.begin(line, "0")
    assert commit is not None
    known = {"stage": "accepted", "destination": "orders", "subscription": "", "events": 10, "latency": {}}
    commit.put(ROLLUPS, [{**known, "minute": MONDAY + hour * HOUR} for hour in range(hours)])
    lake.publish(commit)


def copy_line(lake: Lake, line: str, other: str) -> None:
    """Publish what a line has under another line, as an older version of a job may have left it."""
    for manifest in lake.manifests(line):
        copied = msgspec.structs.replace(manifest, line=other)
        lake.storage.write(lake.manifest_path(copied), encode_manifest(copied))


def test_norms_are_made_of_one_version_of_the_rollups(spark: SparkSession, lake: Lake) -> None:
    put_rollups(lake, ROLLUP_LINE, 3)
    put_rollups(lake, "rollup-v0", 9)
    assert baseline.last_hour(lake) == MONDAY + 2 * HOUR
    hours = baseline.history(spark, lake, baseline.Span(MONDAY + 2 * HOUR, 1))
    assert hours.agg(F.sum("volume")).collect()[0][0] == 20


@pytest.mark.proof
@pytest.mark.timeout(600)
def test_what_was_read_by_two_versions_is_reconciled_once(spark: SparkSession, lake: Lake) -> None:
    sent = generate(spark, lake, Traffic(1_000, MONDAY, seed=3)).where("stage = 'sent'").count()
    assert sent > 0
    copy_line(lake, READ_LINE, "read-v0")
    with reconciled(spark, lake, Plan(MONDAY + dt.timedelta(days=90), complete=True)) as proof:
        assert sum(row.expected for row in totals(proof) if row.hop == "accept") == sent
    assert not read_proofs(spark, lake)[0].isEmpty()
    copy_line(lake, LINE, "reconcile-v0")
    lake.storage.remove(f"_manifests/{LINE}")
    assert all(rows.isEmpty() for rows in read_proofs(spark, lake))
