"""CPU and memory of a system: all its processes and their children."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

import psutil


class Usage:
    """Figures of the given processes and everything they started."""

    def __init__(self, pids: Sequence[int]) -> None:
        self._pids = pids

    def cpu(self) -> float:
        """Return the seconds of processor time used so far, user and system."""
        total = 0.0
        for process in self.processes():
            with suppress(psutil.NoSuchProcess):
                times = process.cpu_times()
                total += times.user + times.system
        return total

    def memory(self) -> int:
        """Return the bytes resident now."""
        total = 0
        for process in self.processes():
            with suppress(psutil.NoSuchProcess):
                total += process.memory_info().rss
        return total

    def processes(self) -> list[psutil.Process]:
        """Return those that live now."""
        found: list[psutil.Process] = []
        for pid in self._pids:
            with suppress(psutil.NoSuchProcess):
                process = psutil.Process(pid)
                found += [process, *process.children(recursive=True)]
        return found
