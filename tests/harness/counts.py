"""The cost of a bus's hot path, counted in work and not in seconds, which are the machine's."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Final, NamedTuple

from tests.harness.preload import build_library

_SOURCE: Final = Path(__file__).with_name("counted.c")


class Counts(NamedTuple):
    """How often something was done.

    Attributes
    ----------
    fsyncs
        Of all files, with those of the store, of trace events and of checkpoints.
    commits
        Of spools, each with an fsync.
    hand_overs
        Calls that were made in another thread.
    records
        That were written to spools.
    statements
        Of SQL in the store.
    """

    fsyncs: float = 0
    commits: float = 0
    hand_overs: float = 0
    tasks: float = 0
    futures: float = 0
    callbacks: float = 0
    records: float = 0
    statements: float = 0

    def since(self, before: Counts, messages: int) -> Counts:
        """Return what was done since then for one of so many messages."""
        return Counts(*((now - then) / messages for now, then in zip(self, before, strict=True)))


COUNTERS: Final = Counts._fields


def size_of(counters: tuple[str, ...]) -> int:
    """Return the bytes of a file of counts."""
    return 8 * len(counters)


class CountsFile:
    """Where a counted bus writes its counts; start one with ``env`` and ``instead``."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "counts"
        self._path.write_bytes(bytes(size_of(COUNTERS)))
        library = build_library(_SOURCE, folder)
        self.env = {"LD_PRELOAD": str(library), "COUNTS_FILE": str(self._path)}
        self.instead = ("tests.harness.counted",)

    def read(self) -> Counts:
        """Return the counts as of now."""
        return Counts(*struct.unpack(f"={len(COUNTERS)}Q", self._path.read_bytes()))
