"""Scores of a back-test, summed up over series."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from pipeline.norms.backtest import Fault

_WEEKS_A_MONTH: Final = 30 / 7
ENOUGH: Final = 0.25  # share of a series' hours that must be clear, else it counts as thin


class Total(NamedTuple):
    """The score of one fault, over all series.

    ``put`` and ``found`` are of hours with enough volume to judge, ``thin_put`` and ``thin_found`` of others.
    ``alarms`` are those of the past as it was, over ``series`` that were judged, ``weeks`` in all. ``thin`` names the
    series of which less than a quarter of the hours has enough volume.
    """

    fault: Fault
    put: int
    found: int
    thin_put: int
    thin_found: int
    alarms: int
    weeks: int
    series: int
    thin: Sequence[str]

    @property
    def share(self) -> float:
        """The share that was found where the volume suffices; 1 when nothing was put there."""
        return self.found / self.put if self.put else 1.0

    @property
    def alarms_a_month(self) -> float:
        """False alarms per series and month of 30 days."""
        return self.alarms / self.weeks * _WEEKS_A_MONTH if self.weeks else 0.0


def totals(scores: Iterable[Mapping[str, Any]]) -> list[Total]:
    """Sum up rows of ``transforms.norming.SCORES``, a total for each fault."""
    rows = list(scores)
    return [_total(fault, [row for row in rows if row["fault"] == fault]) for fault in Fault]


def _total(fault: Fault, rows: Sequence[Mapping[str, Any]]) -> Total:
    def added(name: str) -> int:
        return sum(row[name] for row in rows)

    judged = sum(row["weeks"] > 0 for row in rows)
    thin = sorted(series_name(row) for row in rows if row["clear"] < ENOUGH)
    return Total(
        fault=fault,
        put=added("put"),
        found=added("found"),
        thin_put=added("thin_put"),
        thin_found=added("thin_found"),
        alarms=added("alarms"),
        weeks=added("weeks"),
        series=judged,
        thin=thin,
    )


def series_name(row: Mapping[str, Any]) -> str:
    """Return the name of a series: its destination, or subscription and destination."""
    return f"{row['destination']}/{row['subscription']}" if row["subscription"] else str(row["destination"])
