"""The stream's figures for Prometheus, in a registry and on a port of their own; times in seconds."""

from __future__ import annotations

import errno
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics, start_http_server
from prometheus_client.core import HistogramMetricFamily
from prometheus_client.registry import Collector

from bus.errors import ConfigurationError
from pipeline.jobs.batch import Batch
from pipeline.schemas import SIDE
from pipeline.transforms.blocks import GOOD, MALFORMED
from pipeline.transforms.freshness import Freshness
from pipeline.watching import BatchProgress

disable_created_metrics()  # type: ignore[no-untyped-call]  # no series of their creation times

_BATCH_SECONDS: Final = (0.5, 1, 2, 3, 5, 10, 20, 30, 60, 120, 300, 600)
_AGES: Final = (1, 2, 3, 5, 7, 10, 15, 20, 30, 60, 120, 300, 600, 1800, 3600, 21600, 86400)


class _FreshnessHistogram(Collector):
    """A histogram that takes the ages of a whole batch at once, where ``Histogram`` takes single values."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts = [0] * (len(_AGES) + 1)
        self._sum = 0.0

    def add(self, fresh: Freshness) -> None:
        """Count the events of a batch."""
        with self._lock:
            for place, age in enumerate(_AGES):
                self._counts[place] += fresh.not_older(age)
            self._counts[-1] += fresh.events
            self._sum += fresh.total()

    def collect(self) -> Iterator[HistogramMetricFamily]:
        """Yield the histogram."""
        with self._lock:
            bounds = [*(str(float(age)) for age in _AGES), "+Inf"]
            buckets = list(zip(bounds, [float(count) for count in self._counts], strict=True))
            yield HistogramMetricFamily(
                "bus_rollup_freshness_seconds",
                "Age of a good event when the rollups that count it could be read.",
                buckets=buckets,
                sum_value=self._sum,
            )


class StreamMetrics:
    """The metrics of one run of the stream; written in Spark's threads, read in the HTTP server's."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._freshness = _FreshnessHistogram()
        self.registry.register(self._freshness)
        self._batches = self._counter("batches", "Batches of which both commits were published.")
        self._events = self._counter("events", "Events read, by verdict.", "verdict")
        self._side = self._counter("side_rows", "Rows that no rollup counts, by verdict.", "verdict")
        self._rows = self._counter("rows", "Lines read from the source.")
        self._dropped = self._counter("dropped_by_watermark", "Lines that Spark's state dropped; it must stay 0.")
        self._seconds = Histogram(
            "bus_rollup_batch_seconds", "Time of one batch.", buckets=_BATCH_SECONDS, registry=self.registry
        )
        self._rate = self._gauge("rows_per_second", "Lines a second of the last batch.")
        self._state_rows = self._gauge("state_rows", "Blocks that are remembered, to recognise repeats.")
        self._state_bytes = self._gauge("state_bytes", "Memory and disk of that.")
        self._lag = self._gauge("lag", "Records of Kafka that were not read at the last batch; 0 for files.")
        self._committed = self._gauge("last_commit_timestamp_seconds", "When the last rollups were published.")

    def committed(self, batch: Batch) -> None:
        """Count a batch whose commits are published, unless an earlier run published them and counted it."""
        if batch.repeated:
            return
        self._batches.inc()
        verdicts = batch.verdicts
        for verdict, count in verdicts.items():
            self._events.labels(verdict).inc(count)
        misdated = {verdict: count for verdict, count in verdicts.items() if verdict != GOOD}
        malformed = batch.read.rows(SIDE.name) - sum(misdated.values())
        for verdict, count in (misdated | {MALFORMED: malformed}).items():
            self._side.labels(verdict).inc(count)
        self._committed.set(batch.rolled.published / 1000)
        if (fresh := batch.freshness) is not None:
            self._freshness.add(fresh)

    def progressed(self, progress: BatchProgress) -> None:
        """Take what Spark says of a batch."""
        self._rows.inc(progress.rows)
        self._dropped.inc(progress.dropped_by_watermark)
        self._seconds.observe(progress.batch_ms / 1000)
        self._rate.set(progress.rows_per_second)
        self._state_rows.set(progress.state_rows)
        self._state_bytes.set(progress.state_bytes)
        self._lag.set(progress.lag)

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(f"bus_rollup_{name}", text, labels, registry=self.registry)

    def _gauge(self, name: str, text: str) -> Gauge:
        return Gauge(f"bus_rollup_{name}", text, registry=self.registry)


@contextmanager
def serve(metrics: StreamMetrics, host: str, port: int) -> Iterator[None]:
    """Serve metrics over HTTP for the ``with`` block; raises ``ConfigurationError`` when it cannot listen there."""
    try:
        server, thread = start_http_server(port, host, metrics.registry)
    except OSError as error:
        reason = "in use" if error.errno == errno.EADDRINUSE else (error.strerror or str(error))
        raise ConfigurationError(
            f"cannot listen on {host}:{port}: {reason}", hint="choose another with --metrics-port"
        ) from error
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
