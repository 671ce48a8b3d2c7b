"""A compaction that is killed anywhere leaves every row where readers find it, once, and is simply run again."""

from __future__ import annotations

import json
import random
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from pipeline.jobs.compact import UNPUBLISHED_MS, sweep
from pipeline.lake.batches import READ_LINE, ROLLUP_LINE, is_joined
from pipeline.lake.lake import Lake
from tests.harness.jobs import pipeline
from tests.harness.lake_places import LakePlace
from tests.harness.made_lake import make_lake, rows_of
from tests.harness.process import Child, module
from tests.harness.waiting import wait_until
from tests.servers.s3_fixtures import bucket, lake_place, s3_server

__all__ = ["bucket", "lake_place", "s3_server"]

BATCHES = 175  # of which the newest 100 are left as they are
HOURS = 3  # of 10, 30 and 30 batches
JOINED = 70
TABLES = 4
KILLS = 20
WITHIN = 120.0


class Moment(NamedTuple):
    """When it is killed: once so much was staged and published, and so much was removed; and seconds later."""

    made: int
    removed: int
    later: float


def _moments(count: int) -> Iterator[Moment]:
    """Give moments over all of its work, by turns while it puts hours together and while it removes."""
    chance = random.Random(count)
    for number in range(count):
        later = chance.random() * 0.02
        if number % 2:
            yield Moment(0, chance.randrange(1, 2 * JOINED), later)
        else:
            yield Moment(chance.randrange(1, HOURS * (TABLES + 2)), 0, later)


def _has_come(moment: Moment, root: Path) -> bool:
    manifests = [path.name for path in root.glob("_manifests/*/*.json")]
    made = sum("_to_" in name for name in manifests)
    removed = 2 * BATCHES + made - len(manifests)
    staged = sum(1 for _ in root.glob("[!_]*/*/*_to_*"))
    return made + staged >= moment.made and removed >= moment.removed


def _kill_at_work(place: LakePlace, moment: Moment, log: Path) -> bool:
    """Kill it at a moment; whether it was at work still."""
    root = place.folder
    compaction = Child(module("pipeline", "compact", "--lake", place.name, "--vacuum", 0, "--json"), log=log)
    with compaction:
        wait_until(
            lambda: _has_come(moment, root) or not compaction.running, within=WITHIN, what=f"{moment}", every=0.001
        )
        time.sleep(moment.later)
        was_at_work = compaction.running and not compaction.output()
        compaction.kill()
    return was_at_work


def _compact(place: LakePlace) -> dict[str, dict[str, int]]:
    done = pipeline("compact", "--lake", place.name, "--vacuum", 0, "--json")
    assert done.returncode == 0, done.stderr
    told: dict[str, dict[str, int]] = json.loads(done.stdout)
    return told


def _assert_all_is_done(lake: Lake) -> None:
    for line in (READ_LINE, ROLLUP_LINE):
        names = lake.names(line)
        assert sum(map(is_joined, names)) == HOURS
        assert len(names) == HOURS + BATCHES - JOINED
    assert sweep(lake, round(time.time() * 1000) + 2 * UNPUBLISHED_MS, 0).commits <= 2  # an hour's, in both lines
    named = {file.path for each in lake.manifests() for files in each.tables.values() for file in files}
    assert set(lake.storage.find("", ".parquet")) == named


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    return make_lake(tmp_path_factory.mktemp("made") / "lake", BATCHES, minutes=2)


@pytest.mark.proof
@pytest.mark.timeout(1_800)
def test_rows_are_the_same_whenever_it_is_killed(made: Lake, lake_place: LakePlace, tmp_path: Path) -> None:
    before, hits = rows_of(made), 0
    for number, moment in enumerate(_moments(KILLS)):
        place = lake_place.below(f"lake-{number}")
        shutil.copytree(made.storage.root, place.folder)
        hits += _kill_at_work(place, moment, tmp_path / "compaction.log")
        assert rows_of(place.seen) == before, moment
        _compact(place)
        assert rows_of(place.seen) == before, moment
        _assert_all_is_done(place.seen)
    assert hits >= KILLS * 2 / 3
    again = _compact(place)
    assert (again["batches"], again["removed"]["commits"]) == (0, 0)
