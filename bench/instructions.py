"""The user-space instructions of a process for a while, by valgrind's callgrind."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Final

_TOTALS: Final = re.compile(r"^totals: (\d+)", re.MULTILINE)


class Callgrind:
    """Counts what one process executes between ``begin`` and ``end``; start it with ``argv`` before its own."""

    def __init__(self, folder: Path) -> None:
        if shutil.which("valgrind") is None:
            raise FileNotFoundError("valgrind is not installed: apt-get install valgrind")
        self._folder = folder
        self.argv = (
            "valgrind",
            "--tool=callgrind",
            "--instr-atstart=no",
            f"--callgrind-out-file={folder / 'callgrind.out'}",
        )

    def begin(self, pid: int) -> None:
        """Count from now on."""
        self._control("--instr=on", pid)

    def end(self, pid: int) -> int:
        """Return how many instructions there were."""
        self._control("--instr=off", pid)
        self._control("--dump", pid)
        dumps = (path.read_text(errors="replace") for path in self._folder.glob("callgrind.out*"))
        return sum(int(total) for dump in dumps for total in _TOTALS.findall(dump))

    def _control(self, command: str, pid: int) -> None:
        argv = ["callgrind_control", command, str(pid)]
        subprocess.run(argv, check=True, capture_output=True, text=True, timeout=120)
