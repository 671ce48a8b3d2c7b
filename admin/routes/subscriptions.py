"""Routes of subscriptions."""

from __future__ import annotations

from typing import Any

import msgspec
from fastapi import APIRouter, Response

from admin.configuring.subscribing import AUTO, check, secrets_of, whole
from admin.deps import Configurer, Pauser, Reader, ServicesDep
from admin.models.base import Code
from admin.models.configuration import RotateBody, SubscriptionBody
from admin.models.responses.base import Listing
from admin.models.responses.configuration import SubscriptionView
from admin.requests.audited import AuditedRoute, AuditNotes, NotingDep
from admin.requests.changing import merged, put_unless_refused
from admin.services import AdminServices
from bus.domain.durations import parse_duration
from bus.domain.ordering.combining import check_batch
from bus.domain.searching.masking import MASK
from bus.domain.subscription import Subscription
from bus.errors import Conflict, InvalidMessage
from bus.localized_text import localized, text_of_error
from bus.security.keys import Action
from bus.security.principals import Principal
from bus.security.signatures import new_secret

router = APIRouter(prefix="/destinations/{code}/subscriptions", tags=["subscriptions"], route_class=AuditedRoute)


@router.get("")
async def list_subscriptions(code: Code, services: ServicesDep, principal: Reader) -> Listing[SubscriptionView]:
    """Return a destination's subscriptions by name; header values are ``***`` unless the caller may set them."""
    registry = services.context.registry
    registry.destination(code)
    found = sorted(registry.catalog.of(code), key=lambda subscription: subscription.name)
    return Listing(items=[_shown(SubscriptionView.of(subscription), code, principal) for subscription in found])


@router.get("/{name}")
async def get_subscription(code: Code, name: str, services: ServicesDep, principal: Reader) -> SubscriptionView:
    """Return one subscription; its secret is never shown again.

    Values of its headers may be credentials: they are ``***`` but for who may set them.
    """
    return _shown(SubscriptionView.of(services.context.registry.subscription(code, name)), code, principal)


@router.put("/{name}")
async def put_subscription(
    code: Code, name: str, body: SubscriptionBody, services: ServicesDep, noting: NotingDep, _: Configurer
) -> SubscriptionView:
    """Create or replace a subscription; answers once its queue exists. A new secret is shown once."""
    if body.name:
        _check_name(body, name)
    registry = services.context.registry
    registry.destination(code)
    named = merged(body, {"name": name})
    return await _put(services, noting, code, named, registry.catalog.subscriptions.get((code, name)))


@router.patch("/{name}")
async def patch_subscription(
    code: Code, name: str, changes: dict[str, Any], services: ServicesDep, noting: NotingDep, principal: Pauser
) -> SubscriptionView:
    """Change the fields that are sent; without ``secret`` the secrets stay. An operator may pause and resume only."""
    if set(changes) != {"paused"}:
        principal.require("configure", code)
    known = services.context.registry.subscription(code, name)
    if "secret" not in changes:
        changes = {**changes, "secret": AUTO if known.secrets else None}
    body = merged(SubscriptionBody.of(known), changes)
    _check_name(body, name)
    return _shown(await _put(services, noting, code, body, known), code, principal)


@router.post("/{name}/rotate-secret")
async def rotate_secret(
    code: Code, name: str, body: RotateBody, services: ServicesDep, _: Configurer
) -> SubscriptionView:
    """Make a new secret; until the overlap is over both sign. The new one is shown once.

    Former secrets sign until their own overlaps are over; while five sign, a rotation is a 409. An overlap
    of ``0s`` ends them all at once.
    """
    registry, now = services.context.registry, services.context.clock.now()
    known, fresh = registry.subscription(code, name), new_secret()
    try:
        secrets = known.rotated(fresh, now, now + parse_duration(body.overlap))
    except ValueError as error:
        raise Conflict(
            text_of_error(error),
            hint=localized("rotate again after that time; an overlap of 0s ends all former secrets at once"),
        ) from error
    stored = await registry.put_subscription(msgspec.structs.replace(known, secrets=secrets))
    await services.settle()
    return SubscriptionView.of(stored, secret=fresh)


@router.delete("/{name}", status_code=204)
async def delete_subscription(code: Code, name: str, services: ServicesDep, _: Configurer) -> Response:
    """Remove a subscription; its open deliveries are canceled."""
    context = services.context
    context.registry.subscription(code, name)
    await context.registry.remove_subscription(code, name)
    await services.settle()
    await services.cancellations.cancel(code, name, context.clock.now())
    return Response(status_code=204)


def _check_name(body: SubscriptionBody, name: str) -> None:
    if body.name != name:
        raise InvalidMessage(
            localized("the path says {name}, the body {other}", name=repr(name), other=repr(body.name)), field="name"
        )


async def _put(
    services: AdminServices, noting: AuditNotes, code: str, body: SubscriptionBody, known: Subscription | None
) -> SubscriptionView:
    context = services.context
    check(context.egress, body)
    secrets, made = secrets_of(body.secret, known)
    registry = context.registry
    wanted = body.to_domain(code, body.name, secrets=secrets, known=known, now=context.clock.now())
    check_batch(registry.destination(code), wanted)

    async def undo(stored: Subscription) -> None:
        if known is None:
            await registry.remove_subscription(code, stored.name)
        else:
            await registry.put_subscription(msgspec.structs.replace(known, version=stored.version))

    stored = await put_unless_refused(services, code, lambda: registry.put_subscription(wanted), undo)
    noting.compare(whole(known), whole(stored))
    return SubscriptionView.of(stored, secret=made)


def _shown(found: SubscriptionView, code: str, principal: Principal) -> SubscriptionView:
    if principal.may(Action.CONFIGURE, code):
        return found
    return msgspec.structs.replace(found, headers=dict.fromkeys(found.headers, MASK))
