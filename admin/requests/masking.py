"""The dependency that applies masking rules to a request, unless its principal may see and asks for everything."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Query, Request

from admin.deps import ServicesDep, who
from admin.requests.audited import UNMASKED, is_noted
from admin.showing.masks import Masks


async def _masks(
    request: Request,
    services: ServicesDep,
    unmasked: Annotated[
        bool, Query(alias=UNMASKED, description="See what masking rules hide: for admins, and in the audit log.")
    ] = False,
) -> Masks:
    if unmasked and not is_noted(request):
        raise RuntimeError("a route that shows what is hidden has no AuditedRoute")
    return Masks(services.context.registry.catalog, await who(request, services), unmasked=unmasked)


MasksDep = Annotated[Masks, Depends(_masks)]
