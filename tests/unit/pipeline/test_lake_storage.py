"""Writes of the lake survive a power cut, whole, whoever writes beside it."""

from __future__ import annotations

import errno
import os
from fnmatch import fnmatch
from pathlib import Path

import pytest

from pipeline.lake.storage import Storage

PARTIAL = ".a.json.*.partial"


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


@pytest.mark.parametrize("put", [Storage.write, Storage.create])
def test_a_file_has_its_name_only_once_its_content_is_durable(tmp_path: Path, synced: list, put) -> None:
    put(Storage(str(tmp_path)), "manifests/a.json", b"all of it")
    name, content, is_named = synced[0]
    assert (fnmatch(name, PARTIAL), content, is_named) == (True, b"all of it", False)
    named = [(name, content) for name, content, is_named in synced if is_named]
    assert ("a.json", b"all of it") in named
    assert ("manifests", None) in named
    assert names_in(tmp_path) == ["a.json"]


def test_a_file_that_is_replaced_is_the_old_one_or_the_new_one(tmp_path: Path, synced: list) -> None:
    storage = Storage(str(tmp_path))
    storage.write("manifests/a.json", b"old")
    synced.clear()
    storage.write("manifests/a.json", b"new")
    assert (fnmatch(synced[0][0], PARTIAL), synced[0][1]) == (True, b"new")
    assert storage.read("manifests/a.json") == b"new"
    assert names_in(tmp_path) == ["a.json"]


@pytest.mark.parametrize("put", [Storage.write, Storage.create])
def test_a_writer_that_is_cut_off_leaves_what_another_is_about_to_name(tmp_path: Path, monkeypatch, put) -> None:
    storage, sync, calls = Storage(str(tmp_path)), os.fsync, []

    def met(descriptor: int) -> None:
        calls.append(descriptor)
        if len(calls) == 1:
            with pytest.raises(OSError, match="the disk is full"):
                put(storage, "manifests/a.json", b"")
        elif len(calls) == 2:
            raise OSError(errno.ENOSPC, "the disk is full")
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", met)
    put(storage, "manifests/a.json", b"all of it")
    assert storage.read("manifests/a.json") == b"all of it"
    assert names_in(tmp_path) == ["a.json"]


def test_where_files_cannot_be_linked_what_is_there_stays_as_well(tmp_path: Path, monkeypatch) -> None:
    def refused(*_):
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", refused)
    storage = Storage(str(tmp_path))
    assert storage.create("manifests/a.json", b"first")
    assert not storage.create("manifests/a.json", b"second")
    assert storage.read("manifests/a.json") == b"first"
    assert names_in(tmp_path) == ["a.json"]


def names_in(root: Path) -> list[str]:
    return [path.name for path in (root / "manifests").iterdir()]


class Coming:
    """Files of which one is put into a folder while that is listed, as pyarrow tells it."""

    def __init__(self, storage: Storage, path: str) -> None:
        self._files = storage._arrow
        self._put = storage.write
        self._path = path

    def get_file_info(self, selector):
        if self._path:
            path, self._path = self._path, ""
            self._put(path, b"")
            raise FileNotFoundError(errno.ENOENT, "Cannot list directory")
        return self._files.get_file_info(selector)

    def __getattr__(self, name: str):
        return getattr(self._files, name)


@pytest.mark.parametrize("look", [Storage.below, Storage.folders, lambda each, folder: each.find(folder, "")])
def test_a_folder_that_comes_while_it_is_listed_is_listed(tmp_path: Path, look) -> None:
    storage = Storage(str(tmp_path))
    storage._arrow = Coming(Storage(str(tmp_path)), "manifests/line/a.json")
    assert look(storage, "manifests") != []
