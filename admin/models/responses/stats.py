"""Statistics over time."""

from __future__ import annotations

from typing import Final

import msgspec

from admin.models.responses.base import View


class FiguresView(View, kw_only=True):
    """Counts of messages; ``deliveries`` by the status in which they ended."""

    accepted: int
    deliveries: dict[str, int]
    attempts: int
    failed_attempts: int
    success_rate: float | None
    p50_ms: float | None
    p99_ms: float | None


class PointView(FiguresView, kw_only=True):
    """Counts of the period that begins at this time."""

    at: str


class SeriesView(View, kw_only=True):
    """One series; the names that it is grouped by, its totals, and its periods that have something in them."""

    destination: str | msgspec.UnsetType = msgspec.UNSET
    subscription: str | msgspec.UnsetType = msgspec.UNSET
    source: str | msgspec.UnsetType = msgspec.UNSET
    totals: FiguresView
    points: list[PointView]


class SpanView(View, kw_only=True):
    """The range that was counted, in whole periods."""

    since: str = msgspec.field(name="from")
    until: str = msgspec.field(name="to")
    step_seconds: int
    kept_since: str


class StatsView(SpanView, kw_only=True):
    """Statistics of a range; ``complete`` when all of it is counted and kept."""

    by: str | None
    complete: bool
    complete_until: str
    totals: FiguresView
    series: list[SeriesView]
    left_out: int


NO_FIGURES: Final = FiguresView(
    accepted=0, deliveries={}, attempts=0, failed_attempts=0, success_rate=None, p50_ms=None, p99_ms=None
)
"""The figures of a series that counted nothing."""
