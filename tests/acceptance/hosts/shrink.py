"""Find the faults of a schedule that matter: ``python -m tests.acceptance.hosts.shrink --work FOLDER --seed N ...``.

It takes what the laboratory takes, runs the schedule with fewer and fewer faults as long as a promise is broken, and
prints the least that it found, as the laboratory's ``--only``. A run takes some minutes, and what happens once in many
runs may be taken for cured.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from tests.harness.pods import privately
from tests.harness.process import ROOT, module


def breaks(arguments: list[str], only: list[int]) -> bool:
    """Return whether a promise is broken by these faults of the schedule alone."""
    folder = Path(arguments[arguments.index("--work") + 1])
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    words = module("tests.acceptance.hosts.lab", *arguments, "--only", ",".join(map(str, only)))
    is_broken = subprocess.run(privately(words), cwd=ROOT, check=False, capture_output=True).returncode == 1
    print(f"{'broken' if is_broken else 'kept'}: --only {','.join(map(str, only))}", flush=True)
    return is_broken


def shrunk(arguments: list[str], only: list[int]) -> list[int]:
    """Return fewer faults that still break a promise: halves are left out, then quarters, then single ones."""
    size = len(only) // 2
    while size:
        for start in range(0, len(only), size):
            rest = only[:start] + only[start + size :]
            if rest and breaks(arguments, rest):
                return shrunk(arguments, rest)
        size //= 2
    return only


def main() -> None:
    arguments = sys.argv[1:]
    plan = subprocess.run(
        module("tests.acceptance.hosts.lab", *arguments, "--plan"), cwd=ROOT, check=True, capture_output=True, text=True
    )
    count = sum(line.startswith("fault ") for line in plan.stdout.splitlines())
    print("--only " + ",".join(map(str, shrunk(arguments, list(range(count))))))


main()
