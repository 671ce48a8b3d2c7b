"""Kinds of planted losses: of each the proof says what ``docs/proofs/losses.md`` lists."""

from __future__ import annotations

import asyncio
import dataclasses
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from bus.stores.address import sqlite_directory
from bus.stores.sqlite import SqliteStore
from pipeline.commands.proving import summarized
from pipeline.jobs import archive, rollup
from pipeline.jobs.reconcile import Plan, read_proofs
from pipeline.lake.lake import Lake
from pipeline.lake.storage import Storage
from pipeline.reports.summary import Gap, Summary, verdict_of
from pipeline.session import small_run
from pipeline.sources.lines import from_files
from pipeline.sources.store import partitions_of, read_messages
from tests.harness.accounts import moment
from tests.harness.planted_losses import PAGE, Kind, read_kinds
from tests.harness.planting import Planted, Planting
from tests.harness.spark import CORES
from tests.servers.mongodb_fixtures import database_url, drop, open_store

KINDS = read_kinds()


@dataclasses.dataclass
class Proven:
    """What a proof of a ``lake`` at a time (ms) said of each kind."""

    lake: Lake
    now: int
    planted: Mapping[str, Planted]
    buckets: Mapping[str, list[dict[str, Any]]]
    findings: Mapping[str, set[str]]
    gaps: Mapping[str, list[Gap]]
    summary: Summary

    def verdict(self, kind: Kind) -> str:
        """Return the verdict of a proof of its destination alone."""
        code = self.planted[kind.name].code
        return verdict_of(self.buckets[code], self.gaps[code])

    def found(self, kind: Kind) -> list[set[str]]:
        """Return what was found of each of its messages."""
        return [self.findings[each] for each in self.planted[kind.name].ids]


@pytest.fixture(scope="module", params=["sqlite", pytest.param("mongodb", marks=pytest.mark.proof)])
def address(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Yield the address of an empty store."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path_factory.mktemp('store')}"
        return
    url = database_url(request.getfixturevalue("mongodb"))
    yield url
    drop(url)


@pytest.fixture(scope="module")
def proven(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, address: str) -> Proven:
    folder = tmp_path_factory.mktemp("losses")
    planting = Planting(int(time.time() * 1000), KINDS)
    asyncio.run(fill(planting, folder, address))
    lake = Lake(Storage(str(folder / "lake")))
    with small_run(spark):
        roll_up(spark, lake, folder)
        keep_archive(spark, lake, f"sqlite:///{folder / 'archived'}")
        plan = Plan(moment(planting.now), complete=True)
        with summarized(spark, lake, address, plan, charts=False) as summary:
            return proven_of(spark, lake, planting, summary)


async def fill(planting: Planting, folder: Path, address: str) -> None:
    planting.write_events(folder / "events")
    directory = sqlite_directory(address)
    store = await SqliteStore.open(directory) if directory is not None else await open_store(address)
    await planting.fill(store, planting.kept)
    await planting.fill(await SqliteStore.open(folder / "archived"), planting.archived)


def roll_up(spark: SparkSession, lake: Lake, folder: Path) -> None:
    read = from_files(spark, str(folder / "events"))
    rollup.start(spark, lake, read, rollup.Plan(str(folder / "checkpoints"), 0, partitions=CORES)).wait()


def keep_archive(spark: SparkSession, lake: Lake, store: str) -> None:
    """Archive a store of which all was dropped since."""
    for partition in partitions_of(store):
        found = archive.count(read_messages(spark, store, partition=partition, bodies=True))
        assert archive.write(spark, lake, store, partition, found) is not None


def proven_of(spark: SparkSession, lake: Lake, planting: Planting, summary: Summary) -> Proven:
    buckets: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
    findings: defaultdict[str, set[str]] = defaultdict(set)
    gaps: defaultdict[str, list[Gap]] = defaultdict(list)
    found, listed = read_proofs(spark, lake)
    for row in found.collect():
        buckets[row.destination].append(row.asDict())
    for row in listed.collect():
        findings[row.id].add(f"{row.hop}: {row.finding}")
    for gap in summary.gaps:
        gaps[gap.emitter].append(gap)
    return Proven(
        lake, planting.now, {each.kind.name: each for each in planting.planted}, buckets, findings, gaps, summary
    )


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_the_proof_says_what_is_listed(proven: Proven, kind: Kind) -> None:
    assert (proven.verdict(kind), proven.found(kind)) == (kind.verdict, [kind.finds] * 2)


@pytest.mark.proof
def test_a_proof_that_leaves_out_what_is_plainly_done_says_the_same(
    spark: SparkSession, proven: Proven, address: str
) -> None:
    plan = Plan(moment(proven.now + 1), complete=True, screens=True)
    with small_run(spark), summarized(spark, proven.lake, address, plan, charts=False) as summary:
        assert (summary.verdict, summary.news) == ("missing", 0)


def test_each_loss_is_listed_once_and_none_is_proven() -> None:
    names = [kind.name for kind in KINDS]
    assert len(set(names)) == len(names)
    losses = KINDS[: names.index("delivered")]
    assert len(losses) >= 51
    assert f"{len(losses)} kinds of losses, and of {len(KINDS) - len(losses)} kinds" in PAGE.read_text("utf-8")
    assert "proven" not in {kind.verdict for kind in losses}
