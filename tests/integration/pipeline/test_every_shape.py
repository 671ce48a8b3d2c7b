"""Every shape of a trace that the domain allows is read by every job, run as the command that people run."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from bus.cli import run
from bus.events.gathering import EventBuffer
from bus.stores.sqlite import SqliteStore
from pipeline.jobs import archive
from pipeline.jobs.reconcile import read_proofs
from pipeline.jobs.replay import Balance, ReplaySelection, balance, freeze
from pipeline.lake.batches import ROLLUP_LINE
from pipeline.lake.lake import Lake
from pipeline.lake.storage import Storage
from pipeline.schemas import ROLLUPS
from pipeline.sources.store import partitions_of, read_messages
from tests.harness.rollups import read_all_rollups
from tests.harness.spark import SEVERAL, partitioned
from tests.harness.trace_shapes import PAUSED, every_shape, fill

MINUTE = 60_000
Told = tuple[int, dict[str, Any]]


class World:
    """A store with all shapes, the events that tell of them, and where the lake is that the rollup makes of these."""

    def __init__(self, folder: Path) -> None:
        now = int(time.time() * 1000)
        self.start = now // MINUTE * MINUTE - 120 * MINUTE
        self.shapes = every_shape(self.start)
        self.folder = folder
        self.store = f"sqlite:///{folder / 'store'}"
        self.lake = Lake(Storage(str(folder / "lake")))

    async def fill(self) -> None:
        """Write all of it."""
        await fill(await SqliteStore.open(self.folder / "store"), self.shapes)
        gathered = EventBuffer("receiver+dispatcher", "host-1", self.start)
        for shape in self.shapes:
            for event in shape.told:
                gathered.add(event)
        sealed = gathered.close(self.start + MINUTE)
        assert sealed is not None
        file = self.folder / "events" / "1.jsonl"
        file.parent.mkdir()
        file.write_bytes(sealed.line + b"\n")
        os.utime(file, (self.start / 1000 + 61, self.start / 1000 + 61))


@pytest.fixture(scope="module")
def commands(spark: SparkSession) -> Iterator[None]:
    """Run commands in the session of all tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pipeline.session.open_session", lambda *_, **__: spark)
        patch.setattr(SparkSession, "stop", lambda _: None)
        yield


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    made = World(tmp_path_factory.mktemp("shapes"))
    asyncio.run(made.fill())
    return made


@pytest.fixture(scope="module")
def batch(spark: SparkSession, commands: None, world: World) -> Told:
    """Roll the events up, over as many partitions as a stream has."""
    with partitioned(spark, SEVERAL):
        return told_by("rollup", "--events", world.folder / "events", "--lake", world.lake.storage.root, "--once")


@pytest.fixture(scope="module")
def proof(batch: Told, world: World) -> Told:
    """Prove what was rolled up, once for all tests: a score of jobs of Spark."""
    return told_by("reconcile", "--lake", world.lake.storage.root, "--store", world.store, "--complete")


def told_by(*arguments: object) -> Told:
    """Run a command; return its exit code and the JSON document that it printed."""
    with redirect_stdout(StringIO()) as printed, redirect_stderr(StringIO()) as complained:
        code = run(["pipeline", *map(str, arguments), "--json"])
    assert "error" not in complained.getvalue()
    return code, json.loads(printed.getvalue())


def test_events_are_rolled_up_and_again_from_the_lake(spark: SparkSession, batch: Told, world: World) -> None:
    every = sum(len(shape.told) for shape in world.shapes)
    code, document = batch
    assert (code, document["events"], document["side"]) == (0, every, 0)
    rollups = read_all_rollups(spark, world.lake)
    counted = world.lake.read(spark, ROLLUPS, line=ROLLUP_LINE).agg(F.sum("events")).collect()
    assert counted[0][0] == every
    world.lake.storage.remove(f"_manifests/{ROLLUP_LINE}")
    assert told_by("rebuild", "--lake", world.lake.storage.root) == (0, {"line": ROLLUP_LINE, "built": 1})
    assert read_all_rollups(spark, world.lake) == rollups


def test_nothing_is_missing_and_nothing_contradicted(proof: Told, world: World) -> None:
    code, document = proof
    assert (code, document["verdict"], document["missing"], document["contradicted"]) == (0, "unsettled", [], [])
    deliver = document["hops"]["deliver"]
    assert deliver["expected"] == len([shape for shape in world.shapes if shape.subscription])
    assert deliver["unannounced"] == sum(not shape.has_arrived for shape in world.shapes)


def test_the_proof_says_of_each_what_it_is(spark: SparkSession, proof: Told, world: World) -> None:
    _, findings = read_proofs(spark, world.lake)
    rows = findings.where("hop = 'deliver'").collect()
    found = {row.id: row.finding for row in rows}
    assert {shape.name: found.get(shape.id, "") for shape in world.shapes} == {
        shape.name: shape.finding for shape in world.shapes
    }
    reasons = {row.subscription: row.store_reason for row in rows if row.subscription in PAUSED}
    assert reasons == PAUSED


def test_all_of_them_are_archived_and_selected(spark: SparkSession, commands: None, world: World) -> None:
    counted = []
    for partition in partitions_of(world.store):
        found = archive.count(read_messages(spark, world.store, partition=partition, bodies=True))
        manifest = archive.write(spark, world.lake, world.store, partition, found)
        assert manifest is not None
        assert archive.verify(spark, world.lake, manifest) == found.contents
        counted.append(found)
    assert sum(found.contents.messages for found in counted) == len(world.shapes)
    assert sum(found.unfinished for found in counted) == sum(shape.is_unfinished for shape in world.shapes)
    manifest = freeze(spark, world.lake, "again", ReplaySelection("true", world.store), world.start)
    assert manifest.facts["selected"] == sum(shape.has_arrived for shape in world.shapes)
    assert balance(spark, world.lake, manifest, world.store, 0) == Balance(0, 0, 0, 0, 0)
