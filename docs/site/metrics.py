"""The reference of the metrics, from the collectors that count."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from prometheus_client import CollectorRegistry, Metric, ProcessCollector
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

`bus pipeline rollup` and `serve` serve it on `--metrics-port` ([pipeline](../pipeline.md#rollup)); beside these
`bus_rollup_freshness_seconds`, a histogram of how old what a batch published was. The figures of runs are of `serve`.

"""


def page() -> str:
    """Return the page."""
    return "\n".join([_HEAD, *of_processes(), _STREAM, *_table(map(_row, _of_stream()))])


def of_processes() -> list[str]:
    """Return the table of what the processes of the bus count, and of what is told of any process."""
    told = [[code(_sample(one)), one.type, "", one.documentation] for one in ProcessCollector(registry=None).collect()]
    return _table([*map(_row, own()), *told])


def own() -> list[MetricWrapperBase]:
    """Return the metrics of the processes of the bus."""
    return [value for value in vars(metrics).values() if isinstance(value, MetricWrapperBase)]


def _of_stream() -> list[MetricWrapperBase]:
    from pipeline.metrics import StreamMetrics  # noqa: PLC0415 - loads more than the others need
    from pipeline.serving.metrics import RunMetrics  # noqa: PLC0415

    registry = StreamMetrics().registry
    RunMetrics(registry)
    return list(_registered(registry))


def _registered(registry: CollectorRegistry) -> Iterator[MetricWrapperBase]:
    found: Iterable[Any] = registry._collector_to_names  # noqa: SLF001 - it has no public way to its collectors
    yield from (each for each in found if isinstance(each, MetricWrapperBase))


def _table(rows: Iterable[list[str]]) -> list[str]:
    return table(("metric", "type", "labels", "meaning"), rows)


def _row(metric: MetricWrapperBase) -> list[str]:
    (told,) = metric.describe()
    labels = ", ".join(map(code, metric._labelnames))  # noqa: SLF001 - nor to the names of labels
    return [code(_sample(told)), told.type, labels, told.documentation]


def _sample(told: Metric) -> str:
    return f"{told.name}_total" if told.type == "counter" else told.name
