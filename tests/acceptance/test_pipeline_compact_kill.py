"""A compaction that is killed anywhere leaves every row where readers find it, once, and is simply run again."""

from __future__ import annotations

import json
import random
import time
from pathlib import Path

import pytest

from pipeline.jobs.rollup import READ_LINE, ROLLUP_LINE
from pipeline.lake.batches import is_joined
from pipeline.lake.lake import Lake
from tests.harness.jobs import pipeline
from tests.harness.made_lake import make_lake, rows_of
from tests.harness.process import Child, module
from tests.harness.waiting import wait_until

BATCHES = 175
NEWEST = 100  # are left as they are
HOURS = 3  # of 10, 30 and 30 batches
WITHIN = 120.0


def _compact(lake: Lake, log: Path) -> Child:
    return Child(module("pipeline", "compact", "--lake", lake.storage.root, "--vacuum", 0, "--json"), log=log)


def _staged(root: Path) -> int:
    return sum(1 for _ in root.glob("*/*/*_to_*"))


def _kill_at_work(compaction: Child, root: Path, chance: random.Random) -> None:
    """Kill it at some moment after it began to write; it may have come to the end meanwhile."""
    before = _staged(root)
    compaction.start()
    wait_until(lambda: _staged(root) > before or not compaction.running, within=WITHIN, what="it writes", every=0.001)
    time.sleep(chance.random() * 0.5)  # the moment itself: in any of the hours, or while it removes
    compaction.kill()


@pytest.mark.parametrize("kills", [3, pytest.param(20, marks=[pytest.mark.proof, pytest.mark.timeout(1_800)])])
def test_rows_are_the_same_whenever_it_is_killed(tmp_path: Path, kills: int) -> None:
    lake = make_lake(tmp_path / "lake", BATCHES, minutes=2)
    before, chance = rows_of(lake), random.Random(kills)
    compaction = _compact(lake, tmp_path / "compaction.log")
    for _ in range(kills):
        _kill_at_work(compaction, tmp_path / "lake", chance)
        assert rows_of(lake) == before
    done = pipeline("compact", "--lake", lake.storage.root, "--vacuum", 0, "--json")
    assert done.returncode == 0, done.stderr
    assert rows_of(lake) == before
    for line in (READ_LINE, ROLLUP_LINE):
        names = lake.names(line)
        assert sum(map(is_joined, names)) == HOURS
        assert len(names) == HOURS + BATCHES - 70
    again = json.loads(pipeline("compact", "--lake", lake.storage.root, "--vacuum", 0, "--json").stdout)
    assert (again["batches"], again["removed"]["commits"]) == (0, 0)
