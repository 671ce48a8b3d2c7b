"""The check of a command, before it starts Spark, that there is little to read."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest

from pipeline.commands import looking
from pipeline.commands.looking import has_few_lines, is_small
from pipeline.jobs.reconcile import Plan
from tests.harness.made_lake import START, make_lake


@pytest.fixture(autouse=True)
def eight_rows_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(looking, "SMALL", 8)


def test_a_lake_tells_its_rows_of_a_range_of_times(tmp_path: Path) -> None:
    lake = make_lake(tmp_path / "lake", 2, minutes=60)  # of five events each
    now = dt.datetime.fromtimestamp(START / 1000, dt.UTC)
    assert not is_small(lake, None, Plan(now))
    assert is_small(lake, None, Plan(now, since=now + dt.timedelta(minutes=30)))


def test_few_events_beside_a_large_store_are_no_small_proof(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lake, store = make_lake(tmp_path / "lake", 1, minutes=60), tmp_path / "store"
    store.mkdir()
    (store / "control.db").touch()
    (store / "traces-20251121-30d.db").write_bytes(b"x" * 600)
    (store / "traces-20251121-30d.db-wal").write_bytes(b"x" * 600)
    plan = Plan(dt.datetime(2025, 11, 22, tzinfo=dt.UTC))
    assert is_small(lake, f"sqlite:///{store}", plan)
    monkeypatch.setattr(looking, "_SMALL_STORE", 1_000)
    assert not is_small(lake, f"sqlite:///{store}", plan)
    assert is_small(lake, f"sqlite:///{store}", plan._replace(since=plan.now))
    assert is_small(lake, "mongodb://host/bus", plan)


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
