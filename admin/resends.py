"""Routes of bulk resends."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Query, Response
from fastapi.responses import JSONResponse

from admin.deps import OfficeDep, Reader, Resending
from admin.jobs import Job
from admin.models import ResendsBody, SelectionBody, optional_time
from admin.views import message_row
from bus.domain.identity import new_id

router = APIRouter(prefix="/resends", tags=["resends"])


@router.post("", status_code=202)
async def create_resend(body: ResendsBody, services: OfficeDep, principal: Resending) -> Response:
    """Resend every delivery that the filter takes; a dry run counts them and shows the first."""
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
    _: Reader,
    cursor: str | None = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 50,
) -> dict[str, Any]:
    """Return one page of jobs, the newest first."""
    jobs = [job for job in reversed(await services.book.jobs()) if cursor is None or job.id < cursor]
    following = jobs[limit - 1].id if len(jobs) > limit else None
    return {"items": [_view(job) for job in jobs[:limit]], "next": following}


@router.get("/{job_id}")
async def get_resend(job_id: str, services: OfficeDep, _: Reader) -> dict[str, Any]:
    """Return a job's progress and counts."""
    return _view(await services.book.job(job_id))


@router.get("/{job_id}/items")
async def list_items(
    job_id: str, services: OfficeDep, _: Reader, cursor: Annotated[int, Query(ge=0)] = 0
) -> dict[str, Any]:
    """Return one chunk of a job's items with their outcomes."""
    job = await services.book.job(job_id)
    items = await services.book.items(job_id, cursor)
    following = str(cursor + 1) if cursor + 1 < job.chunks else None
    return {"items": msgspec.to_builtins(items), "next": following}


@router.delete("/{job_id}")
async def cancel_resend(job_id: str, services: OfficeDep, _: Resending) -> dict[str, Any]:
    """Resend nothing more of a job."""
    return _view(await services.runner.cancel(job_id))


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
