"""Routes of a pipeline that stays (`bus pipeline serve`): how it is, its last proof, and runs that people want."""

from __future__ import annotations

from fastapi import APIRouter, Response
from fastapi.routing import APIRoute

from admin.deps import Reader, Resender, ServicesDep
from admin.models.pipeline import PipelineBody, ProofReportBody, WishBody
from admin.models.responses.pipeline import PipelineView, ProofReportView, WishesView
from admin.requests.audited import AuditedRoute
from bus.domain.identity import new_id
from bus.domain.pipelines import Job, RunRequest
from bus.domain.times import format_time
from bus.errors import Conflict, NotFound
from bus.http.openapi import refusals
from bus.localized_text import localized
from bus.security.keys import Action

router = APIRouter(prefix="/pipeline", tags=["pipeline"], route_class=AuditedRoute)


@router.get("")
async def get_pipeline(services: ServicesDep, _: Reader) -> PipelineView:
    """Return how the pipeline is: its stream, its jobs with their next times, its latest runs, and what is wanted."""
    told, wanted = await services.pipeline.told(), await services.pipeline.wishes()
    if told is None:
        return PipelineView(told_at=None, by="", heard=False, pipeline=None, wishes=wanted)
    return PipelineView(
        told_at=format_time(told.at),
        by=told.by,
        heard=told.is_heard(services.context.clock.now()),
        pipeline=told.pipeline,
        wishes=wanted,
    )


async def tell_pipeline(body: PipelineBody, services: ServicesDep, principal: Resender) -> WishesView:
    """Tell how a pipeline is, in place of what was told before, and learn which runs people want.

    `bus pipeline serve` does so every two seconds. A wish is over once it is told of among the runs, or a job waits
    with it.
    """
    now, by = services.context.clock.now(), principal.name or principal.id
    return WishesView(wishes=await services.pipeline.tell(body.to_domain(), now, by))


# What it tells of itself every few seconds is no deed of anybody, and has no entry in the audit log.
router.add_api_route("", tell_pipeline, methods=["PUT"], route_class_override=APIRoute)


@router.get("/proof")
async def get_proof_report(services: ServicesDep, _: Reader) -> ProofReportView:
    """Return the last proof, with what it found first; null where there is none yet."""
    return ProofReportView(proof=await services.pipeline.proof())


@router.put("/proof", status_code=204)
async def tell_proof_report(body: ProofReportBody, services: ServicesDep, _: Resender) -> Response:
    """Tell what the last proof found, for people to look at; `PUT /api/v1/findings/proof` is for alarms."""
    await services.pipeline.put_proof(body.to_domain())
    return Response(status_code=204)


@router.post("/runs", status_code=202, responses=refusals(404))
async def want_run(body: WishBody, services: ServicesDep, principal: Resender) -> WishesView:
    """Have a job run now; one that is wanted already is not wanted twice.

    The pipeline takes it within seconds. To archive, which has the bus drop what the archive has, is for those who may
    configure. 404 for a job that the pipeline does not have, 409 while nothing is heard of it.
    """
    if body.job is Job.ARCHIVE:
        principal.require(Action.CONFIGURE, None)
    told, now = await services.pipeline.told(), services.context.clock.now()
    if told is None or not told.is_heard(now):
        raise Conflict(
            localized("no pipeline reports to this bus; no run was requested"),
            hint=localized("start one: {command}", command="bus pipeline serve"),
        )
    if body.job not in {each.job for each in told.pipeline.jobs}:
        raise NotFound(localized("this pipeline does not have the job {job}", job=body.job))
    by = principal.name or principal.id
    await services.pipeline.wish(RunRequest(id=new_id(now), job=body.job, by=by, at=format_time(now)))
    return WishesView(wishes=await services.pipeline.wishes())
