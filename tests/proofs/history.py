"""The history of proofs: a line of JSON for each run of a part, in ``docs/proofs/PART.jsonl``."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final, Literal

import msgspec
import psutil

from tests.harness.process import ROOT
from tests.proofs.figures import Figures

FOLDER: Final = ROOT / "docs" / "proofs"
Outcome = Literal["passed", "failed", "broken off"]


class Machine(msgspec.Struct, frozen=True):
    """What it ran on; nothing that names the machine."""

    cores: int
    memory_gib: int
    system: str
    python: str


class Row(msgspec.Struct, frozen=True):
    """One proof; ``cases`` are as many with other parameters."""

    name: str
    outcome: str
    seconds: float
    figures: Figures
    cases: int = 1


def together(rows: Iterable[Row]) -> list[Row]:
    """Return a row for all cases of a test that passed, and one for each case that did not."""
    found: dict[str, Row] = {}
    for row in rows:
        name = row.name.partition("[")[0] if row.outcome == "passed" else row.name
        known = found.get(name) or Row(name, row.outcome, 0.0, Figures(), 0)
        seconds, figures = round(known.seconds + row.seconds, 1), known.figures + row.figures
        found[name] = Row(name, row.outcome, seconds, figures, known.cases + row.cases)
    return list(found.values())


class Run(msgspec.Struct, frozen=True):
    """One run of a part: ``at`` in RFC 3339, ``dirty`` when what ran was not the commit alone."""

    at: str
    part: str
    commit: str
    dirty: bool
    machine: Machine
    outcome: Outcome
    seconds: float
    totals: Figures
    rows: Sequence[Row]


def this_machine() -> Machine:
    """Return what this process runs on."""
    memory = round(psutil.virtual_memory().total / 2**30)
    cores = len(os.sched_getaffinity(0))
    return Machine(cores, memory, f"{platform.system()} {platform.release()}", sys.version.split()[0])


def this_commit() -> tuple[str, bool]:
    """Return the commit of the work tree, and whether something of it is not in the commit, but for this history."""
    changes = _git("status", "--porcelain", "--", ".", f":!{FOLDER.relative_to(ROOT)}/*.jsonl")
    return _git("rev-parse", "--short=12", "HEAD"), bool(changes)


def append(run: Run, folder: Path = FOLDER) -> Path:
    """Add a line to the history of the run's part and return its file; the line is on disk when it returns."""
    path = folder / f"{run.part}.jsonl"
    with path.open("a+b") as file:
        if file.seek(0, os.SEEK_END) and _last_byte(path) != b"\n":
            file.write(b"\n")  # behind one that was cut off
        file.write(msgspec.json.encode(run) + b"\n")
        file.flush()
        os.fsync(file.fileno())
    directory = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
    return path


def read(path: Path) -> list[Run]:
    """Return the runs of a part, oldest first; a line that was cut off is left out."""
    found: list[Run] = []
    for line in path.read_bytes().splitlines() if path.exists() else []:
        try:
            found.append(msgspec.json.decode(line, type=Run))
        except msgspec.DecodeError:
            continue
    return found


def _last_byte(path: Path) -> bytes:
    with path.open("rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read()


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()
