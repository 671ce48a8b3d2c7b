"""Directories that a power cut does not take away again."""

from __future__ import annotations

from pathlib import Path

import pytest

from bus.spool import storage


def test_each_new_directory_is_durable_in_the_one_above(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[Path] = []
    monkeypatch.setattr(storage, "sync_directory", synced.append)
    storage.make_directory(tmp_path / "data" / "spool")
    assert sorted(synced) == [tmp_path, tmp_path / "data"]
    storage.make_directory(tmp_path / "data" / "spool")
    assert len(synced) == 2
