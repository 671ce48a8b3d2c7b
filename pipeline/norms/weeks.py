"""Hours laid out as weeks: a row for each week, a column for each hour of it, from Monday 00:00 UTC."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray
from statsmodels.tsa.seasonal import STL

Floats = NDArray[np.float64]
Hours = NDArray[np.int64]
HOURS: Final = 168
_THURSDAY: Final = 72  # the epoch began on one
CONSISTENT: Final = 1.4826  # makes the MAD of a normal distribution its standard deviation
STL_WEEKS: Final = 6


def place_of(hours: Hours) -> Hours:
    """Return the hour of the week of hours since the epoch."""
    return (hours + _THURSDAY) % HOURS


def week_of(hours: Hours) -> Hours:
    """Return the number of the week of hours since the epoch."""
    return (hours + _THURSDAY) // HOURS


def laid_out(hours: Hours, values: Floats, first: int, weeks: int) -> Floats:
    """Return values as a matrix of weeks from the ``first`` one; NaN where there is none."""
    matrix = np.full((weeks, HOURS), np.nan)
    rows = week_of(hours) - first
    within = (rows >= 0) & (rows < weeks)
    matrix[rows[within], place_of(hours)[within]] = values[within]
    return matrix


def known_weeks(matrix: Floats) -> float:
    """Return for how many weeks there are values: the number of known hours as weeks."""
    return float(np.isfinite(matrix).sum()) / HOURS


def medians(matrix: Floats) -> Floats:
    """Return the median of each column; NaN of a column without values."""
    found = np.full(matrix.shape[1], np.nan)
    some = np.isfinite(matrix).any(axis=0)
    if some.any():
        found[some] = np.nanmedian(matrix[:, some], axis=0)
    return found


def mads(matrix: Floats) -> Floats:
    """Return the median absolute deviation of each column from its median."""
    return medians(np.abs(matrix - medians(matrix)))


def surprises(matrix: Floats) -> Floats:
    """Return by how much each value differs from the median of the same hour in all other weeks.

    The value itself is left out: of three values, the median one would else differ by nothing.
    """
    found = np.full(matrix.shape, np.nan)
    for row in range(matrix.shape[0]):
        found[row] = matrix[row] - medians(np.delete(matrix, row, axis=0))
    return found


def spread(values: Floats) -> float:
    """Return a robust standard deviation around zero; NaN without values."""
    finite = np.abs(values[np.isfinite(values)])
    return float(np.median(finite)) * CONSISTENT if finite.size else float("nan")


def level(matrix: Floats) -> tuple[Floats, str]:
    """Return the matrix without its trend, at the level of the latest week, and the method used.

    Robust STL (Cleveland et al. 1990) finds the trend of at least ``STL_WEEKS`` weeks; fewer are left as they are.
    """
    flat = matrix.ravel()
    known = np.flatnonzero(np.isfinite(flat))
    if known_weeks(matrix) < STL_WEEKS:
        return matrix, "median"
    start, end = known[0], known[-1] + 1
    places = np.arange(start, end)
    filled = np.interp(places, known, flat[known])
    # A seasonal window longer than the series: one weekly pattern for all weeks, which the medians find later.
    fitted = STL(
        filled,
        period=HOURS,
        seasonal=10 * HOURS + 1,
        seasonal_deg=0,
        trend=2 * HOURS + 1,
        robust=True,
        seasonal_jump=24,
        trend_jump=24,
        low_pass_jump=24,
    ).fit(inner_iter=1, outer_iter=4)
    trend = np.asarray(fitted.trend, dtype=np.float64)
    levelled = flat.copy()
    levelled[start:end] += np.median(trend[-HOURS:]) - trend
    return levelled.reshape(matrix.shape), "stl"
