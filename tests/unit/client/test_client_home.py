"""Directories under one root."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from bus.client.spooling import home
from bus.errors import SpoolLocked
from bus.ports.spool import NewRecord
from bus.spool import BlockingSpool, Options

OPTIONS = Options(consumers=("send",))


@pytest.mark.parametrize(
    ("source", "prefix"), [("", "bus"), ("order-service", "order-service"), ("../a/ü b", "a___b"), ("x" * 99, "x" * 40)]
)
def test_names_are_safe_and_say_whose_they_are(tmp_path: Path, source: str, prefix: str) -> None:
    spool = home.open_home(tmp_path, source, OPTIONS)
    assert spool.directory.parent == tmp_path
    assert spool.directory.name.strip("_").startswith(f"{prefix}-{os.getpid()}-")
    assert home.homes(tmp_path) == [spool.directory]
    assert home.homes(spool.directory) == [spool.directory]
    assert home.retire(spool)
    assert home.homes(tmp_path) == []


def test_a_sweeper_that_was_faster_costs_a_new_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Path] = []

    def taken(directory: Path, options: Options) -> BlockingSpool:
        calls.append(directory)
        if len(calls) < 3:
            raise SpoolLocked("taken")
        return BlockingSpool(directory, options)

    monkeypatch.setattr(home, "BlockingSpool", taken)
    spool = home.open_home(tmp_path, "a", OPTIONS)
    assert len(set(calls)) == 3
    spool.close()


def test_every_name_taken_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def taken(_: Path, __: Options) -> BlockingSpool:
        raise SpoolLocked("taken")

    monkeypatch.setattr(home, "BlockingSpool", taken)
    with pytest.raises(SpoolLocked):
        home.open_home(tmp_path, "a", OPTIONS)


def test_what_is_not_empty_is_kept(tmp_path: Path) -> None:
    spool = home.open_home(tmp_path, "a", OPTIONS)
    spool.append([NewRecord("out/a", b"x", 1)])
    assert not home.retire(spool)
    assert list(home.orphans(tmp_path, 0)) == [spool.directory]


def test_a_directory_that_is_being_made_is_left_for_a_minute(tmp_path: Path) -> None:
    fresh = tmp_path / "a-1-00000000.sdk"
    fresh.mkdir()
    made = fresh.stat().st_mtime
    assert list(home.orphans(tmp_path, made + 59)) == []
    assert list(home.orphans(tmp_path, made + 61)) == [fresh]


def test_a_root_that_is_not_there_has_no_homes(tmp_path: Path) -> None:
    assert home.homes(tmp_path / "none") == []
    (tmp_path / "file").touch()
    assert home.homes(tmp_path / "file") == []


def test_what_belongs_to_another_user_hides_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mine, other = home.open_home(tmp_path, "z", OPTIONS), home.open_home(tmp_path, "a", OPTIONS)
    mine.close()
    other.close()

    def is_live(directory: Path) -> bool:
        if directory == other.directory:
            raise PermissionError(13, "denied")
        return False

    monkeypatch.setattr(home, "is_live", is_live)
    monkeypatch.setattr("os.access", lambda path, _: path != other.directory)
    assert list(home.orphans(tmp_path, 0)) == [mine.directory]
    assert home.closed(tmp_path) == [other.directory]
