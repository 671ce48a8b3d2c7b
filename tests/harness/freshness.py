"""The age of events when their rollups could be read: from the lake's files, one event after the other."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
from pyarrow import compute, parquet

from pipeline.jobs.batch import Batch
from pipeline.lake.batches import READ_LINE, ROLLUP_LINE
from pipeline.lake.lake import Lake
from pipeline.lake.storage import Storage
from pipeline.schemas import EVENTS


class Aged(NamedTuple):
    """A batch with the ages of its good events in seconds, ascending."""

    batch: Batch
    ages: list[float]


def aged_batches(root: Path, since: int = 0) -> list[Aged]:
    """Return the batches of a lake in their order, from a number on."""
    lake = Lake(Storage(str(root)))
    rolled = {each.name: each for each in lake.manifests(ROLLUP_LINE)}
    both = [Batch(each, rolled[each.name], False) for each in lake.manifests(READ_LINE) if each.name in rolled]
    return [Aged(batch, _ages(root, batch)) for batch in both if batch.number >= since]


def share_of(ages: Iterable[float], share: float) -> float:
    """Return the age that this share did not exceed; NaN of none."""
    ordered = sorted(ages)
    return ordered[min(int(share * len(ordered)), len(ordered) - 1)] if ordered else float("nan")


def _ages(root: Path, batch: Batch) -> list[float]:
    paths = [root / file.path for file in batch.read.tables[EVENTS.name] if file.rows]
    return sorted((batch.rolled.published - at) / 1000 for path in paths for at in _times(path))


def _times(path: Path) -> list[int]:
    rows = parquet.read_table(path, columns=["at", "verdict"])
    good = rows.filter(compute.equal(rows["verdict"], "good"))["at"]
    return [int(at) for at in good.cast(pa.timestamp("ms", "UTC")).cast("int64").to_pylist()]
