"""The route of statistics."""

from __future__ import annotations

import asyncio
from typing import Annotated, Final

import msgspec
from fastapi import APIRouter, Query

from admin.deps import ReaderOfSome, ServicesDep
from admin.models.base import Time
from admin.models.responses.stats import FiguresView, PointView, SeriesView, SpanView, StatsView
from bus.domain.durations import format_duration
from bus.domain.statistics.rollup import LONGEST, MINUTE, Resolution, resolution_for
from bus.domain.statistics.series import NAMES, Figures, Series, SeriesGrouping, series_of
from bus.domain.times import format_time, parse_time
from bus.errors import InvalidMessage
from bus.localized_text import localized

router = APIRouter(tags=["stats"])
_HOUR: Final = 60 * MINUTE


@router.get("/stats")
async def get_stats(
    services: ServicesDep,
    principal: ReaderOfSome,
    since: Annotated[Time | None, Query(alias="from")] = None,
    before: Annotated[Time | None, Query(alias="to")] = None,
    by: SeriesGrouping | None = None,
    destination: str | None = None,
    limit: Annotated[int, Query(ge=1, le=500)] = 50,
) -> StatsView:
    """Return counts of accepted and delivered messages over time, of the last hour unless a range is given.

    Whole periods are returned, from the one that has ``from`` to the one that has ``to``, without those that counted
    nothing. The busiest series come first; ``left_out`` says how many are not shown.
    """
    if destination is not None:
        principal.require("read", destination)
    now = services.context.clock.now()
    start, end = _range(since, before, now)
    resolution = resolution_for(start, end, now)
    await services.context.rollups.flush()
    complete_until = await services.rollups.complete_until()
    sheets = await services.rollups.sheets(resolution, resolution.start(start), end)

    def wanted(code: str) -> bool:
        return destination in (None, code) and principal.may("read", code)

    # In a thread, since a hundred subscriptions over many periods would hold up deliveries of this process.
    series = await asyncio.to_thread(series_of, sheets, by, wanted)
    total = await asyncio.to_thread(series_of, sheets, None, wanted)
    return StatsView(
        **msgspec.structs.asdict(_span(resolution, start, end, now)),
        by=by,
        complete=complete_until >= end and start >= now - resolution.kept,
        complete_until=format_time(complete_until),
        totals=_figures(total[0].total if total else Figures()),
        series=[_series(one, by) for one in series[:limit]],
        left_out=max(0, len(series) - limit),
    )


def _range(since: str | None, before: str | None, now: int) -> tuple[int, int]:
    """Return the range (ms), which ends now at the latest."""
    end = min(parse_time(before), now) if before else now
    start = parse_time(since) if since else end - _HOUR
    if start >= now:
        raise InvalidMessage(localized("from: it is in the future"), field="from")
    if start >= end:
        raise InvalidMessage(localized("from: it must be before to"), field="from")
    if end - start > LONGEST:
        raise InvalidMessage(
            localized("from: a range of {longest} at most is kept", longest=format_duration(LONGEST)), field="from"
        )
    return start, end


def _span(resolution: Resolution, start: int, end: int, now: int) -> SpanView:
    last = resolution.start(end - 1)
    return SpanView(
        since=format_time(resolution.start(start)),
        until=format_time(last + resolution.step),
        step_seconds=resolution.step // 1000,
        kept_since=format_time(now - resolution.kept),
    )


def _series(series: Series, by: SeriesGrouping | None) -> SeriesView:
    names = dict(zip(NAMES[by], series.name, strict=True))
    points = [
        PointView(at=format_time(start), **msgspec.structs.asdict(_figures(figures)))
        for start, figures in series.points.items()
    ]
    return SeriesView(**names, totals=_figures(series.total), points=points)


def _figures(figures: Figures) -> FiguresView:
    counts = figures.counts
    return FiguresView(
        accepted=figures.accepted,
        deliveries={status.value: count for status, count in sorted(counts.ended.items())},
        attempts=counts.attempts,
        failed_attempts=counts.failed,
        success_rate=_rounded(figures.success_rate, 6),
        p50_ms=_rounded(figures.latency(0.5), 1),
        p99_ms=_rounded(figures.latency(0.99), 1),
    )


def _rounded(value: float | None, digits: int) -> float | None:
    return round(value, digits) if value is not None else None
