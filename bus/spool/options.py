"""Options of a spool."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bus.spool.file import SpoolFile
from bus.spool.section import SectionOptions
from bus.spool.storage import free_space


@dataclass(frozen=True)
class Options:
    """The configuration of a spool.

    Attributes
    ----------
    consumers, limit
        Of the section of a spool that has but one; see ``SectionOptions``.
    sections
        How each section is set up, by name, for a spool that has several.
    reserve
        Bytes of free disk below which only urgent records are taken.
    cache_bytes
        Memory for the newest records.
    free_space, now
        Free bytes of a directory's disk, and seconds since the epoch.
    vfs, file_class
        What SQLite writes through, and what holds its file; for faults.
    """

    consumers: Sequence[str] = ("send",)
    limit: int = 10 << 30
    sections: Mapping[str, SectionOptions] = field(default_factory=dict)
    reserve: int = 0
    cache_bytes: int = 8 << 20
    free_space: Callable[[Path], int] = free_space
    now: Callable[[], float] = time.time
    vfs: str | None = None
    file_class: type[SpoolFile] = SpoolFile

    @property
    def plan(self) -> Mapping[str, SectionOptions]:
        """The configuration of each section; the only one has no name."""
        return self.sections or {"": SectionOptions(self.consumers, self.limit)}
