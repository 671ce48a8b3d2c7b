"""Removal of staged files that are never published: at once after a failure, else once nobody can use them."""

from __future__ import annotations

import datetime as dt
import errno
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from pipeline.commands.compacting import run
from pipeline.jobs.compact import HOUR_MS, UNPUBLISHED_MS, sweep
from pipeline.lake.lake import Commit, Lake
from pipeline.lake.storage import Storage
from pipeline.schemas import PROGRESS, QUALITY, SIDE, Table
from tests.harness.made_lake import make_lake, rows_of

WITHIN = 10
ROW = {"arrived": dt.datetime(2026, 3, 2, tzinfo=dt.UTC), "emitter": "e"}
DAY = 24 * HOUR_MS


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(Storage(str(tmp_path / "lake")))


def begun(lake: Lake, name: str = "one", line: str = "read-v1") -> Commit:
    commit = lake.begin(line, name)
    assert commit is not None
    return commit


def data_of(lake: Lake) -> list[str]:
    return lake.storage.find("", "")


def now() -> int:
    return round(time.time() * 1000)


def full(*_: object) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_what_was_staged_goes_when_the_disk_is_full(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    commit = begun(lake)
    commit.put(SIDE, [ROW])
    monkeypatch.setattr(lake.storage, "write_rows", full)
    with pytest.raises(OSError, match="No space left"):
        commit.put(QUALITY, [{"batch": 1}])
    assert data_of(lake) == []


def test_a_file_that_cannot_be_described_goes_as_well(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lake.storage, "sha256", full)
    with pytest.raises(OSError, match="No space left"):
        begun(lake).put(SIDE, [ROW])
    assert data_of(lake) == []


def test_what_cannot_be_removed_does_not_hide_why(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(_path: str) -> None:
        raise PermissionError("not yours")

    monkeypatch.setattr(lake.storage, "sha256", full)
    monkeypatch.setattr(lake.storage, "remove", refused)
    with pytest.raises(OSError, match="No space left"):
        begun(lake).put(SIDE, [ROW])


def test_a_table_that_is_still_written_is_not_taken_from_under_its_writer(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit, write_rows = begun(lake), lake.storage.write_rows
    written, may_end = threading.Event(), threading.Event()

    def slow(path: str, *given: object) -> None:
        if path.startswith(QUALITY.name):
            full()
        write_rows(path, *given)  # type: ignore[arg-type]
        written.set()
        assert may_end.wait(WITHIN)

    monkeypatch.setattr(lake.storage, "write_rows", slow)
    with ThreadPoolExecutor() as pool:
        other = pool.submit(commit.put, SIDE, [ROW])
        assert written.wait(WITHIN)
        with pytest.raises(OSError, match="No space left"):
            commit.put(QUALITY, [{"batch": 1}])
        assert len(lake.storage.find(SIDE.name, ".parquet")) == 1
        may_end.set()
        other.result(WITHIN)
    assert data_of(lake) == []


def abandoned(lake: Lake, name: str, *tables: Table, line: str = "read-v1") -> list[str]:
    """Stage a commit as a job that is killed then leaves it."""
    before = set(data_of(lake))
    commit = begun(lake, name, line)
    for table in tables:
        commit.put(table, [{table.time: ROW["arrived"]}])
    return sorted(set(data_of(lake)) - before)


def test_what_a_killed_job_staged_goes_after_a_day_and_nothing_else(tmp_path: Path) -> None:
    lake = make_lake(tmp_path / "lake", 4, minutes=5)
    before, there = rows_of(lake), data_of(lake)
    left = abandoned(lake, "000000000009", SIDE, PROGRESS) + abandoned(lake, "20260302-0", SIDE, line="archive-v1")
    weight = sum(lake.storage.size(path) for path in left)
    assert sweep(lake, now() + UNPUBLISHED_MS // 2, 0) == (0, 0, 0)
    assert sweep(lake, now() + 2 * UNPUBLISHED_MS, 3 * UNPUBLISHED_MS) == (0, 0, 0)
    assert sweep(lake, now() + UNPUBLISHED_MS + WITHIN, 0) == (2, 3, weight)
    assert data_of(lake) == there
    assert rows_of(lake) == before
    assert not list(tmp_path.rglob("000000000009-*"))


def test_a_commit_of_which_one_table_is_young_is_still_staged(lake: Lake) -> None:
    commit = begun(lake)
    commit.put(SIDE, [ROW])
    between = now() + 1
    time.sleep(0.01)
    commit.put(QUALITY, [{"batch": 1}])
    assert sweep(lake, between + UNPUBLISHED_MS, 0) == (0, 0, 0)
    lake.publish(commit)
    assert sweep(lake, now() + DAY * 2, 0) == (0, 0, 0)
    assert len(lake.files(SIDE)) == len(lake.files(QUALITY)) == 1


def test_what_was_replaced_and_is_kept_for_its_readers_is_not_swept(tmp_path: Path) -> None:
    lake = Lake(Storage(str(tmp_path)))
    old, new = begun(lake, "old", "archive-v1"), begun(lake, "new", "archive-v1")
    for commit in (old, new):
        commit.put(SIDE, [ROW])
    lake.publish(old)
    lake.publish(new, replaces=["old"])
    assert sweep(lake, now() + 2 * DAY, 0) == (0, 0, 0)
    assert len(lake.storage.find(SIDE.name, ".parquet")) == 2


def test_a_name_that_was_never_given_goes_and_what_is_not_the_lakes_stays(lake: Lake) -> None:
    lake.publish(begun(lake))
    Path(lake.storage.url("_manifests/read-v1/.two.json.0a1b2c3d.partial")).write_bytes(b"torn")
    mine = Path(lake.storage.url("side/mine/notes"))
    mine.mkdir(parents=True)
    (mine / "a.txt").write_text("mine")
    assert sweep(lake, now() + 2 * DAY, 0) == (0, 1, 4)
    assert data_of(lake) == ["_manifests/read-v1/one.json", "side/mine/notes/a.txt"]


def test_a_commit_that_was_swept_meanwhile_is_not_published(lake: Lake) -> None:
    """Its process was stopped for a day."""
    commit = begun(lake)
    commit.put(SIDE, [ROW])
    assert sweep(lake, now() + 2 * DAY, 0).commits == 1
    with pytest.raises(FileNotFoundError):
        lake.publish(commit)
    assert lake.manifests() == []


def test_the_command_tells_what_it_swept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lake = make_lake(tmp_path / "lake", 1, minutes=5)
    abandoned(lake, "000000000009", SIDE)
    run(lake.storage.root, older_than=1, grace=0, as_json=False)
    assert "0 commits that were never published are removed: 0 files, 0 bytes" in capsys.readouterr().out
    assert len(lake.storage.find(SIDE.name, ".parquet")) == 1
