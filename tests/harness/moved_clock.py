"""Processes whose wall clock a test moves: a small library that is loaded before the C library's own clock."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Final

from tests.harness.preload import build_library

HOUR: Final = 3_600
DAY: Final = 24 * HOUR
_SOURCE: Final = Path(__file__).with_name("moved_clock.c")


class MovedClock:
    """The clock of the processes that are started with ``env``; their monotonic time is left alone.

    The times of files are the kernel's, and so are not moved.
    """

    def __init__(self, folder: Path) -> None:
        self._file = folder / "moved_clock"
        self.env = {"LD_PRELOAD": str(build_library(_SOURCE, folder)), "MOVED_CLOCK": str(self._file)}
        self.put(0)

    def put(self, seconds: int) -> None:
        """Have it so many seconds ahead of the true time, or behind it when below zero."""
        # In place: the processes have the file in their memory.
        with self._file.open("r+b" if self._file.exists() else "wb") as file:
            file.write(struct.pack("=q", seconds * 1_000_000_000))
