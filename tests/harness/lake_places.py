"""Places of a lake that jobs work on as processes, and a test's access to it."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from pipeline.lake.lake import Lake
from pipeline.lake.storage import Storage


class LakePlace(NamedTuple):
    """A lake, nothing in it at first.

    Attributes
    ----------
    name
        By which jobs know it.
    folder
        Where its files are; those of a bucket as well, for its server keeps an object as a file.
    options
        What jobs with Spark need besides.
    """

    name: str
    folder: Path
    options: tuple[object, ...] = ()

    @property
    def seen(self) -> Lake:
        """The lake as it lies on disk, whatever its jobs know it by."""
        return Lake(Storage(str(self.folder)))

    def below(self, path: str) -> LakePlace:
        """Return another lake, below this one's name."""
        return LakePlace(f"{self.name}/{path}", self.folder / path, self.options)


def in_folder(folder: Path) -> LakePlace:
    """Return a lake on disk."""
    return LakePlace(str(folder), folder)
