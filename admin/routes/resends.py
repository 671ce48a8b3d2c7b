"""Routes of bulk resends, and of all jobs: those that discard are among them."""

from __future__ import annotations

from typing import Annotated, Final, Literal

import msgspec
from fastapi import APIRouter, Query, Response
from fastapi.responses import StreamingResponse

from admin.deps import ReaderOfSome, ResenderOfSome, ServicesDep
from admin.models.base import optional_time
from admin.models.repair import DeliveriesBody, OutcomeName, RerunBody, ResendRateBody, ResendsBody
from admin.models.responses.base import Listing
from admin.models.responses.resends import JobView, NewFailuresView, PreviewView, ResendView
from admin.models.selection import SelectionBody
from admin.repair.item_pages import CONTENT_TYPES, ItemReader
from admin.repair.jobs import Item, Job, Kind, Orders, no_job
from admin.requests.audited import AuditedRoute, NotingDep
from admin.requests.documented import Responses, download
from admin.requests.masking import MasksDep
from admin.services import AdminServices
from admin.showing.views import message_row
from bus.domain.identity import id_time, new_id
from bus.domain.searching.selection import Selection
from bus.domain.times import format_time
from bus.security.principals import Principal

router = APIRouter(prefix="/resends", tags=["resends"], route_class=AuditedRoute)
_FILES: Final = download("The items, as an attachment.", *CONTENT_TYPES.values())
_AGAIN: Final[dict[Kind, list[OutcomeName]]] = {Kind.RESEND: ["failed", "missing"], Kind.DISCARD: ["discarded"]}
_PREVIEW: Final[Responses] = {200: {"description": "What a dry run counted", "model": PreviewView}}


@router.post("", status_code=202, response_model=JobView, responses=_PREVIEW)
async def create_resend(
    body: ResendsBody, response: Response, services: ServicesDep, principal: ResenderOfSome, masks: MasksDep
) -> JobView | PreviewView:
    """Resend every delivery that the filter takes; a dry run (200) counts them and shows the first messages.

    ``filter`` of a dry run is the frozen form, which takes exactly what was counted, without what arrives later.
    ``complete`` is false when the time did not suffice: then ``count`` is that of messages made at ``counted_since``
    or later, and there are more. 422 without ``reorder`` when the filter may take messages of a strictly ordered
    destination; a dry run counts them.
    """
    principal.require("resend", body.filter.destination)
    now = services.context.clock.now()
    # The selection ends now: messages that arrive later are not part of the job.
    selection = body.filter.to_domain()
    masks.require_unprobed(selection)
    frozen = msgspec.structs.replace(selection, before=min(selection.before or now, now))
    if body.dry_run:
        response.status_code = 200
        return await preview(services, frozen)
    services.check_reorder(frozen.destination, reorder=body.reorder)
    job = Job(new_id(now), frozen, body.rate, body.reason, principal.name, now)
    job.is_oldest_first = services.keeps_order(frozen.destination)
    await services.runner.submit(job)
    return JobView(id=job.id)


@router.post("/deliveries", status_code=202)
async def end_deliveries(body: DeliveriesBody, services: ServicesDep, principal: ResenderOfSome) -> JobView:
    """Finish deliveries that were found unfinished, as by a proof, as a bulk resend of exactly these.

    One that is pending for longer than its subscription's ``stuck_after`` goes to a dispatcher as it is; one that
    retries, is dead or is parked is resent; one that may be on its way, waits because its subscription or destination
    is paused, or has ended well, is skipped.
    """
    principal.require("resend", body.destination)
    services.check_reorder(body.destination, reorder=body.reorder)
    names = list(dict.fromkeys((each.id, each.subscription) for each in body.deliveries))
    job = await services.runner.end(body.destination, names, body.rate, body.reason, principal.name)
    return JobView(id=job.id)


@router.get("")
async def list_resends(
    services: ServicesDep,
    principal: ReaderOfSome,
    cursor: str | None = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 50,
) -> Listing[ResendView]:
    """Return one page of jobs, the newest first."""
    orders = await services.jobs.all_orders()
    jobs = [
        job
        for job in reversed(await services.jobs.all())
        if (cursor is None or job.id < cursor) and principal.may("read", job.selection.destination)
    ]
    following = jobs[limit - 1].id if len(jobs) > limit else None
    return Listing(items=[_view(services, job, orders.get(job.id, Orders())) for job in jobs[:limit]], next=following)


@router.get("/{job_id}")
async def get_resend(job_id: str, services: ServicesDep, principal: ReaderOfSome) -> ResendView:
    """Return a job's progress and counts.

    ``kind`` is resend or discard.

    ``state`` is selecting, sending, waiting (for the last outcomes), paused, done or canceled. ``balanced`` says
    whether ``counts.selected`` is the sum of the other counts. ``total`` is null while the selection continues.
    ``seconds_left`` is about how long the job still takes, null where that is not known.
    ``new_failures`` counts what failed since the job was made and its filter would take had it no upper time; when not
    ``complete`` there may be more.
    """
    job = await _job(services, job_id, principal, "read")
    return await _whole_view(services, job, await services.jobs.orders(job_id))


@router.patch("/{job_id}")
async def change_resend(
    job_id: str, body: ResendRateBody, services: ServicesDep, noting: NotingDep, principal: ResenderOfSome
) -> ResendView:
    """Change the rate of a job that is at work or paused."""
    job = await _job(services, job_id, principal, "resend")
    before = (await services.jobs.orders(job_id)).rate_of(job)
    noting.compare({"rate": before}, {"rate": body.rate})
    return _view(services, job, await services.runner.change_rate(job, body.rate))


@router.post("/{job_id}/pause")
async def pause_resend(job_id: str, services: ServicesDep, principal: ResenderOfSome) -> ResendView:
    """Pause a job until it is resumed, also over restarts; outcomes are still noted."""
    job = await _job(services, job_id, principal, "resend")
    return _view(services, job, await services.runner.pause(job))


@router.post("/{job_id}/resume")
async def resume_resend(job_id: str, services: ServicesDep, principal: ResenderOfSome) -> ResendView:
    """Resume a paused job; no change for a job that is not paused."""
    job = await _job(services, job_id, principal, "resend")
    return _view(services, job, await services.runner.resume(job))


@router.post("/{job_id}/rerun", status_code=202)
async def rerun_resend(
    job_id: str, services: ServicesDep, principal: ResenderOfSome, body: RerunBody | None = None
) -> JobView:
    """Resend the items of a finished job that have these outcomes, as a new job.

    By default those that failed or were missing; of a discard, those that were discarded.
    """
    body = body or RerunBody()
    job = await _job(services, job_id, principal, "resend")
    services.check_reorder(job.selection.destination, reorder=body.reorder)
    outcomes = body.outcomes or _AGAIN[job.kind]
    again = await services.runner.rerun(job, outcomes, body.rate, body.reason, principal.name)
    return JobView(id=again.id, rerun_of=job.id)


@router.get("/{job_id}/items")
async def list_items(
    job_id: str,
    services: ServicesDep,
    principal: ReaderOfSome,
    outcome: OutcomeName | None = None,
    cursor: Annotated[str, Query(pattern=r"^[0-9]{1,8}(\.[0-9]{1,8})?$")] = "0",
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> Listing[Item]:
    """Return one page of a job's items, or of those with an outcome; a page may have few and still a ``next``."""
    reader = ItemReader(services.jobs, await _job(services, job_id, principal, "read"), outcome)
    items, following = await reader.page(cursor, limit)
    return Listing(items=items, next=following)


@router.get("/{job_id}/items/export", response_class=StreamingResponse, responses=_FILES)
async def export_items(
    job_id: str,
    services: ServicesDep,
    principal: ReaderOfSome,
    outcome: OutcomeName | None = None,
    kind: Annotated[Literal["csv", "ndjson"], Query(alias="format")] = "csv",
) -> Response:
    """Return all items of a job, or those with an outcome, as a download; one that breaks off is not whole."""
    job = await _job(services, job_id, principal, "read")
    reader = ItemReader(services.jobs, job, outcome)
    headers = {"content-disposition": f'attachment; filename="{job.kind}-{job_id}.{kind}"'}
    return StreamingResponse(reader.exported(kind), headers=headers, media_type=CONTENT_TYPES[kind])


@router.delete("/{job_id}")
async def cancel_resend(job_id: str, services: ServicesDep, principal: ResenderOfSome) -> ResendView:
    """Stop a job permanently; handled items are not undone, and the rest is counted as canceled."""
    job = await _job(services, job_id, principal, "resend")
    return _view(services, job, await services.runner.cancel(job))


async def _job(services: AdminServices, job_id: str, principal: Principal, action: str) -> Job:
    """Return a job; raises ``NotFound`` also when the principal may not do the action to its destination."""
    job = await services.jobs.get(job_id)
    if not principal.may(action, job.selection.destination):
        raise no_job(job_id)
    return job


async def preview(services: AdminServices, frozen: Selection) -> PreviewView:
    """Count the deliveries that a job would take, and return its first messages."""
    found = await services.chooser.preview(frozen)
    return PreviewView(
        count=found.deliveries,
        sample=[message_row(trace) for trace in found.sample],
        filter=_filter(frozen),
        complete=found.counted_to is None,
        counted_since=format_time(id_time(found.counted_to)) if found.counted_to is not None else None,
    )


async def _whole_view(services: AdminServices, job: Job, orders: Orders) -> ResendView:
    found = await services.chooser.new_failures(job)
    failures = NewFailuresView(count=found.deliveries, complete=found.complete) if found is not None else None
    return msgspec.structs.replace(_view(services, job, orders), new_failures=failures)


def _filter(selection: Selection) -> dict[str, str]:
    return SelectionBody.of(selection).model_dump(by_alias=True, exclude_none=True)


def _view(services: AdminServices, job: Job, orders: Orders) -> ResendView:
    return ResendView(
        id=job.id,
        kind=job.kind,
        state=orders.state(job),
        by=job.by,
        reason=job.reason,
        rate=orders.rate_of(job),
        created_at=optional_time(job.created_at),
        started_at=optional_time(job.started_at),
        finished_at=optional_time(job.finished_at),
        filter=_filter(job.selection),
        counts=job.counts,
        balanced=job.counts.is_balanced,
        total=None if job.state == "selecting" else job.counts.selected,
        seconds_left=_rounded(orders.seconds_left(job, services.context.clock.now())),
        rerun_of=job.rerun_of or None,
        outcomes=list(job.outcomes),
        reruns=list(job.reruns),
    )


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 1)
