"""The route of bulk discards; their jobs are among the resends."""

from __future__ import annotations

from typing import Final

import msgspec
from fastapi import APIRouter, Response

from admin.deps import ResenderOfSome, ServicesDep
from admin.models.repair import DiscardsBody
from admin.models.responses.resends import JobView, PreviewView
from admin.repair.jobs import Job, Kind
from admin.requests.audited import AuditedRoute, NotingDep
from admin.requests.documented import Responses
from admin.requests.masking import MasksDep
from admin.routes.resends import preview
from bus.domain.audit import Change
from bus.domain.delivery.delivery import UNDELIVERED
from bus.domain.identity import new_id
from bus.domain.searching.selection import Selection
from bus.errors import InvalidMessage
from bus.http.openapi import refusals
from bus.localized_text import listed, localized

router = APIRouter(prefix="/discards", tags=["resends"], route_class=AuditedRoute)
_PREVIEW: Final[Responses] = {200: {"description": "What a dry run counted", "model": PreviewView}}


@router.post("", status_code=202, response_model=JobView, responses=_PREVIEW | refusals(404))
async def create_discard(
    body: DiscardsBody,
    response: Response,
    services: ServicesDep,
    noting: NotingDep,
    principal: ResenderOfSome,
    masks: MasksDep,
) -> JobView | PreviewView:
    """Discard every delivery of one subscription that the filter takes and that is not delivered yet.

    They end as canceled, with the user and the reason; other subscriptions still get the messages. The job is
    one of ``GET /api/v1/resends``, and ``POST /api/v1/resends/{id}/rerun`` resends what it discarded. A dry run (200)
    counts as that of a resend. An attempt that is under way may still succeed: then the delivery is delivered.
    """
    principal.require("resend", body.filter.destination)
    selection = _selection(body, services.context.clock.now())
    services.context.registry.subscription(selection.destination or "", selection.subscription or "")
    masks.require_unprobed(selection)
    found = await preview(services, selection)
    if body.dry_run:
        response.status_code = 200
        return found
    noting.changes["count"] = Change(None, found.count if found.complete else f"over {found.count}")
    now = services.context.clock.now()
    job = Job(new_id(now), selection, None, body.reason, principal.name, now, kind=Kind.DISCARD)
    await services.runner.submit(job)
    noting.changes["job"] = Change(None, job.id)
    return JobView(id=job.id)


def _selection(body: DiscardsBody, now: int) -> Selection:
    """Return the frozen selection; raises ``InvalidMessage`` unless it is of one subscription's undelivered ones."""
    wanted = body.filter.to_domain()
    for name in ("destination", "subscription"):
        if not getattr(wanted, name):
            raise InvalidMessage(
                localized("say of which subscription deliveries are discarded"), field=f"filter.{name}"
            )
    if wanted.status is not None and wanted.status not in UNDELIVERED:
        raise InvalidMessage(
            localized(
                "what is {status} has ended already: give one of {states}",
                status=wanted.status.value,
                states=listed(sorted(UNDELIVERED), len(UNDELIVERED)),
            ),
            field="filter.status",
        )
    before = min(wanted.before or now, now)
    return msgspec.structs.replace(wanted, before=before, undelivered=True)
