"""Runs the ``bus`` program with what its hot path costs counted: ``python -m tests.harness.counted up ...``.

The counts go to the file that ``COUNTS_FILE`` names, where another process reads them while this one works
(`tests.harness.counts`). fsyncs are counted by ``counted.c``, everything else here. What uvloop calls from C is no
callback of these figures.
"""

from __future__ import annotations

import mmap
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw

from bus.cli import main
from bus.network.event_loop import EventLoop
from bus.spool.committer import Committer
from bus.spool.file import SpoolFile
from tests.harness.counts import COUNTERS, size_of


class _Counts:
    def __init__(self, path: Path) -> None:
        with path.open("r+b") as file:
            self._words = memoryview(mmap.mmap(file.fileno(), size_of(COUNTERS))).cast("Q")
        self._places = {name: place for place, name in enumerate(COUNTERS)}

    def counter(self, name: str) -> Callable[[int], None]:
        """Return what adds to a count."""
        words, place = self._words, self._places[name]

        def add(number: int) -> None:
            words[place] += number

        return add

    def counting(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function that does the same and counts its calls."""
        words, place = self._words, self._places[name]

        def counted(*args: Any, **kwargs: Any) -> Any:
            words[place] += 1
            return real(*args, **kwargs)

        return counted


def count(counts: _Counts) -> None:
    """Have the event loop, the spools and the store counted from now on."""
    counted = {
        "create_task": "tasks",
        "create_future": "futures",
        "run_in_executor": "hand_overs",
        **dict.fromkeys(("call_soon", "call_soon_threadsafe", "call_later", "call_at"), "callbacks"),
    }
    for method, name in counted.items():
        setattr(EventLoop, method, counts.counting(name, getattr(EventLoop, method)))
    Committer.run = counts.counting("hand_overs", Committer.run)  # type: ignore[method-assign]
    SpoolFile.commit = counts.counting("commits", SpoolFile.commit)  # type: ignore[method-assign]
    _count_records(counts.counter("records"))
    _count_statements(counts.counter("statements"))


def _count_records(add: Callable[[int], None]) -> None:
    insert = SpoolFile.insert

    def counted(file: SpoolFile, rows: Any) -> None:
        add(len(rows))
        insert(file, rows)

    SpoolFile.insert = counted  # type: ignore[method-assign]


def _count_statements(add: Callable[[int], None]) -> None:
    """Count the statements of the store's files; the spools' are told by their records."""

    def trace(_: dict[str, Any]) -> None:
        add(1)

    def opened(connection: apsw.Connection) -> None:
        if "/store/" in connection.filename:
            connection.trace_v2(apsw.SQLITE_TRACE_STMT, trace)

    apsw.connection_hooks.append(opened)


if __name__ == "__main__":
    count(_Counts(Path(os.environ["COUNTS_FILE"])))
    sys.exit(main())
