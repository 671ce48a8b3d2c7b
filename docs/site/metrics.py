"""The reference of the metrics, from the collectors that count."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from prometheus_client import CollectorRegistry
from prometheus_client.metrics import MetricWrapperBase

from bus.telemetry import metrics
from docs.site.markdown import code, table

_HEAD: Final = """\
# Metrics

Written from the code. `GET /metrics` of each process has them for Prometheus;
[Operations](../operations.md#metrics-to-alarm-on) tells which to alarm on, and [the rules of alarms](alarms.md) have
the queries. Times are in seconds. A histogram has `_bucket`, `_sum` and `_count`.

"""
_STREAM: Final = """\
## The stream of the pipeline

`bus pipeline rollup` serves its own ([pipeline](../pipeline.md#rollup)); beside these `bus_rollup_freshness_seconds`,
a histogram of how old what a batch published was.

"""


def page() -> str:
    """Return the page."""
    return "\n".join([_HEAD, *of_processes(), _STREAM, *_table(_of_stream())])


def of_processes() -> list[str]:
    """Return the table of what the processes of the bus count."""
    return _table(own())


def own() -> list[MetricWrapperBase]:
    """Return the metrics of the processes of the bus."""
    return [value for value in vars(metrics).values() if isinstance(value, MetricWrapperBase)]


def _of_stream() -> list[MetricWrapperBase]:
    from pipeline.metrics import StreamMetrics  # noqa: PLC0415 - loads more than the others need

    return list(_registered(StreamMetrics().registry))


def _registered(registry: CollectorRegistry) -> Iterator[MetricWrapperBase]:
    found: Iterable[Any] = registry._collector_to_names  # noqa: SLF001 - it has no public way to its collectors
    yield from (each for each in found if isinstance(each, MetricWrapperBase))


def _table(found: Iterable[MetricWrapperBase]) -> list[str]:
    return table(("metric", "type", "labels", "meaning"), map(_row, found))


def _row(metric: MetricWrapperBase) -> list[str]:
    (told,) = metric.describe()
    name = f"{told.name}_total" if told.type == "counter" else told.name
    labels = ", ".join(map(code, metric._labelnames))  # noqa: SLF001 - nor to the names of labels
    return [code(name), told.type, labels, told.documentation]
