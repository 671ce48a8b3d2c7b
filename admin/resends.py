"""Routes of bulk resends."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Query, Response
from fastapi.responses import JSONResponse

from admin.audited import AuditedRoute
from admin.deps import OfficeDep, ReaderOfSome, ResenderOfSome
from admin.jobs import Job, no_job
from admin.models import ResendsBody, SelectionBody, optional_time
from admin.views import message_row
from bus.domain.identity import new_id
from bus.security.principals import Principal

router = APIRouter(prefix="/resends", tags=["resends"], route_class=AuditedRoute)


@router.post("", status_code=202)
async def create_resend(body: ResendsBody, services: OfficeDep, principal: ResenderOfSome) -> Response:
    """Resend every delivery that the filter takes; a dry run counts them and shows the first."""
    principal.require("resend", body.filter.destination)
    selection = body.filter.to_domain()
    if body.dry_run:
        count, sample = await services.runner.preview(selection)
        return JSONResponse({"count": count, "sample": [message_row(trace) for trace in sample]})
    now = services.context.clock.now()
    # What arrives after this moment is not part of the job.
    frozen = msgspec.structs.replace(selection, before=min(selection.before or now, now))
    job = Job(new_id(now), frozen, body.rate, body.reason, principal.name, now)
    await services.runner.submit(job)
    return JSONResponse({"id": job.id}, status_code=202)


@router.get("")
async def list_resends(
    services: OfficeDep,
    principal: ReaderOfSome,
    cursor: str | None = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 50,
) -> dict[str, Any]:
    """Return one page of jobs, the newest first."""
    jobs = [
        job
        for job in reversed(await services.book.jobs())
        if (cursor is None or job.id < cursor) and principal.may("read", job.selection.destination)
    ]
    following = jobs[limit - 1].id if len(jobs) > limit else None
    return {"items": [_view(job) for job in jobs[:limit]], "next": following}


@router.get("/{job_id}")
async def get_resend(job_id: str, services: OfficeDep, principal: ReaderOfSome) -> dict[str, Any]:
    """Return a job's progress and counts."""
    return _view(await _job(services, job_id, principal, "read"))


@router.get("/{job_id}/items")
async def list_items(
    job_id: str, services: OfficeDep, principal: ReaderOfSome, cursor: Annotated[int, Query(ge=0)] = 0
) -> dict[str, Any]:
    """Return one chunk of a job's items with their outcomes."""
    job = await _job(services, job_id, principal, "read")
    items = await services.book.items(job_id, cursor)
    following = str(cursor + 1) if cursor + 1 < job.chunks else None
    return {"items": msgspec.to_builtins(items), "next": following}


@router.delete("/{job_id}")
async def cancel_resend(job_id: str, services: OfficeDep, principal: ResenderOfSome) -> dict[str, Any]:
    """Resend nothing more of a job."""
    return _view(await services.runner.cancel(await _job(services, job_id, principal, "resend")))


async def _job(services: OfficeDep, job_id: str, principal: Principal, action: str) -> Job:
    """Return a job; to who may not do that, one over another destination is one that is not there."""
    job = await services.book.job(job_id)
    if not principal.may(action, job.selection.destination):
        raise no_job(job_id)
    return job


def _view(job: Job) -> dict[str, Any]:
    return {
        "id": job.id,
        "state": job.state,
        "by": job.by,
        "reason": job.reason,
        "rate": job.rate,
        "created_at": optional_time(job.created_at),
        "filter": SelectionBody.of(job.selection).model_dump(by_alias=True, exclude_none=True),
        "counts": msgspec.to_builtins(job.counts),
    }
