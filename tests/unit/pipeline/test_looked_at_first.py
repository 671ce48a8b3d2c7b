"""Impossible runs are refused before Spark is started, with the next step."""

from __future__ import annotations

from pathlib import Path

import pytest

from bus.cli import run
from pipeline.lake.batches import READ_LINE, ROLLUP_LINE
from pipeline.lake.lake import Lake
from pipeline.lake.storage import Storage
from pipeline.schemas import BLOCKS, EVENTS, ROLLUPS
from tests.harness.made_lake import put
from tests.unit.pipeline.conftest import COMMANDS


@pytest.fixture(autouse=True)
def no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    def running(name: str, *_: object, **__: object) -> None:
        raise AssertionError(f"Spark was started for {name}")

    for module in COMMANDS:
        monkeypatch.setattr(module, "running", running)


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """A lake with a file of each table; what is in it does not matter."""
    place = Lake(Storage(str(tmp_path / "lake")))
    put(place, READ_LINE, {BLOCKS: [{}], EVENTS: [{}]})
    put(place, ROLLUP_LINE, {ROLLUPS: [{}]})
    return tmp_path / "lake"


def test_rollups_of_another_version_are_built_again(lake: Path, capsys) -> None:
    (lake / "_manifests" / ROLLUP_LINE).rename(lake / "_manifests" / "rollup-v0")
    assert run(["pipeline", "baseline", "--lake", str(lake)]) != 0
    assert f"hint: bus pipeline rebuild --lake {lake}" in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("rollup", "--events", "nowhere", "--lake", "l"), "nowhere is no folder"),
        (("rollup", "--events", ".", "--lake", "gs://bucket/l"), "gs"),
        (("rollup", "--lake", "l"), "name one source"),
        (("rollup", "--events", ".", "--accept-gap", "--lake", "l"), "--accept-gap is for a gap in Kafka"),
        (("rollup", "--kafka", "k:1", "--lake", "l"), "Kafka needs Spark's connector"),
        (("reconcile", "--lake", "nowhere"), "the lake nowhere has no blocks yet"),
        (("baseline", "--lake", "nowhere"), "the lake nowhere has no rollups yet"),
        (("judge", "--lake", "nowhere"), "the lake nowhere has no rollups yet"),
        (("compact", "--lake", "nowhere"), "the lake nowhere has no events yet"),
        (("rebuild", "--lake", "nowhere"), "the lake nowhere has no events yet"),
        (("replay", "again", "--lake", "nowhere", "--where", "true"), "the lake nowhere has no messages yet"),
        (("replay", "again", "--lake", "nowhere"), "there is no replay 'again'"),
        (("replay", "again", "--lake", "nowhere", "--dry-run"), "a dry run needs conditions"),
        (("archive", "--lake", "l", "--store", "data"), "allowed are sqlite:///PATH and mongodb://HOST/DATABASE"),
        (("archive", "--lake", "l", "--store", "sqlite:///nowhere"), "nowhere has no store of a bus"),
        (("replay", "again", "--lake", "l", "--store", "data", "--where", "true"), "allowed are sqlite:///PATH"),
        (("reconcile", "--lake", "s3://bucket/lake"), "the lake s3://bucket/lake cannot be reached"),
        (("compact", "--lake", "s3a:///lake"), "s3a:///lake is no name in an object store"),
        (("compact", "--lake", "s3a://bucket/lake#1"), "s3a://bucket/lake#1 is no name in an object store"),
        (("compact", "--lake", "s3a://bucket/a/../b"), "s3a://bucket/a/../b is no name in an object store"),
        (("rollup", "--events", ".", "--lake", "l", "--checkpoint", "s3a://b/c"), "and the lake is not"),
        (("baseline", "--lake", "file://here/lake"), "the lake file://here/lake cannot be reached"),
        (("replay", "again", "--lake", "gs://b/l", "--where", "true"), "the lake gs://b/l cannot be reached"),
        (("archive", "--lake", "abfs://b/l", "--store", "mongodb://h/d", "--connectors", "j"), "the lake abfs://b/l"),
        (("archive", "--lake", "l", "--store", "mongodb://h/d"), "MongoDB needs Spark's connector"),
        (("replay", "a", "--lake", "l", "--store", "mongodb+srv://h/d", "--where", "true"), "MongoDB needs Spark's"),
    ],
)
def test_a_source_that_is_not_there(arguments: tuple[str, ...], words: str, capsys, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["pipeline", *arguments]) != 0
    told = " ".join(capsys.readouterr().err.split())
    assert words in told
    assert "hint" in told
    assert not list(tmp_path.iterdir())


def test_a_store_that_is_none_is_no_second_witness(lake: Path, capsys) -> None:
    assert run(["pipeline", "reconcile", "--lake", str(lake), "--store", "data/store"]) != 0
    assert "allowed are sqlite:///PATH" in capsys.readouterr().err
    assert run(["pipeline", "reconcile", "--lake", str(lake), "--store", "mongodb://h/d"]) != 0
    assert "MongoDB needs Spark's connector (hint: bus pipeline connectors jars" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["reconcile", "baseline"])
@pytest.mark.parametrize("report", ["", "not/there.html"])
def test_a_report_that_cannot_be_written(command: str, report: str, lake: Path, capsys) -> None:
    assert run(["pipeline", command, "--lake", str(lake), "--report", str(lake / report)]) != 0
    assert "a report cannot be written to" in capsys.readouterr().err
