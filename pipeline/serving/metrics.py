"""The figures of runs for Prometheus, beside those of the rollup; times in seconds."""

from __future__ import annotations

from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from bus.domain.pipelines import Run
from bus.domain.times import parse_time

_SECONDS: Final = (1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1800, 3600)


class RunMetrics:
    """The metrics of the runs of one process, in a registry."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._runs = Counter(
            "bus_pipeline_runs", "Runs that ended, by job and verdict.", ("job", "verdict"), registry=registry
        )
        self._seconds = Histogram(
            "bus_pipeline_run_seconds", "Time of one run.", ("job",), buckets=_SECONDS, registry=registry
        )
        self._ended = Gauge(
            "bus_pipeline_last_run_timestamp_seconds", "When a job ended last.", ("job",), registry=registry
        )
        self._found = Gauge(
            "bus_pipeline_found",
            "What the last proof found, by kind: missing, contradicted.",
            ("kind",),
            registry=registry,
        )
        self._told = Gauge(
            "bus_pipeline_told_timestamp_seconds",
            "When the bus took what the pipeline tells of itself.",
            registry=registry,
        )

    def ended(self, run: Run) -> None:
        """Count a run that has ended."""
        began, ended = (parse_time(time or run.began_at) / 1000 for time in (run.began_at, run.ended_at))
        self._runs.labels(run.job, run.verdict).inc()
        self._seconds.labels(run.job).observe(max(0.0, ended - began))
        self._ended.labels(run.job).set(ended)
        for kind in ("missing", "contradicted"):
            if kind in run.figures:
                self._found.labels(kind).set(run.figures[kind])

    def told(self) -> None:
        """Note that a report reached the bus just now."""
        self._told.set_to_current_time()
