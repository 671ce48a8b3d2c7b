"""Staged files that were never published, as their job was killed."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from typing import Final, NamedTuple

from pipeline.lake.lake import Lake, folders_of
from pipeline.lake.storage import Storage

_COMMIT: Final = re.compile(r".-[0-9a-f]{8}$")
_SMALL: Final = ("_manifests", "_progress", "_replays", "_serving")


class Leftovers(NamedTuple):
    """Folders of commits that no manifest names, and ``.partial`` files that were never renamed.

    Attributes
    ----------
    commits
        How many commits the folders are of.
    """

    commits: int
    folders: list[str]
    files: list[str]


def leftovers(lake: Lake, tables: Iterable[str], until: int) -> Leftovers:
    """Return the leftovers in some tables and among small files such as manifests, unchanged since a time (ms).

    A commit is as old as the youngest of its files and folders, in all of these tables.
    """
    storage = lake.storage
    # Listed before the manifests, so that a commit published in between is named by one.
    staged = [folder for table in tables for line in storage.folders(table) for folder in storage.folders(line)]
    named = {folder for manifest in lake.published() for folder in folders_of(manifest)}
    commits: defaultdict[str, list[str]] = defaultdict(list)
    for folder in staged:
        if folder not in named and _COMMIT.search(folder):
            commits[folder.partition("/")[2]].append(folder)
    old = [folders for folders in commits.values() if all(_is_old(storage, folder, until) for folder in folders)]
    partial = [path for folder in _SMALL for path in storage.find(folder, ".partial") if storage.changed(path) <= until]
    return Leftovers(len(old), sorted(folder for folders in old for folder in folders), partial)


def _is_old(storage: Storage, folder: str, until: int) -> bool:
    return all(storage.changed(path) <= until for path in (folder, *storage.below(folder)))
