"""Rollup and reconcile on Spark beside DuckDB, over the same Parquet, on two cores each and one after the other.

``python -m bench.pipeline LAKE...`` measures lakes that ``python -m bench.events`` made.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from rich.console import Console

from bench import proving, rolling
from bench.events import LINE, MONDAY, generate
from bench.machine import Machine
from bench.report import Report, Row, against_limit
from bench.run import FULL, QUICK, Run
from bench.side_by_side import CORES, HEAP, Done, Work, in_a_process, watched
from bench.trace_day import Traffic
from pipeline.lake.lake import Lake
from pipeline.lake.storage import Storage
from pipeline.schemas import EVENTS
from pipeline.session import open_session

SECTION = "pipeline"
MOST_MEMORY = 3 * 2**30
SIZES = {QUICK: (200_000, 400_000), FULL: (100_000, 1_000_000, 5_000_000, 20_000_000, 50_000_000)}
NORMAL_SIZES = (1_000_000, 2_000_000)
LOST = 20_000
JOBS: dict[str, tuple[Work, Work]] = {
    "rollup": (rolling.by_spark, rolling.by_duckdb),
    "reconcile": (proving.by_spark, proving.by_duckdb),
}


def measure(run: Run) -> list[Row]:
    """Generate the events of each size, then return the rows."""
    with run.place() as folder:
        lakes = []
        for count in SIZES.get(run.size, NORMAL_SIZES):
            run.step(f"generating {count:,} trace events")
            lakes.append(folder / f"{count}")
            in_a_process(_generate, lakes[-1], count)
        return rows_of(lakes, folder, run.step)


def rows_of(lakes: Sequence[Path], folder: Path, step: Callable[[str], None]) -> list[Row]:
    """Measure both jobs over lakes and return the rows; raises ``ValueError`` when the two do not come to the same."""
    counts = [_events_in(lake) for lake in lakes]
    rows = []
    for name, works in JOBS.items():
        done = []
        for work, tool in zip(works, ("Spark", "DuckDB"), strict=True):
            step(f"{name}, {tool}")
            done.append(watched(work, lakes, folder))
        for count, mine, theirs in zip(counts, *done, strict=True):
            rows += _rows(name, count, mine, theirs)
    return rows


def _rows(name: str, events: int, mine: Done, theirs: Done) -> list[Row]:
    if mine.took.result != theirs.took.result:
        raise ValueError(f"{name} of {events} events: Spark and DuckDB do not come to the same: {mine} {theirs}")
    seconds = [[done.took.seconds] for done in (mine, theirs)]
    what = f"{name} of {events / 1e6:g} million events"
    spark = f"{mine.took.jobs} jobs, {mine.took.tasks} tasks"
    return [
        Row(SECTION, what, seconds[0], "s", "DuckDB", seconds[1], note=spark),
        Row(SECTION, "its processor time", [mine.cpu], "s", "DuckDB", [theirs.cpu]),
        against_limit(SECTION, "its memory, driver and executor", [mine.memory / 2**20], "MiB", MOST_MEMORY / 2**20),
    ]


def _events_in(lake: Path) -> int:
    return sum(file.rows for file in Lake(Storage(str(lake))).files(EVENTS, line=LINE))


def _generate(lake: Path, count: int) -> None:
    spark = open_session("events", master=f"local[{CORES}]", memory=HEAP)
    generate(spark, Lake(Storage(str(lake))), Traffic(count, MONDAY, lost=LOST))
    spark.stop()


def main() -> int:
    report = Report(Machine.here())
    with tempfile.TemporaryDirectory(prefix="bus-bench-") as folder:
        report.rows = rows_of([Path(name) for name in sys.argv[1:]], Path(folder), lambda _: None)
    report.show(Console(width=150))
    return 0


if __name__ == "__main__":
    sys.exit(main())
