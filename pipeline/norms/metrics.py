"""Norms of volume, latency and failure: what is usual in each hour of the week, and its limits.

Each metric is transformed so that random variation is about the same for all values: counts and shares to their square
roots, times to their logarithms. A value over ``SURE`` deviations from the norm is out; two of three such hours alarm.
"""

from __future__ import annotations

import enum
from typing import Final, NamedTuple

import numpy as np

from bus.domain.health.findings import Metric
from pipeline.norms.weeks import CONSISTENT, HOURS, Floats, known_weeks, level, mads, medians, spread, surprises

SURE: Final = 3.0
LEARNING_WEEKS: Final = 3.0
_LIKELY: Final = 1.5  # deviations beyond the limit at which a value under a fault must lie, to be found nearly always
_OWN_WEEKS: Final = 4.0  # weeks after which an hour's own spread has the same weight as that of the whole series
_LEAST_SPREAD: Final = 0.05  # of the logarithm of a latency
_LEAST_SHARE: Final = 0.02  # share of failures above the norm, below which there is no alarm
DROP: Final = 0.5
SLOWER: Final = 2.0


class State(enum.StrEnum):
    """Whether a norm can be used for alarms."""

    LEARNING = "learning"  # under three weeks are known: there are no limits yet
    READY = "ready"
    THIN = "thin"  # a fall to half cannot be distinguished from chance in this hour


class Norms(NamedTuple):
    """The norms of one metric of one series, each an array over the hours of the week; NaN where there is none.

    ``clear`` is where a fault of relevant size (half the volume, twice the latency) can be distinguished from chance.
    """

    norm: Floats
    mad: Floats
    low: Floats
    high: Floats
    clear: np.ndarray[tuple[int, ...], np.dtype[np.bool_]]
    weeks: float
    method: str

    @property
    def is_learning(self) -> bool:
        """Whether too little is known for limits."""
        return self.weeks < LEARNING_WEEKS


def norms_of(metric: Metric, values: Floats, counts: Floats, weeks: float) -> Norms:
    """Return the norms of a metric.

    Parameters
    ----------
    values
        A row for each week, a column for each of its hours (``weeks.laid_out``).
    counts
        How many deliveries or attempts each value is made of, laid out the same way; for volume the values themselves.
    weeks
        For how many weeks there is data of the series. If most of them were too quiet for a latency or a share, there
        are no limits either.
    """
    if min(weeks, known_weeks(counts)) < LEARNING_WEEKS:
        nothing = np.full(HOURS, np.nan)
        norm, mad = medians(values), mads(values)
        return Norms(norm, mad, nothing, nothing, np.zeros(HOURS, dtype=np.bool_), weeks, "median")
    if metric is Metric.VOLUME:
        return _volume(values, weeks)
    if metric is Metric.LATENCY:
        return _latency(values, weeks)
    return _failure(values, counts, weeks)


def _volume(values: Floats, weeks: float) -> Norms:
    roots, method = level(np.sqrt(values))
    roots = np.maximum(roots, 0)
    middle = medians(roots)
    # The square root of a Poisson count has a deviation of 1/2; days differ by a proportion (``excess``) on top.
    excess = _relative_spread(surprises(roots), middle)
    wide = _at_least_own(np.sqrt(0.25 + (excess * middle) ** 2), roots)
    low = np.maximum(middle - SURE * wide, 0) ** 2
    low[middle <= SURE * wide] = np.nan  # even a volume of 0 is within chance
    halved = middle * np.sqrt(DROP)
    clear = halved + _LIKELY * np.sqrt(0.25 + (excess * halved) ** 2) < middle - SURE * wide
    return Norms(middle**2, mads(values), low, (middle + SURE * wide) ** 2 + 1, clear, weeks, method)


def _relative_spread(away: Floats, middle: Floats) -> float:
    """Return the relative deviation of a volume's square root from week to week, beyond chance."""
    busy = np.isfinite(middle) & (middle >= np.nanmedian(middle)) & (middle > 0)
    if not busy.any():
        return 0.0
    seen = spread((away[:, busy] / middle[busy]).ravel())
    by_chance = float(np.median(0.25 / middle[busy] ** 2))
    return float(np.sqrt(max(np.nan_to_num(seen) ** 2 - by_chance, 0.0)))


def _latency(values: Floats, weeks: float) -> Norms:
    logs, method = level(np.log(np.maximum(values, 1e-3)))
    middle = medians(logs)
    pooled = max(np.nan_to_num(spread(surprises(logs).ravel())), _LEAST_SPREAD)
    wide = _at_least_own(np.full(HOURS, pooled), logs)
    clear = np.log(SLOWER) > (SURE + _LIKELY) * wide
    clear &= np.isfinite(middle)
    return Norms(
        np.exp(middle), mads(values), np.full(HOURS, np.nan), np.exp(middle + SURE * wide), clear, weeks, method
    )


def _failure(values: Floats, counts: Floats, weeks: float) -> Norms:
    roots = np.sqrt(values)
    middle = medians(roots)
    many = np.maximum(medians(counts), 1)
    by_chance = 0.5 / np.sqrt(many)
    # In most hours nothing fails: what fails over all of them is then the better guess.
    usual = np.sqrt(np.nansum(values * counts) / max(float(np.nansum(counts)), 1.0))
    wide = np.maximum(by_chance, np.nan_to_num(spread(surprises(roots).ravel())))
    high = np.maximum((np.maximum(middle, usual) + SURE * wide) ** 2, middle**2 + _LEAST_SHARE)
    clear = np.isfinite(middle) & (high < DROP)
    return Norms(middle**2, mads(values), np.full(HOURS, np.nan), high, clear, weeks, "median")


def _at_least_own(pooled: Floats, matrix: Floats) -> Floats:
    """Widen the spread of a series at hours that vary more, with more weight the more weeks there are."""
    known = np.isfinite(matrix).sum(axis=0)
    own = CONSISTENT * np.nan_to_num(mads(matrix))
    mixed = np.sqrt((known * own**2 + _OWN_WEEKS * pooled**2) / (known + _OWN_WEEKS))
    return np.asarray(np.maximum(pooled, mixed), dtype=np.float64)
