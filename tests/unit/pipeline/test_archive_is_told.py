"""A day that cannot be archived is told with the reason, and what to do."""

from __future__ import annotations

import json

import pytest

from bus.cli import run
from bus.domain.contents import Contents
from bus.domain.partition import PartitionLabel
from pipeline.commands import archiving
from pipeline.jobs.archive import Counted

DAYS = [PartitionLabel(20_000 + number, 30) for number in range(3)]
COUNTS = {
    DAYS[0]: Counted(Contents(3, 3, "x"), 0, 2),
    DAYS[1]: Counted(Contents(4, 4, "x"), 1, 1),
    DAYS[2]: Counted(Contents(5, 5, "x"), 0, 0),
}
ARCHIVE = ("archive", "--store", "mongodb://h/d", "--connectors", "jars", "--lake", "l", "--dry-run")


@pytest.fixture(autouse=True)
def store(monkeypatch: pytest.MonkeyPatch, without_spark: None) -> None:
    """A store of three days, as far as they are counted."""
    monkeypatch.setattr(archiving, "due", lambda *_: DAYS)
    monkeypatch.setattr(archiving, "read_messages", lambda *_, partition, **__: partition)
    monkeypatch.setattr(archiving, "count", COUNTS.__getitem__)


def test_bodies_that_cannot_be_read_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["pipeline", *ARCHIVE, "--json"]) == 1
    told = capsys.readouterr()
    days = [json.loads(line) for line in told.out.splitlines()]
    assert [(day["state"], day["unfinished"], day["unreadable"]) for day in days] == [
        ("unreadable", 0, 2),
        ("unfinished", 1, 1),
        ("counted", 0, 0),
    ]
    assert f"error: in {DAYS[0].name}, {DAYS[1].name} the bodies of 3 messages cannot be read" in told.err
    assert "hint: " in told.err


def test_the_table_has_the_reason(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["pipeline", *ARCHIVE]) == 1
    head, *rows = (line.split("\t") for line in capsys.readouterr().out.splitlines())
    assert [dict(zip(head, row, strict=True))["unreadable"] for row in rows] == ["2", "1", "0"]


def test_a_day_that_is_only_unfinished_is_no_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archiving, "due", lambda *_: DAYS[2:])
    assert run(["pipeline", *ARCHIVE]) == 0
    monkeypatch.setitem(COUNTS, DAYS[2], Counted(Contents(5, 5, "x"), 5, 0))
    assert run(["pipeline", *ARCHIVE]) == 0
