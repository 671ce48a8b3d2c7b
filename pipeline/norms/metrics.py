"""Norms of volume, latency and failure: what is usual in each hour of the week, and where it ends.

Each metric is looked at on the scale on which chance has one size: counts and shares by their square roots, times by
their logarithms. ``SURE`` deviations away from the norm is out; two of three hours that are out are an alarm.
"""

from __future__ import annotations

import enum
from typing import Final, NamedTuple

import numpy as np

from pipeline.norms.weeks import CONSISTENT, HOURS, Floats, known_weeks, level, mads, medians, spread, surprises

SURE: Final = 3.0
LEARNING_WEEKS: Final = 3.0
_LIKELY: Final = 1.5  # deviations by which what a fault leaves must lie beyond the limit to be told nearly always
_OWN_WEEKS: Final = 4.0  # an hour's own spread counts as much as that of the whole series after so many weeks
_LEAST_SPREAD: Final = 0.05  # of the logarithm of a latency
_LEAST_SHARE: Final = 0.02  # of failures: less above the norm wakes nobody
DROP: Final = 0.5
SLOWER: Final = 2.0


class Metric(enum.StrEnum):
    """What a norm is of: deliveries an hour, p95 in milliseconds, share of attempts that failed."""

    VOLUME = "volume"
    LATENCY = "latency"
    FAILURE = "failure"


class State(enum.StrEnum):
    """What a norm is good for."""

    LEARNING = "learning"  # under three weeks are known: there are no limits yet
    READY = "ready"
    THIN = "thin"  # a fall to half cannot be told from chance in this hour


class Norms(NamedTuple):
    """The norms of one metric of one series, each an array over the hours of the week; NaN where there is none.

    ``clear`` is where the fault that matters (half the volume, twice the latency) is told from chance.
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
        Of how many each value is made, laid out the same way; of volume they are the values.
    weeks
        Of how many weeks the series is known. It may have been too quiet for a latency or a share in most of them:
        then there are no limits either.
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
    # Chance alone gives a root a deviation of a half; on top comes what days differ by, in proportion.
    excess = _swing(surprises(roots), middle)
    wide = _at_least_own(np.sqrt(0.25 + (excess * middle) ** 2), roots)
    low = np.maximum(middle - SURE * wide, 0) ** 2
    low[middle <= SURE * wide] = np.nan  # even silence is no surprise
    halved = middle * np.sqrt(DROP)
    clear = halved + _LIKELY * np.sqrt(0.25 + (excess * halved) ** 2) < middle - SURE * wide
    return Norms(middle**2, mads(values), low, (middle + SURE * wide) ** 2 + 1, clear, weeks, method)


def _swing(away: Floats, middle: Floats) -> float:
    """Return by which share of itself the root of a volume differs from week to week, beyond chance."""
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
    """Widen the spread of a series at hours that differ more by themselves, the more weeks say so."""
    known = np.isfinite(matrix).sum(axis=0)
    own = CONSISTENT * np.nan_to_num(mads(matrix))
    mixed = np.sqrt((known * own**2 + _OWN_WEEKS * pooled**2) / (known + _OWN_WEEKS))
    return np.asarray(np.maximum(pooled, mixed), dtype=np.float64)
