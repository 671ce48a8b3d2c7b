"""The route of the overview, which operators see first."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Final, NamedTuple

import msgspec
from fastapi import APIRouter, Query

from admin.deps import ReaderOfSome, ServicesDep
from admin.models.base import optional_time
from admin.models.responses.overview import (
    AlarmView,
    BusyDestinationView,
    BusySubscriptionView,
    DegradedView,
    LeftOutView,
    MemberView,
    NowView,
    OpenBreakerView,
    OverviewView,
    ProcessSpoolView,
    RatesView,
    SpoolView,
)
from admin.showing.cures import UnderWay
from admin.showing.incidents import cure_views
from bus.cluster.member import Member
from bus.domain.catalog import Catalog
from bus.domain.health.alarm import Alarm
from bus.domain.health.conditions import Condition, State
from bus.domain.health.facts import Backlog, Lane, OpenBreaker
from bus.domain.health.rulebook import RULES
from bus.domain.health.vitals import SpoolFigures
from bus.domain.statistics.series import Figures
from bus.domain.subscription import Subscription
from bus.domain.times import format_time
from bus.localized_text import localized_text_of
from bus.observing.cluster_status import Rates, StatusSnapshot, breakers
from bus.security.principals import Principal

router = APIRouter(tags=["operations"])
_NONE: Final = Backlog(0, None)
_NEARLY_FULL: Final = RULES["spool-full"].limit or 1.0


class _Backlog(NamedTuple):
    """The backlog of some subscriptions."""

    backlog: int | None
    retrying: int | None
    oldest: str | None


@router.get("/overview")
async def get_overview(
    services: ServicesDep, principal: ReaderOfSome, limit: Annotated[int, Query(ge=0, le=1000)] = 50
) -> OverviewView:
    """Return the current state of the bus, in one call that may be repeated every two seconds; reads no messages.

    ``now`` has the rates of the present minute and the one before; null, as ``retrying``, while the store does not
    answer. ``backlog`` is what waits on the transports, null where a broker cannot say; ``retrying`` waits for another
    attempt; ``dead`` died within the last hour, ``dead_before`` within the one before; ``scheduled`` are messages for
    later. ``destinations`` and ``subscriptions`` are those with the largest
    backlog and traffic, at most ``limit`` of each; ``left_out`` is the number of others. An alarm's ``link`` is the
    path of its subject below ``/api/v1``; ``what_text`` and ``next_step_text`` have the ``template`` of the English
    sentence and its ``values``, for translations; a value may have both itself. A caller who is limited to
    destinations sees these, and no alarm of the whole bus; ``spools``, ``processes`` and ``degraded`` are null then.
    """
    sight, catalog = await services.observatory.look(), services.context.registry.catalog

    def may(code: str | None) -> bool:
        return principal.may("read", code)

    codes = [code for code in catalog.destinations if may(code)]
    lanes = [found.key for code in codes for found in catalog.of(code)]
    found = await services.observatory.conditions(sight)
    # In threads, since thousands of subscriptions would hold up deliveries of this process.
    busiest, busiest_lanes = await asyncio.to_thread(_busiest, codes, lanes, catalog, sight)
    waiting, states = await asyncio.to_thread(lambda: (_waiting(lanes, sight), _states(found)))
    alarms = [found for found in services.observatory.alarms(sight) if may(found.destination)]
    under_way = await services.cures.under_way() if alarms else UnderWay([])
    onsets = await services.onsets.known() if alarms else {}
    is_whole = may(None)
    return OverviewView(
        at=format_time(sight.now),
        now=_now(sight.rates, codes),
        backlog=waiting.backlog,
        retrying=waiting.retrying,
        dead=_sum(sight.dead, lanes),
        dead_before=_sum(sight.dead_before, lanes),
        oldest=waiting.oldest,
        destinations=[_destination(code, sight, catalog, states) for code in busiest[:limit]],
        subscriptions=[_subscription(catalog.subscriptions[lane], sight) for lane in busiest_lanes[:limit]],
        left_out=LeftOutView(destinations=max(0, len(codes) - limit), subscriptions=max(0, len(lanes) - limit)),
        breakers=[_breaker(found) for found in breakers(sight.members) if may(found.destination)],
        alarms=[_alarm(found, onsets, under_way, principal) for found in alarms],
        spools=_spools(sight.members) if is_whole else None,
        processes=[_member(member) for member in sight.members] if is_whole else None,
        degraded=_degraded(sight.members) if is_whole else None,
    )


def _spools(members: list[Member]) -> list[ProcessSpoolView]:
    return [
        ProcessSpoolView(owner=member.owner, node=member.node, **msgspec.structs.asdict(spool_view(name, found)))
        for member in members
        for name, found in member.spools.items()
    ]


def _member(member: Member) -> MemberView:
    return MemberView(owner=member.owner, node=member.node, url=member.url, roles=list(member.roles))


def _degraded(members: list[Member]) -> list[DegradedView]:
    return [
        DegradedView(name=name, detail=trouble, owner=member.owner, node=member.node)
        for member in members
        for name, trouble in member.troubles.items()
    ]


def spool_view(name: str, found: SpoolFigures) -> SpoolView:
    """Return the view of a local queue."""
    return SpoolView(
        name=name,
        records=found.records,
        bytes=found.bytes,
        limit=found.limit,
        used=round(found.used, 4),
        is_nearly_full=found.used >= _NEARLY_FULL,
        damaged=found.damaged,
        oldest=optional_time(found.oldest or 0),
    )


def _now(rates: Rates | None, codes: Iterable[str]) -> NowView | None:
    if rates is None:
        return None
    total = Figures()
    for code in codes:
        if (found := rates.destinations.get(code)) is not None:
            total.add(found)
    figures = msgspec.structs.asdict(_figures(total, rates))
    return NowView(since=format_time(rates.since), until=format_time(rates.until), **figures)


def _figures(figures: Figures, rates: Rates) -> RatesView:
    seconds = max(1.0, (rates.until - rates.since) / 1000)
    p50, p99, success = figures.latency(0.5), figures.latency(0.99), figures.success_rate
    return RatesView(
        accepted_per_second=round(figures.accepted / seconds, 3),
        delivered_per_second=round(figures.counts.delivered / seconds, 3),
        attempts_per_second=round(figures.counts.attempts / seconds, 3),
        success_rate=round(success, 6) if success is not None else None,
        p50_ms=round(p50, 1) if p50 is not None else None,
        p99_ms=round(p99, 1) if p99 is not None else None,
    )


def _states(conditions: Sequence[Condition]) -> dict[str, State]:
    """Return the worst state of each destination's subscriptions; of one that is paused, that."""
    found: dict[str, State] = {}
    for one in conditions:
        known = found.get(one.destination, one.state)
        found[one.destination] = min(known, one.state, key=lambda state: state.rank)
    return found


def _destination(
    code: str, sight: StatusSnapshot, catalog: Catalog, states: Mapping[str, State]
) -> BusyDestinationView:
    lanes = [found.key for found in catalog.of(code)]
    unpublished = [member.unpublished[code] for member in sight.members if code in member.unpublished]
    later = sight.retrying.get((code, ""), 0) if sight.retrying is not None else None
    rates = _rated(sight.rates, sight.rates.destinations.get(code) if sight.rates is not None else None)
    return BusyDestinationView(
        destination=code,
        transport=catalog.destinations[code].transport,
        paused=catalog.destinations[code].paused,
        state=State.PAUSED if catalog.destinations[code].paused else states.get(code),
        subscriptions=len(lanes),
        **_waiting(lanes, sight)._asdict(),
        scheduled=later,
        unpublished_since=optional_time(min(unpublished, default=0)),
        **msgspec.structs.asdict(rates),
    )


def _subscription(found: Subscription, sight: StatusSnapshot) -> BusySubscriptionView:
    rates = _rated(sight.rates, sight.rates.lanes.get(found.key) if sight.rates is not None else None)
    return BusySubscriptionView(
        destination=found.destination,
        subscription=found.name,
        paused=found.paused,
        paused_reason=found.paused_reason,
        **_waiting([found.key], sight)._asdict(),
        **msgspec.structs.asdict(rates),
    )


def _waiting(lanes: Sequence[Lane], sight: StatusSnapshot) -> _Backlog:
    backlogs = [sight.backlog.get(lane, _NONE) for lane in lanes]
    known = [found.records for found in backlogs if found.records is not None]
    times = [found.oldest for found in backlogs if found.oldest is not None]
    retrying = sum(sight.retrying.get(lane, 0) for lane in lanes) if sight.retrying is not None else None
    return _Backlog(sum(known) if len(known) == len(backlogs) else None, retrying, optional_time(min(times, default=0)))


def _sum(counts: Mapping[Lane, int] | None, lanes: Sequence[Lane]) -> int | None:
    return None if counts is None else sum(counts.get(lane, 0) for lane in lanes)


def _rated(rates: Rates | None, figures: Figures | None) -> RatesView:
    """Return the rates of one destination or subscription; null while they are not known."""
    if rates is None:
        return RatesView()
    return _figures(figures if figures is not None else Figures(), rates)


def _busiest(
    codes: Sequence[str], lanes: Sequence[Lane], catalog: Catalog, sight: StatusSnapshot
) -> tuple[list[str], list[Lane]]:
    """Return destinations and subscriptions in the order of ``_order``."""
    return (
        sorted(codes, key=lambda code: _order([found.key for found in catalog.of(code)], sight, code)),
        sorted(lanes, key=lambda lane: (_order([lane], sight, None), lane)),
    )


def _order(lanes: Sequence[Lane], sight: StatusSnapshot, code: str | None) -> tuple[int, int, str]:
    """Return a sort key: the most waiting first, then the most accepted and attempted."""
    retrying = sight.retrying if sight.retrying is not None else {}
    waiting = sum((sight.backlog.get(lane, _NONE).records or 0) + retrying.get(lane, 0) for lane in lanes)
    going_on = 0
    if sight.rates is not None:
        counted = [sight.rates.lanes.get(lane) for lane in lanes] + [sight.rates.destinations.get(code or "")]
        going_on = sum(found.counts.attempts + found.accepted for found in counted if found is not None)
    return (-waiting, -going_on, code or "")


def _breaker(found: OpenBreaker) -> OpenBreakerView:
    return OpenBreakerView(
        destination=found.destination,
        subscription=found.subscription,
        node=found.node,
        state=found.figures.state,
        since=format_time(found.figures.since),
        next_probe=format_time(found.figures.probe_at),
        answered=found.figures.answered,
    )


def _alarm(found: Alarm, onsets: Mapping[str, int], under_way: UnderWay, principal: Principal) -> AlarmView:
    known = [time for time in (found.since, onsets.get(found.key)) if time]
    return AlarmView(
        severity=found.severity,
        cause=found.cause,
        what=str(found.what),
        what_text=localized_text_of(found.what),
        since=optional_time(min(known, default=0)),
        destination=found.destination,
        subscription=found.subscription,
        next_step=str(found.next_step),
        next_step_text=localized_text_of(found.next_step),
        link=found.link,
        cures=cure_views(under_way, found, principal),
    )
