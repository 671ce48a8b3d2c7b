"""Runs of the fuzzer, each in a process of its own; inputs that reach new code are kept for the next run."""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

import httptools
import msgspec

from tests.fuzz.targets import target
from tests.harness.process import ROOT

KEPT: Final = ROOT / ".cache" / "fuzz"
FINDINGS: Final = Path(__file__).with_name("findings")
"""Inputs that broke something once, in a folder for each target."""
_FUZZED: Final = ("admin/access", "bus", "lookup", "receiver", "tests/fuzz", "tests/harness", "tests/unit/receiver")
_PIECE: Final = 60
_STARTED: Final = 120.0
_SHOWN: Final = 4000
_EXECUTIONS: Final = re.compile(r"number_of_executed_units: (\d+)")
_LIMITS: Final = ("-max_len=4096", "-rss_limit_mb=2048", "-timeout=20", "-print_final_stats=1")


class Piece(msgspec.Struct, frozen=True):
    """One run: of which code, for how many seconds, and how many inputs were tried."""

    code: str
    seconds: float
    executions: int


def inputs(name: str) -> Iterator[bytes]:
    """Yield the examples of a target, and what broke it once."""
    yield from target(name).examples
    for finding in sorted(FINDINGS.joinpath(name).glob("*")):
        yield finding.read_bytes()


def fuzz(name: str, folder: Path, seconds: int, *options: str) -> int:
    """Fuzz a target for so long, from the inputs in a folder and into it, and return how many were tried.

    Raises
    ------
    AssertionError
        An input broke it, took too long, or too much memory; the text says where that input is.
    """
    corpus = folder / "corpus"
    corpus.mkdir(parents=True, exist_ok=True)
    for content in inputs(name):
        corpus.joinpath(hashlib.sha256(content).hexdigest()).write_bytes(content)
    argv = [sys.executable, "-m", "tests.fuzz", name, corpus, f"-artifact_prefix={folder}/", *_LIMITS, *options]
    done = subprocess.run(
        [*argv, f"-max_total_time={seconds}"],
        capture_output=True,
        check=False,
        cwd=ROOT,
        env={"PYTHONHASHSEED": "0"},
        timeout=seconds + _STARTED,
    )
    said = (done.stderr + done.stdout).decode("utf-8", "replace")  # an exception is in the second
    found = _EXECUTIONS.search(said)
    assert done.returncode == 0, f"{name} was broken; the input is in {folder}\n{said[-_SHOWN:]}"
    assert found is not None, said[-_SHOWN:]
    return int(found[1])


def fuzz_at_length(name: str, seconds: int) -> int:
    """Fuzz a target for so long in pieces, after those that were done of the same code; return all executions."""
    folder, code = KEPT / name, _code()
    while (done := _done(folder, code)).seconds < seconds:
        begun = time.monotonic()
        executions = fuzz(name, folder, min(_PIECE, round(seconds - done.seconds) + 1))
        piece = Piece(code, time.monotonic() - begun, executions)
        with _pieces(folder).open("ab") as file:
            file.write(msgspec.json.encode(piece) + b"\n")
    return done.executions


def _code() -> str:
    """Return a digest of the files of the parsers and their targets, and of what parses below them."""
    digest = hashlib.sha256(httptools.__version__.encode())
    for file in sorted(file for folder in _FUZZED for file in ROOT.joinpath(folder).rglob("*.py")):
        digest.update(file.read_bytes())
    return digest.hexdigest()


def _done(folder: Path, code: str) -> Piece:
    path = _pieces(folder)
    pieces = []
    for line in path.read_bytes().splitlines() if path.exists() else ():
        with suppress(msgspec.DecodeError):  # one that was cut off
            pieces.append(msgspec.json.decode(line, type=Piece))
    mine = [piece for piece in pieces if piece.code == code]
    return Piece(code, sum(piece.seconds for piece in mine), sum(piece.executions for piece in mine))


def _pieces(folder: Path) -> Path:
    return folder / "pieces.jsonl"
