"""The stream's own figures: a listener keeps what Spark says of each batch."""

from __future__ import annotations

import datetime as dt
import threading
import time
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from bus.domain.times import parse_time


class BatchProgress(NamedTuple):
    """Spark's report of one batch (``schemas.PROGRESS``); times in milliseconds, sizes in bytes.

    ``lag`` is how many records of Kafka were not read yet, in the partition that is the furthest behind; 0 for files.
    """

    query: str
    batch: int
    measured: int
    rows: int
    rows_per_second: int
    batch_ms: int
    state_rows: int
    state_bytes: int
    dropped_by_watermark: int
    lag: int

    def row(self) -> dict[str, Any]:
        """Return it as a row of the table."""
        return {**self._asdict(), "measured": dt.datetime.fromtimestamp(self.measured / 1000, dt.UTC)}


class Watcher(StreamingQueryListener):
    """Keeps the progress of batches until it is taken for the next commit; Spark calls it in a thread of its own.

    ``tell`` is called in that thread for each batch that had data.

    Attributes
    ----------
    dropped
        Lines that Spark dropped as older than its watermark, so far: none unless the machine's clock jumped.
    idle_since
        When Spark said last that there is nothing more to read, in monotonic seconds; None since a batch had data.
    ended
        Set once the query has ended and Spark makes no more calls.
    """

    def __init__(self, tell: Callable[[BatchProgress], None] | None = None) -> None:
        self.dropped = 0
        self.idle_since: float | None = None
        self.ended = threading.Event()
        self._lock = threading.Lock()
        self._kept: list[BatchProgress] = []
        self._tell = tell

    def take(self) -> list[BatchProgress]:
        """Return the reports since the last call."""
        with self._lock:
            kept, self._kept = self._kept, []
        return kept

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802 - Spark's name
        """Nothing is known yet."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        """Keep the batch's figures if it had data."""
        progress = _read(event.progress)
        self.idle_since = None if progress.rows else time.monotonic()
        self.dropped += progress.dropped_by_watermark
        if progress.rows:
            with self._lock:
                self._kept.append(progress)
            if self._tell is not None:
                self._tell(progress)

    def onQueryIdle(self, _event: QueryIdleEvent) -> None:  # noqa: N802
        """Note that all that there was is read."""
        self.idle_since = time.monotonic()

    def onQueryTerminated(self, _event: QueryTerminatedEvent) -> None:  # noqa: N802
        """Nothing comes after this."""
        self.ended.set()


_LAG: Final = "maxOffsetsBehindLatest"


def _read(progress: Any) -> BatchProgress:
    states = progress.stateOperators
    lags = [int(source.metrics.get(_LAG, 0)) for source in progress.sources if source.metrics]
    return BatchProgress(
        query=progress.name or "",
        batch=progress.batchId,
        measured=parse_time(progress.timestamp),
        rows=progress.numInputRows,
        rows_per_second=round(progress.processedRowsPerSecond),
        batch_ms=progress.batchDuration,
        state_rows=sum(state.numRowsTotal for state in states),
        state_bytes=sum(state.memoryUsedBytes for state in states),
        dropped_by_watermark=sum(state.numRowsDroppedByWatermark for state in states),
        lag=max(lags, default=0),
    )
