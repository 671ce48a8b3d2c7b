"""Freshness: how old events are when the rollups that count them can be read.

It takes no further pass over a batch's events. The pass that writes them computes 21 quantiles of their times, from the
minimum in steps of 5 % to the maximum; once the rollups are published, these are made ages.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Final, NamedTuple

from pyspark.sql import Column
from pyspark.sql import functions as F

HAPPENED: Final = "happened"
_PARTS: Final = 20
_ACCURACY: Final = 2_000  # ranks are exact to a two-thousandth
_MEDIAN, _MOST = 0.5, 0.95


def happened(counted: Column) -> Column:
    """Return an aggregate over events: the quantiles of the times of those ``counted``, as text, empty for none."""
    times = F.when(counted, F.unix_millis("at"))
    points = F.percentile_approx(times, [place / _PARTS for place in range(_PARTS + 1)], _ACCURACY)
    return F.array_join(points.cast("array<string>"), " ")


def read_points(text: str | None) -> list[int]:
    """Return the quantiles in a text of ``happened``, in milliseconds since the epoch; none of an empty one."""
    return [int(each) for each in (text or "").split()]


class Freshness(NamedTuple):
    """The ages of a batch's events when their rollups were published.

    Attributes
    ----------
    events
        How many there are.
    ages
        The quantiles in seconds, ascending; between two, ages are assumed to be spread evenly.
    """

    events: int
    ages: tuple[float, ...]

    @property
    def p50(self) -> float:
        """The age in seconds that half of the events did not exceed."""
        return self.ages[round(_MEDIAN * _PARTS)]

    @property
    def p95(self) -> float:
        """The age in seconds that 95 % of the events did not exceed."""
        return self.ages[round(_MOST * _PARTS)]

    @property
    def greatest(self) -> float:
        """The age of the oldest event in seconds."""
        return self.ages[-1]

    def not_older(self, age: float) -> int:
        """Return how many events were at most so many seconds old."""
        place = bisect_right(self.ages, age)
        if place == 0:
            return 0
        if place == len(self.ages):
            return self.events
        low, high = self.ages[place - 1 : place + 1]
        return int(self.events * (place - 1 + (age - low) / (high - low)) / _PARTS)

    def total(self) -> float:
        """Return an estimate of the sum of the ages in seconds."""
        middles = [(low + high) / 2 for low, high in zip(self.ages, self.ages[1:], strict=False)]
        return self.events * sum(middles) / _PARTS

    def told(self) -> dict[str, float]:
        """Return it as people read it, in seconds."""
        return {"p50": round(self.p50, 3), "p95": round(self.p95, 3), "max": round(self.greatest, 3)}

    def row(self) -> dict[str, int]:
        """Return it as fields of the table ``progress``."""
        return {f"freshness_{name}_ms": round(seconds * 1000) for name, seconds in self.told().items()}


def freshness(events: int, points: Sequence[int], published: int) -> Freshness | None:
    """Return the freshness of events by the quantiles of their times, in milliseconds since the epoch; None for none.

    An event with a time after ``published``, from a clock that is ahead, has age 0.
    """
    if not points:
        return None
    return Freshness(events, tuple(max(published - point, 0) / 1000 for point in reversed(points)))
