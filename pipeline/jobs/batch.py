"""A batch of the stream of trace events: one commit of the lake with what it read, and one with the rollups."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Final, NamedTuple

import msgspec
from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

from pipeline.errors import JobFailed
from pipeline.lake.batches import READ_LINE, ROLLUP_LINE, batch_name, batches_in, is_joined
from pipeline.lake.lake import Commit, Lake
from pipeline.lake.manifest import Manifest
from pipeline.schemas import BLOCKS, EVENTS, LEDGER, PROGRESS, QUALITY, ROLLUPS, SIDE
from pipeline.transforms.blocks import (
    FUTURE,
    GOOD,
    LATE,
    Allowance,
    blocks_of,
    events_of,
    ledger_of,
    malformed_of,
    misdated,
    parsed,
)
from pipeline.transforms.freshness import HAPPENED, Freshness, freshness, happened, read_points
from pipeline.transforms.quality import checks
from pipeline.transforms.rolling import rolled_up
from pipeline.watching import BatchProgress, Watcher

READ_AT: Final = "read_at"
"""The column that the stream adds to lines: when their batch began."""
_LEFT: Final = f"_progress/{READ_LINE}.json"
_STREAM: Final = "sql.streaming.queryId"
"""A local property of Spark, kept among a manifest's facts: the id that a checkpoint gives its stream."""


class Batch(NamedTuple):
    """A batch of which both commits are published.

    Attributes
    ----------
    read, rolled
        The commit of what it read, and that of the rollups.
    repeated
        Whether an earlier run of the stream had published both.
    """

    read: Manifest
    rolled: Manifest
    repeated: bool

    @property
    def number(self) -> int:
        """Spark's number of it."""
        return int(self.read.name)

    @property
    def verdicts(self) -> dict[str, int]:
        """Numbers of its events that are good, late and future-dated."""
        return {GOOD: 0, LATE: 0, FUTURE: 0, **self.read.facts.get(_VERDICTS, {})}

    @property
    def freshness(self) -> Freshness | None:
        """The age of its good events when their rollups could be read; None when it has none."""
        return freshness(self.verdicts[GOOD], self.read.facts.get(HAPPENED, ()), self.rolled.published)


class Sink:
    """Writes the batches, one after the other; Spark may repeat one.

    Attributes
    ----------
    failure
        What kept the last batch from being published.
    """

    def __init__(
        self, lake: Lake, allowance: Allowance, watcher: Watcher, done: Callable[[Batch], None] | None
    ) -> None:
        self.failure: Exception | None = None
        self._lake = lake
        self._allowance = allowance
        self._watcher = watcher
        self._done = done
        self._fresh: dict[int, Freshness | None] = {}
        self._joined = batches_in(each for each in lake.names(READ_LINE) if is_joined(each))
        self._goes_on = False

    def write(self, rows: DataFrame, number: int) -> None:
        """Publish what a batch brought, then the rollups of it; what was published before is left as it is."""
        try:
            self._write(rows, number)
        except Exception as error:
            self.failure = error  # Spark's own error has it only as a part of its text
            raise

    def close(self) -> None:
        """Keep the progress of the last batches in a file for the next run, which commits it with its first batch."""
        rows = self._progress()
        if rows:
            self._lake.storage.write(_LEFT, msgspec.json.encode(rows))

    def _write(self, rows: DataFrame, number: int) -> None:
        read = self._read(rows, number)
        rolled = roll_up(rows.sparkSession, self._lake, read)
        batch = Batch(read, rolled or self._lake.manifest(ROLLUP_LINE, read.name), repeated=rolled is None)
        self._fresh[number] = batch.freshness
        self._goes_on = True
        if self._done is not None:
            self._done(batch)

    def _read(self, rows: DataFrame, number: int) -> Manifest:
        """Return the commit of a batch's input, published by this run or by an earlier one."""
        name, stream = batch_name(number), rows.sparkSession.sparkContext.getLocalProperty(_STREAM)
        if number in self._joined:
            raise _another(number)
        commit = self._lake.begin(READ_LINE, name)
        if commit is None and self._goes_on:  # an earlier run can have published the first one of this run alone
            raise _beside(number)
        read = self._lake.manifest(READ_LINE, name) if commit is None else self._publish(commit, rows, number, stream)
        if read.facts.get(_STREAM, stream) != stream:
            raise _another(number)
        return read

    def _publish(self, commit: Commit, rows: DataFrame, number: int, stream: str | None) -> Manifest:
        started = time.monotonic()
        seen = _stage(self._lake, commit, rows, self._allowance)
        found = sum(file.rows for file in commit.staged(EVENTS))
        if found != seen[_ROWS]:
            raise JobFailed(
                f"Spark wrote {seen[_ROWS]} events of batch {number}, and the lake has {found} of them",
                hint="nothing of it was published; look whether the lake's name means the same to Spark",
            )
        now = dt.datetime.now(dt.UTC)
        commit.put(QUALITY, [{"batch": number, "measured": now, **row} for row in _quality(seen)])
        commit.put(PROGRESS, [*self._left(), *self._progress()])
        facts = {
            "seconds": round(time.monotonic() - started, 3),
            _STREAM: stream,
            _VERDICTS: {verdict: seen[verdict] for verdict in (GOOD, LATE, FUTURE)},
            HAPPENED: read_points(seen[HAPPENED]),
        }
        published = self._lake.publish(commit, facts=facts)
        if published.tables != commit.tables():
            raise _beside(number)
        return published

    def _progress(self) -> list[dict[str, Any]]:
        return [self._progress_row(each) for each in self._watcher.take()]

    def _progress_row(self, progress: BatchProgress) -> dict[str, Any]:
        fresh = self._fresh.pop(progress.batch, None)
        return {**progress.row(), **(fresh.row() if fresh is not None else {})}

    def _left(self) -> list[dict[str, Any]]:
        """Take the progress that an earlier run kept; after a kill it may be lost."""
        if not self._lake.storage.exists(_LEFT):
            return []
        rows: list[dict[str, Any]] = msgspec.json.decode(self._lake.storage.read(_LEFT))
        self._lake.storage.remove(_LEFT)
        return [{**row, "measured": dt.datetime.fromisoformat(row["measured"])} for row in rows]


def _another(number: int) -> JobFailed:
    return JobFailed(
        f"batch {number} is in the lake already: this checkpoint is not the one that the lake was written with",
        hint="give that one (--checkpoint), or begin another lake",
    )


def _beside(number: int) -> JobFailed:
    return JobFailed(
        f"batch {number} was published by another process, which rolls up into the same lake",
        hint="end one of them; what was committed stays",
    )


def roll_up(spark: SparkSession, lake: Lake, read: Manifest) -> Manifest | None:
    """Publish the rollups of what a commit read; None when they were published before."""
    commit = lake.begin(ROLLUP_LINE, read.name)
    if commit is None:
        return None
    events = lake.rows(spark, EVENTS, read.tables.get(EVENTS.name, ()))
    commit.stage(ROLLUPS, rolled_up(events.where(F.col("verdict") == GOOD)), files=1)
    return lake.publish(commit)


def _stage(lake: Lake, commit: Commit, rows: DataFrame, allowance: Allowance) -> dict[str, Any]:
    """Stage the tables of what a batch brought, and return what was counted on the way."""
    # Persisted: reading the rows twice would run the stream's state twice, and parse the lines for each table.
    lines, seen = parsed(rows.drop(READ_AT)).persist(), Observation()
    try:
        commit.stage(EVENTS, events_of(lines, allowance).observe(seen, *_counts()))
        events = lake.rows(rows.sparkSession, EVENTS, commit.staged(EVENTS))
        small = [partial(commit.stage, BLOCKS, blocks_of(lines), files=1)]
        small.append(partial(commit.stage, LEDGER, ledger_of(lines), files=1))
        small.append(partial(commit.stage, SIDE, malformed_of(lines).unionByName(misdated(events)), files=1))
        with ThreadPoolExecutor() as pool:  # concurrently, since each spends most of its time waiting
            for each in [pool.submit(stage) for stage in small]:
                each.result()
    finally:
        lines.unpersist()
    return seen.get


_ROWS: Final = "rows"
_VERDICTS: Final = "verdicts"


def _counts() -> list[Column]:
    verdict = F.col("verdict")
    broken = [F.count_if(~condition).alias(name) for name, condition in checks().items()]
    judged = [F.count_if(verdict == each).alias(each) for each in (GOOD, LATE, FUTURE)]
    return [F.count(F.lit(1)).alias(_ROWS), *broken, *judged, happened(verdict == GOOD).alias(HAPPENED)]


def _quality(seen: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"check": name, "rows": seen[_ROWS], "broken": seen[name]} for name in checks()]
