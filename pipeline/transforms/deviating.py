"""Series outside of their norms in the last hours: two of the last three are out (``norms.judging``)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from bus.domain.health.findings import Deviation, Metric
from bus.domain.times import HOUR
from pipeline.norms.judging import alarmed, out_of
from pipeline.norms.weeks import Floats, place_of
from pipeline.transforms.norming import COLUMNS, measured

_Row = Mapping[str, Any]
_Series = tuple[str, str]


class JudgedMetrics(NamedTuple):
    """The number of metrics that had a value and a limit in one of the hours, and those that are out."""

    metrics: int
    deviations: list[Deviation]


class _Limits(NamedTuple):
    norm: Floats
    low: Floats
    high: Floats


def judged(rows: Iterable[_Row], norms: Iterable[_Row], hours: Sequence[int]) -> JudgedMetrics:
    """Judge the metrics that have norms, in the order of their names.

    Parameters
    ----------
    rows
        Of ``hourly``, of these hours.
    norms
        Of ``schemas.THRESHOLDS``, of these hours of the week at least.
    hours
        Consecutive ones, since the epoch. One in which no series has a row is a hole, and never out; in one that has
        rows, a series that has norms and no row has a volume of 0.
    """
    by_series: dict[_Series, dict[int, _Row]] = {}
    for row in rows:
        by_series.setdefault((row["destination"], row["subscription"]), {})[row["hour"]] = row
    by_metric: dict[tuple[str, str, str], dict[int, _Row]] = {}
    for row in norms:
        key = (row["destination"], row["subscription"], row["metric"])
        by_metric.setdefault(key, {})[row["hour_of_week"]] = row
    present = {hour for found in by_series.values() for hour in found}
    count, deviations = 0, []
    for (destination, subscription, metric), known in sorted(by_metric.items()):
        of_series = by_series.get((destination, subscription), {})
        columns = {name: _column(name, of_series, hours, present) for name in COLUMNS}
        values, limits = measured(columns).figures[Metric(metric)], _limits(known, hours)
        out = out_of(limits, values)
        count += bool((np.isfinite(values) & (np.isfinite(limits.low) | np.isfinite(limits.high))).any())
        if alarmed(out)[-1]:
            last = int(np.flatnonzero(out)[-1])
            deviations.append(
                Deviation(
                    destination=destination,
                    subscription=subscription,
                    metric=Metric(metric),
                    since=hours[last] * HOUR,
                    value=float(values[last]),
                    norm=float(limits.norm[last]),
                    low=_known(limits.low[last]),
                    high=_known(limits.high[last]),
                )
            )
    return JudgedMetrics(count, deviations)


def _column(name: str, rows: Mapping[int, _Row], hours: Sequence[int], present: set[int]) -> Floats:
    """Return the values of hours: NaN in a hole, or without any latency; 0 where only this series is silent."""
    silent = np.nan if name == "p95_ms" else 0
    found = [rows[hour][name] if hour in rows else silent if hour in present else np.nan for hour in hours]
    return np.array(found, dtype=np.float64)


def _limits(known: Mapping[int, _Row], hours: Sequence[int]) -> _Limits:
    at = [known.get(int(place), {}) for place in place_of(np.array(hours, dtype=np.int64))]
    return _Limits(*(np.array([row.get(name) for row in at], dtype=np.float64) for name in _Limits._fields))


def _known(limit: float) -> float | None:
    return float(limit) if np.isfinite(limit) else None
