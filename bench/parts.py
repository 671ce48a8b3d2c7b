"""The benchmarks of single parts, each a module of its own that prints JSON: spool, poster, store."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
from typing import Any

from bench.report import Row
from bench.run import Run
from tests.harness.process import ROOT, module

SPOOL_TARGET = 0.5


def measure(run: Run) -> list[Row]:
    """Return the rows of every part that has a benchmark."""
    readers = {"spool": _spool, "poster": _poster, "store": _store}
    return [row for name, read in readers.items() if _exists(name) for row in read(_figures(run, name))]


def _exists(name: str) -> bool:
    return importlib.util.find_spec(f"bench.{name}") is not None


def _figures(run: Run, name: str) -> dict[str, Any]:
    run.step(f"the {name} alone")
    argv = module(f"bench.{name}", "--json")
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(argv, cwd=run.folder, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(argv)}: exit code {done.returncode}: {done.stderr[-500:]}")
    return dict(json.loads(done.stdout))


def _spool(figures: dict[str, Any]) -> list[Row]:
    single, batches = list(figures)[:2]
    rows = []
    for name, found in figures.items():
        if name not in {single, batches}:
            beside = single if "one caller" in name else batches
            target = SPOOL_TARGET if name.endswith("64 callers") else None
            rate, raw = found["records_per_s"], figures[beside]["records_per_s"]
            rows.append(Row("spool", name, [rate], "/s", beside, [raw], target))
    return rows


def _poster(figures: dict[str, Any]) -> list[Row]:
    rate, bare = figures["poster_per_second"], figures["bare_per_second"]
    return [Row("poster", "POSTs, 64 in flight", [rate], "/s", "bare httptools loop", [bare])]


def _store(figures: dict[str, Any]) -> list[Row]:
    costs = [
        Row("store", f"{name}, per message", [found["us"]], "us", "raw SQLite", [found["raw_us"]], lower=True)
        for name, found in figures["cost"].items()
    ]
    small, *_, large = figures["curve"]
    beside = f"{small['messages']:,.0f} messages"
    at = f"with {large['messages']:,.0f} messages"
    curve = [
        Row("store", f"{name} {at}", [large[name]], "ms", beside, [small[name]], lower=True)
        for name in large
        if name != "messages"
    ]
    return costs + curve
