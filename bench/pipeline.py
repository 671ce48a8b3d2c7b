"""Rollups of Spark beside DuckDB, over the same Parquet, on two cores each and one after the other.

``python -m bench.pipeline LAKE...`` measures lakes that ``python -m bench.events`` made.
"""

from __future__ import annotations

import multiprocessing
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NamedTuple

import duckdb
from pyspark.sql import functions as F
from rich.console import Console

from bench.events import LINE, MONDAY, generate
from bench.report import Report, Row, against_limit
from bench.run import FULL, QUICK, Run
from bench.trace_day import Traffic
from bench.usage import Usage
from pipeline.lake.lake import Lake
from pipeline.lake.storage import Storage
from pipeline.schemas import EVENTS
from pipeline.session import open_session
from pipeline.transforms.histogram import GROWTH
from pipeline.transforms.rolling import rolled_up

SECTION = "pipeline"
CORES = 2
HEAP = "3g"
MOST_MEMORY = 4 * 2**30
SIZES = {QUICK: (200_000, 400_000), FULL: (2_000_000, 5_000_000, 20_000_000)}
NORMAL_SIZES = (1_000_000, 2_000_000)
LONGEST = 3600.0
_DUCKDB = f"""
COPY (
  SELECT minute, stage, destination, subscription,
    count(*) AS events,
    count(*) FILTER (status = 'delivered') AS delivered,
    count(*) FILTER ((attempt > 0 AND status <> 'delivered') OR status = 'failed') AS failed,
    count(*) FILTER (attempt > 1) AS retries,
    sum(bytes)::BIGINT AS bytes,
    approx_count_distinct(biz_id) FILTER (biz_id <> '') AS biz_ids,
    histogram(ceil(ln(greatest(latency_us, 1)) / ln({GROWTH}))::INTEGER)
      FILTER (status = 'delivered' AND latency_us >= 0) AS latency
  FROM read_parquet(?) WHERE verdict = 'good' GROUP BY ALL
) TO '{{target}}' (FORMAT parquet, COMPRESSION zstd)
"""
_TOTALS = """
SELECT count(*), sum(events), sum(delivered), sum(failed), sum(retries), sum(bytes),
  sum(list_sum(map_values(latency))), sum(list_sum(map_keys(latency)))
FROM read_parquet(?)
"""


class Figures(NamedTuple):
    """Seconds of each size, most memory of each in bytes, and where the results are."""

    seconds: list[float]
    memory: list[int]
    results: list[Path]


def measure(run: Run) -> list[Row]:
    """Generate the events of each size, then return the rows."""
    with run.place() as folder:
        lakes = []
        for count in SIZES.get(run.size, NORMAL_SIZES):
            run.step(f"generating {count:,} trace events")
            lakes.append(folder / f"{count}")
            _in_a_process(_generate, lakes[-1], count)
        return rows_of(lakes, folder, run.step)


def rows_of(lakes: Sequence[Path], folder: Path, step: Callable[[str], None]) -> list[Row]:
    """Measure both over lakes and return the rows; raises ``ValueError`` when they do not come to the same."""
    step("rolling up, Spark")
    spark = _figures(_spark, lakes, folder)
    step("rolling up, DuckDB")
    duck = _figures(_duckdb, lakes, folder)
    rows = []
    for place, lake in enumerate(lakes):
        events = _agreed(spark.results[place], duck.results[place])
        speeds = [events / figures.seconds[place] / CORES for figures in (spark, duck)]
        name = f"rollup of {events / 1e6:.1f} million events"
        rows.append(Row(SECTION, name, [speeds[0]], "/s a core", "DuckDB", [speeds[1]], note=lake.name))
        memory = [spark.memory[place] / 2**20]
        limit = MOST_MEMORY / 2**20
        rows.append(against_limit(SECTION, "its memory, driver and executor", memory, "MiB", limit))
    return rows


def files_of(lake: Path) -> list[str]:
    """Return the Parquet files of the events of a lake."""
    place = Lake(Storage(str(lake)))
    return [place.storage.url(file.path) for file in place.files(EVENTS, line=LINE)]


def _agreed(mine: Path, theirs: Path) -> int:
    """Return how many events both results have."""
    totals = [duckdb.execute(_TOTALS, [str(each)]).fetchone() for each in (mine / "*.parquet", theirs)]
    if totals[0] != totals[1] or totals[0] is None:
        raise ValueError(f"Spark and DuckDB do not come to the same: {totals}")
    return int(totals[0][1])


def _spark(files: Sequence[Sequence[str]], folder: Path, pipe: Connection) -> None:
    spark = open_session("bench", master=f"local[{CORES}]", memory=HEAP)
    spark.conf.set("spark.sql.shuffle.partitions", str(2 * CORES))
    read = spark.read.schema(EVENTS.schema)
    # Once over a little: what Java compiles is not what is measured.
    rolled_up(read.parquet(files[0][0]).limit(100_000)).write.format("noop").mode("overwrite").save()
    pipe.send(0.0)
    for place, some in enumerate(files):
        began = time.monotonic()
        rolled_up(read.parquet(*some).where(F.col("verdict") == "good")).repartition(1).write.parquet(
            str(folder / f"spark-{place}")
        )
        pipe.send(time.monotonic() - began)
    spark.stop()


def _duckdb(files: Sequence[Sequence[str]], folder: Path, pipe: Connection) -> None:
    duckdb.execute(f"SET threads = {CORES}; SET memory_limit = '4GB'; SET TimeZone = 'UTC'")
    pipe.send(0.0)
    for place, some in enumerate(files):
        began = time.monotonic()
        duckdb.execute(_DUCKDB.format(target=folder / f"duckdb-{place}"), [list(some)])
        pipe.send(time.monotonic() - began)


def _figures(work: Callable[..., None], lakes: Sequence[Path], folder: Path) -> Figures:
    """Run work in a process of its own and watch its memory, and that of all it starts."""
    context = multiprocessing.get_context("spawn")
    mine, its = context.Pipe(duplex=False)
    process = context.Process(target=work, args=([files_of(lake) for lake in lakes], folder, its))
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
    name = work.__name__.strip("_")
    results = [folder / f"{name}-{place}" for place in range(len(lakes))]
    return Figures([seconds for seconds, _ in found], [memory for _, memory in found], results)


def _next(pipe: Connection, usage: Usage) -> tuple[float, int]:
    """Return the next seconds that work tells, and the most memory until then."""
    most, deadline = 0, time.monotonic() + LONGEST
    while not pipe.poll(0.2):
        most = max(most, usage.memory())
        if time.monotonic() > deadline:
            raise TimeoutError("a rollup took too long")
    return pipe.recv(), max(most, usage.memory())


def _in_a_process(work: Callable[..., None], *given: object) -> None:
    """Run work in a process of its own, so that its session and its memory are gone afterwards."""
    process = multiprocessing.get_context("spawn").Process(target=work, args=given)
    process.start()
    process.join(LONGEST)
    if process.exitcode != 0:
        process.kill()
        raise ChildProcessError(f"{work.__name__} ended with {process.exitcode}")


def _generate(lake: Path, count: int) -> None:
    spark = open_session("events", master=f"local[{CORES}]", memory=HEAP)
    generate(spark, Lake(Storage(str(lake))), Traffic(count, MONDAY), ledger=False)
    spark.stop()


def main() -> int:
    report = Report()
    with tempfile.TemporaryDirectory(prefix="bus-bench-") as folder:
        report.rows = rows_of([Path(name) for name in sys.argv[1:]], Path(folder), lambda _: None)
    report.show(Console(width=150))
    return 0


if __name__ == "__main__":
    sys.exit(main())
