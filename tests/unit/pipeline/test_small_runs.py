"""How a command knows, before it starts Spark, that there is little to read."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest

from pipeline.commands import looking
from pipeline.commands.looking import has_few_lines, is_small
from pipeline.schemas import BLOCKS, EVENTS
from tests.harness.made_lake import START, make_lake


@pytest.fixture(autouse=True)
def eight_rows_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(looking, "SMALL", 8)


def test_a_lake_tells_its_rows_of_a_range_of_times(tmp_path: Path) -> None:
    lake = make_lake(tmp_path / "lake", 2, minutes=60)  # of five events each
    assert not is_small(lake, EVENTS)
    assert is_small(lake, EVENTS, since=dt.datetime.fromtimestamp(START / 1000 + 1800, dt.UTC))
    assert is_small(lake, BLOCKS)


def test_files_of_events_tell_it_by_their_size(tmp_path: Path) -> None:
    assert has_few_lines(str(tmp_path))
    (tmp_path / "p0").mkdir()
    (tmp_path / "p0" / "1.jsonl").write_bytes(b"x" * 1_000)
    (tmp_path / "p0" / "2.partial").write_bytes(b"x" * 9_000)
    assert has_few_lines(str(tmp_path))
    (tmp_path / "3.jsonl").write_bytes(b"x" * 1_000)
    assert not has_few_lines(str(tmp_path))


@pytest.mark.parametrize("folder", [None, "hdfs://host/events"])
def test_what_is_not_on_this_machine_may_be_large(folder: str | None) -> None:
    assert not has_few_lines(folder)
