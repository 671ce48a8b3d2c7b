"""Writers that are run, watched and killed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from bus.spool import BlockingSpool
from tests.integration.spool.history import History, drain
from tests.servers import missing

ROOT = Path(__file__).parents[3]
UNKNOWN = 3


def command(directory: Path, driver: str, seed: int, calls: int, *more: str) -> list[str]:
    module = "tests.integration.spool.writer"
    return [sys.executable, "-m", module, str(directory), driver, str(seed), str(calls), *more]


def traced(inject: str, arguments: list[str]) -> tuple[int, History, list[str]]:
    """Run a writer under strace with an injection; return its exit code and what it said."""
    need("strace")
    call = inject.partition(":")[0]
    tracer = ["strace", "-f", "-o", os.devnull, "-e", f"trace={call}", "-e", f"inject={inject}"]
    done = subprocess.run([*tracer, *arguments], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    lines = done.stdout.splitlines(keepends=True)
    return done.returncode, History.parse(lines), lines


def reopened(directory: Path, history: History) -> list[str]:
    """Open a spool after whatever happened to it, and return what is wrong."""
    with BlockingSpool(directory) as spool:
        found = drain(spool)
        return history.problems(found, damaged=spool.stats().damaged)


def need(program: str) -> None:
    """Skip on a machine without the program; in CI that is an error."""
    if shutil.which(program) is None:
        missing(f"{program} is not installed")
