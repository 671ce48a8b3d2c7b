"""The stream of rollups, killed in the middle of batches, comes to what an undisturbed run comes to."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from pipeline.jobs.rollup import Plan, start
from pipeline.lake.batches import READ_LINE
from pipeline.lake.lake import Lake
from pipeline.lake.storage import Storage
from pipeline.schemas import BLOCKS, EVENTS, LEDGER, Table
from pipeline.sources.lines import from_files
from tests.harness.killed_jobs import batches_noted
from tests.harness.lake_places import LakePlace
from tests.harness.process import Child, module
from tests.harness.rollups import assert_agrees, read_rollups, read_side
from tests.harness.spark import spark_session
from tests.harness.trace_traffic import write_traffic
from tests.harness.waiting import wait_until
from tests.servers.s3_fixtures import bucket, lake_place, s3_server

__all__ = ["bucket", "lake_place", "s3_server"]

RUN_WITHIN = 1800.0
MANY, FILES, KILLS = 1_000_000, 60, 20


def _stream(events: Path, place: LakePlace, log: Path) -> Child:
    arguments = ("rollup", "--events", events, "--lake", place.name, "--once", "--json", "--batch", 0.5)
    return Child(module("pipeline", *arguments, *place.options, "--memory", "1g", "--master", "local[2]"), log=log)


def _kill_in_a_batch(stream: Child, lake: Path, chance: random.Random) -> bool:
    """Kill the stream at some moment after it began a batch; return whether that, or the next one, had not ended."""
    before = batches_noted(lake, "offsets")
    stream.start()
    wait_until(
        lambda: batches_noted(lake, "offsets") > before or not stream.running,
        within=RUN_WITHIN,
        what="a batch to begin",
        every=0.02,
    )
    assert stream.running, stream.output()
    time.sleep(chance.random() * 6)  # the moment itself: anywhere in the batch, or in the next one
    stream.kill()
    return batches_noted(lake, "offsets") > batches_noted(lake, "commits")


def _drop_newest_commit_entry(lake: Path) -> None:
    entries = (lake / "_checkpoints" / READ_LINE / "commits").glob("[0-9]*")
    newest = max(entries, key=lambda path: int(path.name))
    newest.unlink()
    newest.with_name(f".{newest.name}.crc").unlink(missing_ok=True)  # of a lake in a folder


def _rows(spark: SparkSession, lake: Lake, table: Table) -> DataFrame:
    """Return what the stream made of what it read, but for which arrival of a repeated block it saw first.

    Spark compares no maps.
    """
    rows = lake.read(spark, table, line=READ_LINE).drop("arrived")
    return rows.withColumn("latency", F.to_json("latency")) if "latency" in rows.columns else rows


@pytest.mark.proof
@pytest.mark.timeout(3_600)
def test_a_killed_stream_comes_to_the_same_rollups(
    tmp_path: Path, lake_place: LakePlace, record_property: Callable[[str, object], None]
) -> None:
    traffic = write_traffic(tmp_path / "events", MANY, files=FILES)
    lake, chance = lake_place.folder, random.Random(MANY)
    stream = _stream(tmp_path / "events", lake_place, tmp_path / "stream.log")
    try:
        hits = sum(_kill_in_a_batch(stream, lake, chance) for _ in range(KILLS))
        _drop_newest_commit_entry(lake)
        assert stream.start().wait(RUN_WITHIN) == 0, stream.output()
    finally:
        stream.kill()

    spark = spark_session()
    calm = Lake(Storage(str(tmp_path / "calm")))
    plan = Plan(str(tmp_path / "checkpoint"), every=0)
    start(spark, calm, from_files(spark, str(tmp_path / "events")), plan).wait()
    disturbed = lake_place.seen
    rollups = read_rollups(spark, disturbed)
    assert rollups == read_rollups(spark, calm)
    assert_agrees(rollups, traffic)
    assert read_side(spark, disturbed) == read_side(spark, calm)
    for table in (EVENTS, LEDGER, BLOCKS):
        found, wanted = (_rows(spark, each, table) for each in (disturbed, calm))
        assert found.count() == wanted.count()
        assert found.exceptAll(wanted).isEmpty()
    assert hits * 2 >= KILLS
    record_property("kills in the middle of a batch", hits)
    record_property("batches", len(disturbed.manifests(READ_LINE)))
