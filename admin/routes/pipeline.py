"""Routes of a running pipeline (`bus pipeline serve`): its status, its last proof, and requested runs."""

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
    """Return the status of the pipeline: its stream, its jobs with their next times, its latest runs, and requests."""
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
    """Report the status of a pipeline, in place of the last one; return the runs that people request.

    `bus pipeline serve` does so every two seconds. A request is over once the runs that are reported have it, or a job
    waits with it.
    """
    now, by = services.context.clock.now(), principal.name or principal.id
    return WishesView(wishes=await services.pipeline.tell(body.to_domain(), now, by))


# A status report every few seconds is no action of a person, and has no entry in the audit log.
router.add_api_route("", tell_pipeline, methods=["PUT"], route_class_override=APIRoute)


@router.get("/proof")
async def get_proof_report(services: ServicesDep, _: Reader) -> ProofReportView:
    """Return the last proof, with its first findings; null where there is none yet."""
    return ProofReportView(proof=await services.pipeline.proof())


@router.put("/proof", status_code=204)
async def tell_proof_report(body: ProofReportBody, services: ServicesDep, _: Resender) -> Response:
    """Report the findings of the last proof, for the page; `PUT /api/v1/findings/proof` is for alarms."""
    await services.pipeline.put_proof(body.to_domain())
    return Response(status_code=204)


@router.post("/runs", status_code=202, responses=refusals(404))
async def want_run(body: WishBody, services: ServicesDep, principal: Resender) -> WishesView:
    """Request a run of a job now; a repeated request changes nothing.

    The pipeline accepts it within seconds. The job that archives needs the right to configure, since the bus then
    drops archived messages. 404 for a job that the pipeline does not have, 409 while the pipeline does not report.
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
