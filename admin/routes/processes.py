"""Routes of the processes of the bus: the status that each reports, and the work that it has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import msgspec
from fastapi import APIRouter, Query

from admin.deps import Reader, ReaderOfSome, ServicesDep
from admin.models.base import Code, optional_time
from admin.models.responses.operations import (
    BreakerView,
    CompensationsView,
    DueTotalsView,
    DueView,
    FoundOrphanView,
    LaneView,
    OrphansView,
    OrphanView,
    PermitsView,
    ProcessDetailsView,
    ProcessesView,
    ProcessView,
    TroubleView,
    WatchView,
    WorkerView,
)
from admin.routes.overview import spool_view
from bus.cluster.report import Answer, Report
from bus.domain.health.vitals import BreakerFigures, Orphan, WorkerFigures
from bus.domain.times import format_time
from bus.errors import NotFound
from bus.localized_text import localized, localized_text_of

router = APIRouter(tags=["operations"])


@router.get("/processes")
async def list_processes(services: ServicesDep, _: Reader) -> ProcessesView:
    """Return every live process with its current status, the one that answers this request first.

    All are asked at once, for 2 s at most. One that does not answer has ``answers`` false, the reason in ``trouble``,
    its last report, and no slots; after some seconds without a sign of life it is not listed any more. ``is_current``
    is whether it has the current configuration in force. ``trouble_text``, and ``detail_text`` of its troubles, have
    the ``template`` of the English sentence and its ``values``, for translations.
    """
    answers = await services.introspection.reports.of_all()
    revision = services.context.registry.revision
    return ProcessesView(revision=revision, items=[_view(answer, revision) for answer in answers])


@router.get("/processes/{owner}")
async def get_process(
    owner: str, services: ServicesDep, _: Reader, limit: Annotated[int, Query(ge=0, le=1000)] = 100
) -> ProcessDetailsView:
    """Return one process with its slots by subscription, the backlog of its queues, breakers and orphans.

    At most ``limit`` of each, the busiest first; ``left_out`` is the number of others. All of it is null when the
    process does not answer.
    """
    members = services.context.members
    member = next((found for found in members.all if found.owner == owner), None)
    if member is None:
        raise NotFound(
            localized("there is no live process {owner}", owner=repr(owner)),
            hint=localized("GET /api/v1/processes lists those that are alive"),
        )
    (answer,) = await services.introspection.reports.of([member])
    view = _view(answer, services.context.registry.revision)
    # Of one that does not answer, what is not known is null: an empty list would say that there is nothing.
    return _details(view, answer.report, limit)


@router.get("/compensations")
async def list_compensations(
    services: ServicesDep, principal: ReaderOfSome, destination: Code | None = None
) -> CompensationsView:
    """Return the deliveries that wait for another attempt, by subscription, the most first.

    An entry without a subscription has the messages for later. ``due`` can be handed to a dispatcher now, and waits for
    capacity there; the others wait for their time, or are being delivered. ``next_due`` is
    when the next one can be handed over, null where all wait for an earlier message of their key.
    """
    if destination is not None:
        principal.require("read", destination)
    now = services.context.clock.now()
    found = {
        lane: rows
        for lane, rows in (await services.context.store.unfinished(now)).items()
        if principal.may("read", lane[0]) and destination in (None, lane[0])
    }
    items = [
        DueView(
            destination=code,
            subscription=name or None,
            waiting=rows.rows,
            due=rows.due,
            next_due=format_time(rows.next_at) if rows.next_at is not None else None,
        )
        for (code, name), rows in sorted(found.items(), key=lambda one: (-one[1].rows, one[0]))
    ]
    totals = DueTotalsView(
        waiting=sum(rows.rows for rows in found.values()), due=sum(rows.due for rows in found.values())
    )
    return CompensationsView(totals=totals, items=items)


@router.get("/orphans")
async def list_orphans(services: ServicesDep, _: Reader) -> OrphansView:
    """Return the local queues whose process has ended, as the sweepers see them.

    Only what a sweeper can see is known: ``watched`` has their directories, and nothing is known of other machines.
    ``records`` is what the last attempt to empty a queue left, null when there was none.
    """
    members = services.context.members
    answers = await services.introspection.reports.of([member for member in members.all if "sweeper" in member.roles])
    return OrphansView(
        watched=[
            WatchView(
                owner=answer.member.owner,
                node=answer.member.node,
                directories=answer.report.swept if answer.report is not None else [],
                answers=answer.report is not None,
                trouble=str(answer.trouble),
                trouble_text=localized_text_of(answer.trouble),
            )
            for answer in answers
        ],
        items=[
            FoundOrphanView(
                owner=answer.member.owner, node=answer.member.node, **msgspec.structs.asdict(_orphan(found))
            )
            for answer in answers
            if answer.report is not None
            for found in answer.report.orphans
        ],
    )


def _view(answer: Answer, revision: int) -> ProcessView:
    member, report = answer.member, answer.report
    workers = report.workers if report is not None else []
    return ProcessView(
        owner=member.owner,
        node=member.node,
        url=member.url,
        roles=list(member.roles),
        version=member.version,
        started_at=format_time(member.started_at),
        seen_seconds_ago=round(answer.seen, 3),
        answers=report is not None,
        trouble=str(answer.trouble),
        trouble_text=localized_text_of(answer.trouble),
        revision=member.revision,
        is_current=member.revision >= revision,
        troubles=[
            TroubleView(name=name, detail=str(said), detail_text=localized_text_of(said))
            for name, said in member.told_troubles().items()
        ],
        spools=[spool_view(name, found) for name, found in member.spools.items()],
        publishes_to=member.published_to,
        permits=PermitsView(
            in_use=sum(found.in_use for found in workers),
            share=sum(found.share for found in workers),
            subscriptions=len(workers),
        )
        if report is not None and member.is_dispatcher
        else None,
        open_breakers=member.open_breakers,
        orphans=member.orphans,
    )


def _details(view: ProcessView, report: Report | None, limit: int) -> ProcessDetailsView:
    known = msgspec.structs.asdict(view)
    del known["orphans"]
    if report is None:
        return ProcessDetailsView(**known)
    workers = sorted(report.workers, key=lambda one: (-one.in_use, -one.waiting, one.destination, one.subscription))
    lanes = sorted(report.lanes, key=lambda one: (-one.records, one.spool, one.lane, one.consumer))
    breakers = sorted(report.breakers.items(), key=lambda one: one[1].since)
    whole: dict[str, Sequence[object]] = {
        "couriers": workers,
        "lanes": lanes,
        "breakers": breakers,
        "orphans": report.orphans,
    }
    return ProcessDetailsView(
        **known,
        couriers=[_worker(found) for found in workers[:limit]],
        lanes=[
            LaneView(
                spool=found.spool,
                lane=found.lane,
                consumer=found.consumer,
                records=found.records,
                oldest=optional_time(found.oldest or 0),
            )
            for found in lanes[:limit]
        ],
        breakers=[_breaker(lane, found) for lane, found in breakers[:limit]],
        orphans=[_orphan(found) for found in report.orphans[:limit]],
        watched=report.swept,
        left_out={name: max(0, len(found) - limit) for name, found in whole.items()},
    )


def _worker(found: WorkerFigures) -> WorkerView:
    return WorkerView(
        destination=found.destination,
        subscription=found.subscription,
        in_use=found.in_use,
        share=found.share,
        max_concurrency=found.total,
        waiting=found.waiting,
    )


def _breaker(lane: str, found: BreakerFigures) -> BreakerView:
    destination, _, name = lane.partition("/")
    return BreakerView(
        destination=destination,
        subscription=name,
        state=found.state,
        since=format_time(found.since),
        next_probe=format_time(found.probe_at),
        answered=found.answered,
    )


def _orphan(found: Orphan) -> OrphanView:
    return OrphanView(
        directory=found.directory,
        kind=found.kind,
        records=found.records,
        bytes=found.bytes,
        touched_at=optional_time(found.touched_at),
        trouble=found.trouble,
    )
