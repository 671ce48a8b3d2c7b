"""Norms and back-tests of series of hours (``hourly``): numpy for each series, a process for each core."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import numpy as np
import pandas as pd
from pyspark.sql import DataFrame
from pyspark.sql.types import DoubleType, IntegerType, LongType, StringType, StructField, StructType

from bus.domain.health.findings import Metric
from pipeline.norms.backtest import History, scores
from pipeline.norms.metrics import Norms, State, norms_of
from pipeline.norms.weeks import HOURS, Floats, known_weeks, laid_out, week_of
from pipeline.schemas import THRESHOLDS
from pipeline.transforms.hourly import SERIES

LEAST_TIMED: Final = 100  # a p95 of fewer deliveries depends on a handful of them
LEAST_ATTEMPTS: Final = 20
COLUMNS: Final = ("volume", "attempts", "failed", "timed", "p95_ms")
"""The columns that ``hourly`` has of an hour."""
NORMS: Final = StructType([field for field in THRESHOLDS.schema.fields if field.name != "computed"])
_KINDS: Final = {"metric": StringType(), "fault": StringType(), "clear": DoubleType()}
_SCORE: Final = ("metric", "fault", "weeks", "put", "found", "thin_put", "thin_found", "alarms", "clear")
SCORES: Final = StructType(
    [StructField(name, StringType()) for name in SERIES]
    + [StructField(name, _KINDS.get(name, IntegerType() if name == "weeks" else LongType())) for name in _SCORE]
)


def normed(hours: DataFrame) -> DataFrame:
    """Return the norms of each series, metric and hour of the week: ``schemas.THRESHOLDS`` but for ``computed``."""

    def of_series(rows: pd.DataFrame) -> pd.DataFrame:
        history = history_of(rows)
        named = {name: rows[name].iloc[0] for name in SERIES}
        weeks = known_weeks(history.figures[Metric.VOLUME])
        frames = [
            _table(metric, norms_of(metric, history.figures[metric], history.counts[metric], weeks)).assign(**named)
            for metric in _metrics(rows)
        ]
        return pd.concat(frames)[NORMS.fieldNames()]

    return hours.groupBy(*SERIES).applyInPandas(of_series, NORMS)


def backtested(hours: DataFrame, *, seed: int, weeks: int) -> DataFrame:
    """Return the scores of faults, put into the past, by norms of at most ``weeks`` (``SCORES``)."""
    return hours.groupBy(*SERIES).applyInPandas(_tester(seed, weeks), SCORES)


def _tester(seed: int, weeks: int) -> Callable[[pd.DataFrame], pd.DataFrame]:
    def of_series(rows: pd.DataFrame) -> pd.DataFrame:
        metrics = _metrics(rows)
        found = [score for score in scores(history_of(rows), seed=seed, most=weeks) if score.metric in metrics]
        table = pd.DataFrame([tuple(score) for score in found], columns=list(_SCORE))
        return table.assign(**{name: rows[name].iloc[0] for name in SERIES})[SCORES.fieldNames()]

    return of_series


def history_of(rows: pd.DataFrame) -> History:
    """Lay the hours of one series out as weeks."""
    hours = rows["hour"].to_numpy(dtype=np.int64)
    first, last = week_of(hours.min()), week_of(hours.max())
    columns = {
        name: laid_out(hours, rows[name].to_numpy(dtype=np.float64), int(first), int(last - first + 1))
        for name in COLUMNS
    }
    return measured(columns)


def measured(columns: Mapping[str, Floats]) -> History:
    """Return the metrics of hours, in any layout; unknown where a share or a quantile of a few deliveries says nothing.

    ``columns`` are ``volume``, ``attempts``, ``failed``, ``timed`` and ``p95_ms``, laid out the same way.
    """
    timed = np.where(columns["timed"] >= LEAST_TIMED, columns["timed"], np.nan)
    attempts = np.where(columns["attempts"] >= LEAST_ATTEMPTS, columns["attempts"], np.nan)
    latency = np.where(np.isfinite(timed), columns["p95_ms"], np.nan)
    volume = columns["volume"]
    return History(
        {Metric.VOLUME: volume, Metric.LATENCY: latency, Metric.FAILURE: columns["failed"] / attempts},
        {Metric.VOLUME: volume, Metric.LATENCY: timed, Metric.FAILURE: attempts},
    )


def _metrics(rows: pd.DataFrame) -> tuple[Metric, ...]:
    """Return the metrics by which a series is judged: of a destination, which delivers nothing, only the volume."""
    return tuple(Metric) if rows["subscription"].iloc[0] else (Metric.VOLUME,)


def _table(metric: Metric, norms: Norms) -> pd.DataFrame:
    state = np.where(norms.clear, State.READY.value, State.THIN.value)
    return pd.DataFrame(
        {
            "metric": metric.value,
            "hour_of_week": np.arange(HOURS, dtype=np.int32),
            "norm": norms.norm,
            "mad": norms.mad,
            "low": norms.low,
            "high": norms.high,
            "weeks": norms.weeks,
            "state": State.LEARNING.value if norms.is_learning else state,
            "method": norms.method,
        }
    )
