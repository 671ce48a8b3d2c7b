"""Routes of findings of the pipeline, which the alarm rules `norm` and `proof` use."""

from __future__ import annotations

from fastapi import APIRouter

from admin.deps import Reader, Resender, ServicesDep
from admin.models.findings import NormsBody, ProofBody
from admin.models.responses.findings import FindingsView, NormsView, ProofView
from admin.requests.audited import AuditedRoute
from admin.showing.findings import findings_view, norms_view, proof_view
from bus.http.openapi import refusals

router = APIRouter(prefix="/findings", tags=["alarms"], route_class=AuditedRoute)


@router.get("")
async def get_findings(services: ServicesDep, _: Reader) -> FindingsView:
    """Return the findings that the pipeline reported last."""
    return findings_view(await services.findings.found())


@router.put("/norms")
async def tell_norms(body: NormsBody, services: ServicesDep, principal: Resender) -> NormsView:
    """Report the metrics outside of their norms, in place of the last report; `bus pipeline judge --tell` does.

    Each metric is an alarm (`norm`) until a report is without it, or there was no report for three hours.
    """
    told = body.to_domain(services.context.clock.now(), principal.name or principal.id)
    await services.findings.put_norms(told)
    return norms_view(told)


@router.put("/proof", responses=refusals(409))
async def tell_proof(body: ProofBody, services: ServicesDep, principal: Resender) -> ProofView:
    """Report the findings of a proof; `bus pipeline reconcile --tell` does.

    Each subscription is an alarm (`proof`) until a later proof that covers those messages does not find it.
    409 when another proof was reported at the same time.
    """
    told = body.to_domain(services.context.clock.now(), principal.name or principal.id)
    return proof_view(await services.findings.put_proof(told))
