"""A day that cannot be archived is told with the reason, and what to do."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path

import pytest

from bus.cli import run
from bus.domain.identity import new_id
from bus.domain.tracing.contents import Contents
from bus.domain.tracing.partition import PartitionLabel
from pipeline.commands import archiving
from pipeline.jobs.archive import LINE, PartitionContents
from pipeline.lake.lake import Lake
from pipeline.lake.storage import Storage
from pipeline.schemas import MESSAGES
from tests.harness.made_lake import put

DAYS = [PartitionLabel(20_000 + number, 30) for number in range(3)]
COUNTS = {
    DAYS[0]: PartitionContents(Contents(3, 3, "x"), 0, 2),
    DAYS[1]: PartitionContents(Contents(4, 4, "x"), 1, 1),
    DAYS[2]: PartitionContents(Contents(5, 5, "x"), 0, 0),
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
    monkeypatch.setitem(COUNTS, DAYS[2], PartitionContents(Contents(5, 5, "x"), 5, 0))
    assert run(["pipeline", *ARCHIVE]) == 0


def test_a_message_of_the_archive_can_be_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    at = dt.datetime(2026, 1, 31, 12, tzinfo=dt.UTC)
    wanted, other = (new_id(round(at.timestamp() * 1000)) for _ in range(2))
    deliveries = [{"subscription": "shop", "status": "delivered", "at": at, "attempts_made": 2, "reason": ""}]
    row = {"id": wanted, "made_at": at, "biz_id": "A-1", "body": b"hello", "deliveries": deliveries}
    lake = put(Lake(Storage(str(tmp_path))), LINE, {MESSAGES: [row, {"id": other, "made_at": at, "body": b"\xff"}]})
    find = ("pipeline", "find", "--lake", lake.storage.root)
    assert run([*find, wanted, "--json"]) == 0
    (item,) = json.loads(capsys.readouterr().out)["items"]
    assert (item["biz_id"], item["body"], item["made_at"]) == ("A-1", "hello", "2026-01-31T12:00:00.000Z")
    assert run([*find, wanted]) == 0
    told = capsys.readouterr().out
    assert all(text in told for text in (wanted, "shop", "delivered", "hello"))
    assert run([*find, other, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["items"][0]["body"] == "/w=="
    assert run([*find, new_id(round(at.timestamp() * 1000))]) == 1
    assert "does not have message" in capsys.readouterr().err
    assert run([*find, "A-1"]) == 1
