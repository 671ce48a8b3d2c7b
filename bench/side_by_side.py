"""Two ways to the same result, each in a process of its own whose memory is watched."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NamedTuple

from bench.events import LINE
from bench.usage import Usage
from pipeline.lake.lake import Lake
from pipeline.lake.storage import Storage
from pipeline.schemas import Table

CORES = 2
HEAP = "3g"
LONGEST = 3600.0

Work = Callable[[Sequence[Path], Path, Connection], None]
"""Gets lakes, a folder and a pipe; sends None once it is ready, then what each lake ``Took``."""


class Took(NamedTuple):
    """What a tool says of a lake: seconds, the result, which is compared, and how many jobs and tasks Spark had."""

    seconds: float
    result: tuple[int, ...]
    jobs: int = 0
    tasks: int = 0


class Done(NamedTuple):
    """The same, with most bytes of memory and seconds of processor time of all its processes."""

    took: Took
    memory: int
    cpu: float


def watched(work: Work, lakes: Sequence[Path], folder: Path) -> list[Done]:
    """Run work over lakes, one after the other; raises ``EOFError`` when it ends early."""
    context = multiprocessing.get_context("spawn")
    mine, its = context.Pipe(duplex=False)
    process = context.Process(target=work, args=(list(lakes), folder, its))
    process.start()
    its.close()
    usage = Usage([process.pid or 0])
    try:
        _next(mine, usage)
        found = [_next(mine, usage) for _ in lakes]
        process.join(60)
    finally:
        process.kill()
        process.join()
    return found


def in_a_process(work: Callable[..., None], *given: object) -> None:
    """Run work in a process of its own, so that its session and its memory are gone afterwards."""
    process = multiprocessing.get_context("spawn").Process(target=work, args=given)
    process.start()
    process.join(LONGEST)
    if process.exitcode != 0:
        process.kill()
        raise ChildProcessError(f"{work.__name__} ended with {process.exitcode}")


def files_of(lake: Path, table: Table) -> list[str]:
    """Return the Parquet files of a table of a lake that was generated."""
    place = Lake(Storage(str(lake)))
    return [place.storage.url(file.path) for file in place.files(table, line=LINE)]


def _next(pipe: Connection, usage: Usage) -> Done:
    """Return what work tells next, with the most memory and the processor time until then."""
    most, began, deadline = 0, usage.cpu(), time.monotonic() + LONGEST
    while not pipe.poll(0.2):
        most = max(most, usage.memory())
        if time.monotonic() > deadline:
            raise TimeoutError("it took too long")
    return Done(pipe.recv(), max(most, usage.memory()), usage.cpu() - began)
