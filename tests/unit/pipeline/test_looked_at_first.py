"""What cannot work is told before Spark is started, with what to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from bus.cli import run
from pipeline.commands import baselining, reconciling, rolling
from pipeline.lake.lake import Lake
from pipeline.lake.storage import Storage
from pipeline.schemas import BLOCKS, ROLLUPS


@pytest.fixture(autouse=True)
def no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    def running(name: str, _: object) -> None:
        raise AssertionError(f"Spark was started for {name}")

    for module in (baselining, reconciling, rolling):
        monkeypatch.setattr(module, "running", running)


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """A lake with a file of each table; what is in it does not matter."""
    place = Lake(Storage(str(tmp_path / "lake")))
    commit = place.begin("read-v1", "000000000000")
    assert commit is not None
    for table in (BLOCKS, ROLLUPS):
        commit.put(table, [{}])
    place.publish(commit)
    return tmp_path / "lake"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("rollup", "--events", "nowhere", "--lake", "l"), "nowhere is no folder"),
        (("rollup", "--lake", "l"), "name one source"),
        (("rollup", "--kafka", "k:1", "--lake", "l"), "Kafka needs Spark's connector"),
        (("reconcile", "--lake", "nowhere"), "the lake nowhere has no blocks yet"),
        (("baseline", "--lake", "nowhere"), "the lake nowhere has no rollups yet"),
    ],
)
def test_a_source_that_is_not_there(arguments: tuple[str, ...], words: str, capsys, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["pipeline", *arguments]) != 0
    told = " ".join(capsys.readouterr().err.split())
    assert words in told
    assert "hint" in told
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("command", ["reconcile", "baseline"])
@pytest.mark.parametrize("report", ["", "not/there.html"])
def test_a_report_that_cannot_be_written(command: str, report: str, lake: Path, capsys) -> None:
    assert run(["pipeline", command, "--lake", str(lake), "--report", str(lake / report)]) != 0
    assert "a report cannot be written to" in capsys.readouterr().err
