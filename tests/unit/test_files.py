"""Small files and directories that a power cut leaves whole."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from bus import files


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Keep in order what makes a file durable, and what gives it its name."""
    seen: list[str] = []
    sync, replace = os.fsync, Path.replace

    def synced(descriptor: int) -> None:
        seen.append(f"sync {Path(f'/proc/self/fd/{descriptor}').readlink().suffix or 'directory'}")
        sync(descriptor)

    def replaced(path: Path, target: Any) -> Path:
        seen.append("replace")
        return replace(path, target)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(Path, "replace", replaced)
    return seen


def test_a_file_is_durable_before_its_name_and_its_name_before_the_return(tmp_path: Path, steps: list[str]) -> None:
    files.write_whole(tmp_path / "name", b"old")
    assert steps == ["sync .new", "replace", "sync directory"]
    files.write_whole(tmp_path / "name", b"new")
    assert (tmp_path / "name").read_bytes() == b"new"
    assert (tmp_path / "name").stat().st_mode & 0o777 == 0o600
    assert [path.name for path in tmp_path.iterdir()] == ["name"]


def test_a_file_is_what_it_was_when_the_disk_does_not_take_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError("no space left")

    files.write_whole(tmp_path / "name", b"old")
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="no space"):
        files.write_whole(tmp_path / "name", b"new")
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [b"old"]


def test_each_new_directory_is_durable_in_the_one_above(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[Path] = []
    monkeypatch.setattr(files, "sync_directory", synced.append)
    files.make_directory(tmp_path / "data" / "spool")
    assert sorted(synced) == [tmp_path, tmp_path / "data"]
    files.make_directory(tmp_path / "data" / "spool")
    assert len(synced) == 2


@pytest.mark.parametrize("umask", [0, 0o022, 0o077])
def test_only_its_owner_may_read_what_is_made_whatever_the_umask(tmp_path: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        files.make_directory(tmp_path / "a" / "b")
        files.write_whole(tmp_path / "a" / "c" / "whole", b"1")
        files.make_private(tmp_path / "a" / "database")
        with files.open_private(tmp_path / "a" / "opened") as file:
            file.write(b"2")
    finally:
        os.umask(before)
    modes = {path.name: oct(path.stat().st_mode & 0o777) for path in tmp_path.rglob("*")}
    assert modes == {
        **dict.fromkeys(("a", "b", "c"), "0o700"),
        **dict.fromkeys(("whole", "database", "opened"), "0o600"),
    }


def test_a_database_that_is_there_stays_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "database"
    path.write_bytes(b"full")
    files.make_private(path)
    files.make_private(tmp_path / "nowhere" / "database")
    assert path.read_bytes() == b"full"


def test_a_file_that_is_removed_meanwhile_has_no_size(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"abc")
    assert files.bytes_of([tmp_path / "a", tmp_path / "gone"]) == 3
