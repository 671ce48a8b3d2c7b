"""A replay tells by its exit code that messages were rejected, and goes on with nothing but what was frozen."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bus.cli import run
from pipeline.commands import replaying
from pipeline.jobs import archive
from pipeline.jobs.replay import LINE
from pipeline.lake.lake import Lake
from pipeline.lake.storage import Storage
from pipeline.schemas import MESSAGES
from tests.harness.made_lake import put

SINCE, BEFORE = "2026-01-31T00:00:00Z", "2026-02-01T00:00:00Z"
TOLD = {"replay": "again-1", "selected": 6, "accepted": 6, "rejected": 0, "rejections": {}}
FACTS = {"where": "true", "into": None, "since": None, "before": None, "store": False, "frozen_at": 1, "selected": 6}
RANGE = {"since": "2026-01-31T00:00:00+00:00", "before": "2026-02-01T00:00:00+00:00"}


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """A lake with an archive."""
    return put(Lake(Storage(str(tmp_path / "lake"))), archive.LINE, {MESSAGES: [{}]})


def freeze(lake: Lake, **facts: Any) -> None:
    commit = lake.begin(LINE, "again-1")
    assert commit is not None
    lake.publish(commit, facts=FACTS | facts)


def replay(lake: Lake, *options: str) -> int:
    return run(["pipeline", "replay", "again-1", "--lake", lake.storage.root, *options])


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch, without_spark: None) -> dict[str, Any]:
    """What a replay that needs no Spark comes to."""
    found = dict(TOLD)
    monkeypatch.setattr(replaying, "replay", lambda *_: found)
    return found


def test_what_was_rejected_is_a_failure_with_a_next_step(
    lake: Lake, told: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    assert replay(lake, "--where", "true") == 0
    told.update(accepted=4, rejected=2, rejections={"a": "no destination", "b": "no destination"})
    capsys.readouterr()
    assert replay(lake, "--where", "true", "--json") == 1
    said = capsys.readouterr()
    assert json.loads(said.out) == told
    assert "error: 2 of 6 messages were rejected" in said.err
    assert "under another name" in said.err


@pytest.mark.parametrize(
    ("frozen", "options", "words"),
    [
        ({}, ("--where", "biz_id = 'a'"), "with --where true"),
        ({}, ("--where", "true", "--into", "there"), "without --into"),
        ({"into": "there"}, ("--where", "true"), "with --into there"),
        (RANGE, ("--where", "true"), "with --from 2026-01-31T00:00:00"),
        (RANGE, ("--where", "true", "--from", "24h", "--to", BEFORE), "with --from 2026-01-31T00:00:00"),
        (RANGE, ("--where", "true", "--from", SINCE), "with --to 2026-02-01T00:00:00"),
        ({}, ("--where", "true", "--from", SINCE), "without --from"),
        ({"store": True}, ("--where", "true"), "with --store"),
        ({}, ("--where", "true", "--store", "mongodb://h/d", "--connectors", "jars"), "without --store"),
    ],
)
def test_another_selection_is_refused_before_spark_is_started(
    lake: Lake,
    frozen: dict[str, Any],
    options: tuple[str, ...],
    words: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(replaying, "running", None)
    freeze(lake, **frozen)
    assert replay(lake, *options) == 1
    said = " ".join(capsys.readouterr().err.split())
    assert f"replay 'again-1' was frozen {words}" in said
    assert "leave --where" in said


def test_the_same_selection_is_gone_on_with(lake: Lake, told: dict[str, Any]) -> None:
    freeze(lake, **RANGE, store=True)
    same = ("--where", "true", "--from", SINCE, "--to", "2026-02-01T01:00:00+01:00", "--store", "mongodb://h/d")
    assert replay(lake, *same, "--connectors", "jars") == 0


@pytest.mark.parametrize("option", ["--from", "--to"])
def test_a_range_is_only_frozen_with_conditions(
    lake: Lake, told: dict[str, Any], option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    freeze(lake)
    assert replay(lake, option, "24h") == 2
    assert "give --where" in capsys.readouterr().err
    assert replay(lake) == 0
