"""Latencies of deliveries: counts by range, and quantiles estimated from them."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from itertools import pairwise
from typing import Final

# Milliseconds, the upper end of each range; in each decade about 1, 1.5, 2, 3, 5, 7, up to an hour.
BOUNDS: Final = (
    *(1, 2, 3, 5, 7, 10, 15, 20, 30, 50, 70, 100, 150, 200, 300, 500, 700),
    *(1_000, 1_500, 2_000, 3_000, 5_000, 7_000, 10_000, 15_000, 20_000, 30_000, 50_000, 70_000),
    *(100_000, 150_000, 200_000, 300_000, 500_000, 700_000),
    *(1_000_000, 1_500_000, 2_000_000, 3_000_000, 3_600_000),
)
# The true quantile and its estimate lie in one range, so this is the most by which they differ; not above an hour.
GREATEST_ERROR: Final = max(upper / lower for lower, upper in pairwise(BOUNDS) if lower > 1)


def place_of(milliseconds: int) -> int:
    """Return the number of the range that a time falls into; the last one is everything above an hour."""
    return bisect_left(BOUNDS, milliseconds)


def quantile(counts: Mapping[int, int], share: float) -> float | None:
    """Return the time (ms) that this share of the deliveries did not exceed, estimated; None when there are none.

    The estimate is off by a factor of ``GREATEST_ERROR`` at most between a millisecond and an hour. Below it is
    a millisecond or less, above it is an hour.
    """
    rank = share * sum(counts.values())
    below = 0
    for place in sorted(counts):
        if counts[place] and below + counts[place] >= rank:
            return _between(place, (rank - below) / counts[place])
        below += counts[place]
    return None


def _between(place: int, share: float) -> float:
    """Return a time inside a range, by the share of its deliveries that are below, on a logarithmic scale."""
    if place >= len(BOUNDS):
        return float(BOUNDS[-1])
    if not place:
        return float(BOUNDS[0])
    lower, upper = BOUNDS[place - 1] + 1, BOUNDS[place]  # times are whole milliseconds
    return float(lower * (upper / lower) ** share)
