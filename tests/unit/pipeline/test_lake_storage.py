"""What the lake writes is there after a power cut, whole."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pipeline.lake.storage import Storage


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, bytes | None, bool]]:
    """Name, content (None of a folder) of what was synced, in order, and whether ``a.json`` had its name then."""
    found: list[tuple[str, bytes | None, bool]] = []
    sync = os.fsync

    def seen(descriptor: int) -> None:
        path = Path(f"/proc/self/fd/{descriptor}").readlink()
        content = path.read_bytes() if path.is_file() else None
        beside = path if content is None else path.parent
        found.append((path.name, content, (beside / "a.json").exists()))
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", seen)
    return found


def test_a_file_has_its_name_only_once_its_content_is_durable(tmp_path: Path, synced: list) -> None:
    Storage(str(tmp_path)).write("manifests/a.json", b"all of it")
    assert synced[0] == (".a.json.partial", b"all of it", False)
    named = [(name, content) for name, content, is_named in synced if is_named]
    assert ("a.json", b"all of it") in named
    assert ("manifests", None) in named


def test_a_file_that_is_replaced_is_the_old_one_or_the_new_one(tmp_path: Path, synced: list) -> None:
    storage = Storage(str(tmp_path))
    storage.write("manifests/a.json", b"old")
    synced.clear()
    storage.write("manifests/a.json", b"new")
    assert synced[0][:2] == (".a.json.partial", b"new")
    assert storage.read("manifests/a.json") == b"new"
    assert [path.name for path in (tmp_path / "manifests").iterdir()] == ["a.json"]
