"""Routes of destinations."""

from __future__ import annotations

from typing import Any

import msgspec
from fastapi import APIRouter, Response

from admin.configuring.order_ending import check_ending
from admin.deps import Configurer, Reader, ReaderOfSome, ServicesDep
from admin.models.base import Code
from admin.models.configuration import DestinationBody
from admin.models.repair import ReleaseBody
from admin.models.responses.base import Listing, encoded
from admin.models.responses.configuration import DestinationView
from admin.models.responses.ordering import ReleasedView
from admin.requests.audited import AuditedRoute, AuditNotes, NotingDep
from admin.requests.changing import merged, put_unless_refused
from admin.services import AdminServices
from bus.domain.destination import Destination, check_removable, switched
from bus.domain.ordering.combining import check_order
from bus.errors import InvalidMessage
from bus.localized_text import localized

router = APIRouter(prefix="/destinations", tags=["destinations"], route_class=AuditedRoute)


@router.get("", response_model=Listing[DestinationView])
def list_destinations(services: ServicesDep, principal: ReaderOfSome) -> Response:
    """Return by code all destinations that the key may read."""
    found = services.context.registry.catalog.destinations
    codes = [code for code in sorted(found) if principal.may("read", code)]
    return encoded(Listing(items=[DestinationView.of(found[code]) for code in codes]))


@router.get("/{code}")
async def get_destination(code: Code, services: ServicesDep, _: Reader) -> DestinationView:
    """Return one destination."""
    return DestinationView.of(services.context.registry.destination(code))


@router.put("/{code}")
async def put_destination(
    code: Code, body: DestinationBody, services: ServicesDep, noting: NotingDep, _: Configurer
) -> DestinationView:
    """Make or replace a destination."""
    if body.code:
        _check_code(body, code)
    registry = services.context.registry
    known = registry.catalog.destinations.get(code)
    return await _put(services, noting, body.to_domain(code, known.version if known else 0))


@router.patch("/{code}")
async def patch_destination(
    code: Code, changes: dict[str, Any], services: ServicesDep, noting: NotingDep, _: Configurer
) -> DestinationView:
    """Change the fields that are sent."""
    registry = services.context.registry
    known = registry.destination(code)
    body = merged(DestinationBody.of(known), changes)
    _check_code(body, code)
    return await _put(services, noting, body.to_domain(code, known.version))


@router.delete("/{code}", status_code=204)
async def delete_destination(code: Code, services: ServicesDep, _: Configurer) -> Response:
    """Remove a destination that has no subscriptions and no masking rules.

    Its messages stay searchable until their retention, so the rules are taken away first, by a change of their own.
    """
    registry = services.context.registry
    check_removable(registry.destination(code), registry.catalog.of(code))
    await registry.remove_destination(code)
    await services.settle()
    # Else scheduled messages would go to the subscriptions of a later destination with the same code.
    await services.context.store.cancel(code, "", services.context.clock.now())
    return Response(status_code=204)


@router.post("/{code}/release-order")
async def release_order(
    code: Code, body: ReleaseBody, services: ServicesDep, noting: NotingDep, _: Configurer
) -> ReleasedView:
    """Let another process keep the order of a destination, whose own does not come back, not even to be swept.

    Messages on the disk of that process come, if ever, behind those accepted from now on; none is lost by this. 409
    while that process is alive; nothing changes if no process keeps an order.
    """
    context = services.context
    context.registry.destination(code)
    released = await context.leaders.give_up(code)
    noting.compare({}, {"released": [str(task) for task in released], "reason": body.reason or None})
    return ReleasedView(released=released)


async def _put(services: AdminServices, noting: AuditNotes, destination: Destination) -> DestinationView:
    context = services.context
    registry = context.registry
    known = registry.catalog.destinations.get(destination.code)
    check_order(known, destination, registry.catalog.of(destination.code))
    context.router.check(destination)
    await check_ending(context, known, destination)

    async def undo(stored: Destination) -> None:
        if known is None:
            await registry.remove_destination(stored.code)
        else:
            await registry.put_destination(msgspec.structs.replace(known, version=stored.version))

    wanted = switched(known, destination, context.clock.now())
    stored = await put_unless_refused(services, destination.code, lambda: registry.put_destination(wanted), undo)
    before = DestinationBody.of(known).model_dump() if known is not None else {}
    noting.compare(before, DestinationBody.of(stored).model_dump())
    return DestinationView.of(stored)


def _check_code(body: DestinationBody, code: str) -> None:
    if body.code != code:
        raise InvalidMessage(
            localized("the path says {name}, the body {other}", name=repr(code), other=repr(body.code)), field="code"
        )
