"""A lake in a bucket, on a real S3 server. That jobs may be killed there is proven beside lakes in folders."""

from __future__ import annotations

import json
import random
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from pipeline.lake.batches import READ_LINE, is_joined
from pipeline.schemas import EVENTS
from tests.harness.accounts import delivered_messages, ends_of, without
from tests.harness.jobs import pipeline
from tests.harness.lake_places import LakePlace
from tests.harness.made_lake import make_lake, rows_of
from tests.harness.trace_lines import Event, told
from tests.servers.s3_fixtures import bucket, s3_server

__all__ = ["bucket", "s3_server"]

NOW = round(time.time() * 1000)
START = NOW - 8 * 3_600_000
BLOCK = 25


def write_events(folder: Path, events: list[Event]) -> None:
    """Write a file for each block, which come one after the other."""
    folder.mkdir()
    for seq, start in enumerate(range(0, len(events), BLOCK), start=1):
        line = told(events[start : start + BLOCK], emitter="e1", seq=seq, at=NOW)
        (folder / f"{seq:03d}.jsonl").write_text(line)


def kept(place: LakePlace) -> Counter[tuple[str, str, str]]:
    lake = place.seen
    rows = (row for file in lake.files(EVENTS, line=READ_LINE) for row in lake.storage.rows(file.path))
    return Counter((row["stage"], row["id"], row["subscription"]) for row in rows)


def missing(place: LakePlace) -> list[tuple[str, str]]:
    done = pipeline("reconcile", "--lake", place.name, *place.options, "--complete", "--json")
    assert done.returncode == 1, done.stderr
    proof: dict[str, Any] = json.loads(done.stdout)
    return sorted((each["id"], each["subscription"]) for each in proof["missing"])


@pytest.mark.proof
def test_what_is_missing_is_found_in_a_bucket(tmp_path: Path, bucket: LakePlace) -> None:
    events = delivered_messages(START, 60, 60_000, "shop", "mail")
    gone = random.Random(5).sample(ends_of(events), 3)
    left = without(events, gone)
    write_events(tmp_path / "events", left)
    source = ("--events", tmp_path / "events", "--lake", bucket.name, *bucket.options)
    done = pipeline("rollup", *source, "--once", "--json")
    assert done.returncode == 0, done.stderr
    assert kept(bucket) == Counter((each["stage"], each["id"], each.get("subscription", "")) for each in left)
    assert missing(bucket) == sorted(gone)


def test_hours_are_put_together_in_a_bucket(bucket: LakePlace) -> None:
    made = make_lake(bucket.folder, 110, minutes=6)
    before = rows_of(made)
    done = pipeline("compact", "--lake", bucket.name, "--vacuum", 0, "--json")
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    assert (found["batches"], found["removed"]["commits"], found["left"]) == (4, 8, [])
    assert any(is_joined(name) for name in made.names(READ_LINE))
    assert rows_of(made) == before
