"""Jobs of the pipeline as processes that are killed when something can be seen of them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import msgspec

from pipeline.lake.batches import READ_LINE
from tests.harness.jobs import WITHIN
from tests.harness.process import Child, module
from tests.harness.waiting import wait_until

Seen = Callable[[], object]
Point = Callable[[], AbstractContextManager[Seen]]


class Job:
    """One command, run again and again; each time it starts from what the last one left."""

    def __init__(self, log: Path, *arguments: object) -> None:
        self._log = log
        self._arguments = (*arguments, "--json", "--memory", "1g", "--master", "local[2]")
        self._runs = 0

    def kill_at(self, point: Point) -> None:
        """Start it, and kill it with all that it started as soon as the point is seen."""
        with point() as seen, self._started() as child:
            wait_until(
                lambda: seen() or not child.running, within=WITHIN, what="the point", every=0.01, state=child.output
            )
            child.check_running()

    def finish(self) -> list[Any]:
        """Run it to its end, and return what it told."""
        with self._started() as child:
            assert child.wait(WITHIN) == 0, child.output()
            text = child.log.read_text()
        return [msgspec.json.decode(part) for part in _documents(text)]

    @contextmanager
    def _started(self) -> Iterator[Child]:
        self._runs += 1
        log = self._log.with_suffix(f".{self._runs}.log")
        with Child(module("pipeline", *self._arguments), log=log) as child:
            yield child


def files_below(folder: Path) -> set[str]:
    """Return the files of a folder that others write to meanwhile, those that are half written among them."""
    return {f"{at}/{name}" for at, _, names in os.walk(folder) for name in names}


def batches_noted(lake: Path, what: str) -> int:
    """Return how many batches the stream of a lake noted among its ``offsets``, or its ``commits``."""
    return len(list((lake / "_checkpoints" / READ_LINE / what).glob("[0-9]*")))


@contextmanager
def appears(folder: Path, suffix: str) -> Iterator[Seen]:
    """See a file that was not there when the job was started, under the name that it keeps."""
    before = files_below(folder)
    yield lambda: any(name.endswith(suffix) for name in files_below(folder) - before)


@contextmanager
def changes(file: Path) -> Iterator[Seen]:
    """See a file that was written anew."""
    before = _bytes(file)
    yield lambda: _bytes(file) != before


def _bytes(file: Path) -> bytes:
    return file.read_bytes() if file.exists() else b""


def _documents(text: str) -> Iterator[str]:
    """Yield the JSON of an output: a document on each line, or one on several; Spark's warnings stand beside it."""
    lines: list[str] = []
    for line in text.splitlines():
        if lines or line.startswith("{"):
            lines.append(line)
        if lines and line.endswith("}") and (len(lines) == 1 or line == "}"):
            yield "\n".join(lines)
            lines = []
