"""Routes of secrets at rest: sealed with the current key or not. No answer has a secret."""

from __future__ import annotations

from fastapi import APIRouter

from admin.deps import Configurer, ServicesDep
from admin.models.responses.operations import StaleView
from admin.requests.audited import AuditedRoute

router = APIRouter(prefix="/secrets", tags=["operations"], route_class=AuditedRoute)


@router.get("")
async def count_stale(services: ServicesDep, _: Configurer) -> StaleView:
    """Return how many subscriptions have a secret at rest that is not sealed with ``BUS_SECRET_KEY``."""
    return StaleView(stale=await services.context.registry.stale())


@router.post("/reseal")
async def reseal(services: ServicesDep, _: Configurer) -> StaleView:
    """Seal all secrets with ``BUS_SECRET_KEY``, once every process has it; then the former key can be removed."""
    done = await services.context.registry.reseal()
    return StaleView(resealed=done, stale=await services.context.registry.stale())
