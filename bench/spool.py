"""The spool's speed, as ratios to a raw file on the same disk in the same run.

Run ``python -m bench.spool [--json] [--directory DIR]``; medians of 3.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from bus.ports.spool import NewRecord
from bus.spool import AsyncSpool, BlockingSpool, Options

PAYLOAD = os.urandom(1024)
CALLERS = 64
RUNS = 3


def raw(directory: Path, batch: int, batches: int) -> float:
    descriptor = os.open(directory / "raw", os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    data = PAYLOAD * batch
    start = time.perf_counter()
    for _ in range(batches):
        os.write(descriptor, data)
        os.fdatasync(descriptor)
    elapsed = time.perf_counter() - start
    os.close(descriptor)
    return batch * batches / elapsed


def blocking(directory: Path, appends: int) -> float:
    with BlockingSpool(directory / "spool") as spool:
        start = time.perf_counter()
        for _ in range(appends):
            spool.append([NewRecord("lane", PAYLOAD, 1)])
        return appends / (time.perf_counter() - start)


async def concurrent(directory: Path, callers: int, each: int, lanes: int = 1) -> float:
    async with await AsyncSpool.open(directory / "spool") as spool:

        async def call(number: int) -> None:
            lane = f"lane-{number % lanes}"
            append = spool.append
            for _ in range(each):
                await append([NewRecord(lane, PAYLOAD, 1)])

        await spool.append([NewRecord(f"lane-{number}", PAYLOAD, 1) for number in range(lanes)])
        start = time.perf_counter()
        async with asyncio.TaskGroup() as group:
            for number in range(callers):
                group.create_task(call(number))
        return callers * each / (time.perf_counter() - start)


async def passing(directory: Path, callers: int, each: int) -> float:
    """Records a second that go all the way: appended, claimed from the cache, acked, deleted."""
    async with await AsyncSpool.open(directory / "spool", Options(consumers=("publish", "store"))) as spool:
        total = callers * each

        async def call() -> None:
            for _ in range(each):
                await spool.append([NewRecord("lane", PAYLOAD, 1)])

        async def consume(consumer: str) -> None:
            left = total
            while left:
                await spool.wait(consumer)
                for lane in spool.lanes(consumer):
                    records = await spool.claim(consumer, 256, lane)
                    spool.ack(consumer, records)
                    left -= len(records)

        start = time.perf_counter()
        async with asyncio.TaskGroup() as group:
            for _ in range(callers):
                group.create_task(call())
            group.create_task(consume("publish"))
            group.create_task(consume("store"))
        await spool.settle()
        return total / (time.perf_counter() - start)


def run_async(make: Callable[..., object], *arguments: object) -> float:
    try:
        import uvloop  # noqa: PLC0415
    except ImportError:
        return asyncio.run(make(*arguments))  # type: ignore[arg-type]
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(make(*arguments))  # type: ignore[arg-type]


CASES: dict[str, Callable[[Path], float]] = {
    "raw file, append + fdatasync one at a time": lambda path: raw(path, 1, 1500),
    "raw file, batches of 64": lambda path: raw(path, 64, 1000),
    "BlockingSpool, one caller": lambda path: blocking(path, 1500),
    "AsyncSpool, one caller": lambda path: run_async(concurrent, path, 1, 1500),
    "AsyncSpool, 64 callers": lambda path: run_async(concurrent, path, CALLERS, 1000),
    "AsyncSpool, 64 callers in 64 lanes": lambda path: run_async(concurrent, path, CALLERS, 500, 64),
    "AsyncSpool, 64 callers, claimed and acked by two": lambda path: run_async(passing, path, CALLERS, 500),
}
BASE = {"BlockingSpool, one caller": 0, "AsyncSpool, one caller": 0}


def measure(parent: Path) -> dict[str, float]:
    figures: dict[str, list[float]] = {name: [] for name in CASES}
    for _ in range(RUNS):
        for name, case in CASES.items():
            directory = Path(tempfile.mkdtemp(dir=parent))
            try:
                figures[name].append(case(directory))
            finally:
                shutil.rmtree(directory)
            print(".", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    return {name: statistics.median(values) for name, values in figures.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--directory", type=Path, default=Path())
    options = parser.parse_args()
    figures = measure(options.directory)
    names = list(figures)
    rows = {
        name: {"records_per_s": round(rate), "ratio": round(rate / figures[names[BASE.get(name, 1)]], 3)}
        for name, rate in figures.items()
    }
    rows[names[0]]["ratio"] = 1.0
    if options.json:
        print(json.dumps(rows, indent=2))
        return
    for name, row in rows.items():
        against = "one at a time" if BASE.get(name, 1) == 0 or name == names[0] else "batches of 64"
        print(f"{name:52} {row['records_per_s']:>9,}/s  {row['ratio']:.2f} x raw, {against}")


if __name__ == "__main__":
    main()
