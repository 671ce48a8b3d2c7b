"""Routes of keys that are held up, where a destination keeps an order."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from admin.deps import Reader, Resender, ServicesDep
from admin.models.base import Code, optional_time
from admin.models.repair import KeyBody, SkipBody
from admin.models.responses.base import Listing
from admin.models.responses.ordering import DecidedView, HeldKeyView
from admin.repair.held_keys import HeldKey
from admin.requests.audited import AuditedRoute, AuditNotes, NotingDep
from bus.domain.times import format_time

router = APIRouter(prefix="/destinations/{code}/subscriptions/{name}/keys", tags=["ordering"], route_class=AuditedRoute)


@router.get("")
async def list_held_keys(
    code: Code,
    name: str,
    services: ServicesDep,
    _: Reader,
    cursor: str | None = None,
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
) -> Listing[HeldKeyView]:
    """Return keys of a subscription that are held up, in the order of the keys.

    ``held_up_by`` is the message that failed; it is retried, to be resent, or dead and waits for a person (``status``,
    ``reason``). ``since`` is its first attempt, ``next_attempt_at`` null when no attempt comes by itself, and
    ``waiting`` how many wait behind it in the store: what is held up for less than ten seconds or so may wait in
    the dispatcher's memory, uncounted. A page may have fewer keys than ``limit``, even none, and a ``next``.
    """
    subscription = services.context.registry.subscription(code, name)
    found, following = await services.held_keys.page(subscription, after=cursor, limit=limit)
    return Listing(items=[_view(held) for held in found], next=following)


@router.post("/resume", status_code=202)
async def resume_key(
    code: Code, name: str, body: KeyBody, services: ServicesDep, noting: NotingDep, principal: Resender
) -> DecidedView:
    """Resend the message that holds up a key, as a job of one message; those behind it follow once it is delivered.

    Within seconds its dispatcher attempts it again, before any other of the key. What was resent and not attempted
    since is not resent twice. 404 when nothing holds up the key.
    """
    subscription = services.context.registry.subscription(code, name)
    message_id = await services.held_keys.resume(subscription, body.key, principal.name)
    return _decided(noting, body.key, message_id)


@router.post("/skip", status_code=202)
async def skip_key(
    code: Code, name: str, body: SkipBody, services: ServicesDep, noting: NotingDep, principal: Resender
) -> DecidedView:
    """Park the message that holds up a key (``parked``); within seconds those behind it are delivered without it.

    It can be found, and resent out of order. An attempt that is under way may still reach the subscriber. 404 when
    nothing holds up the key.
    """
    subscription = services.context.registry.subscription(code, name)
    message_id = await services.held_keys.skip(subscription, body.key, principal.name, body.reason)
    return _decided(noting, body.key, message_id, body.reason)


def _decided(noting: AuditNotes, key: str, message_id: str, reason: str = "") -> DecidedView:
    # In the log a field that is called "key" is a secret.
    noting.compare({}, {"ordering_key": key, "message_id": message_id, "reason": reason or None})
    return DecidedView(key=key, message_id=message_id)


def _view(held: HeldKey) -> HeldKeyView:
    delivery = held.delivery
    return HeldKeyView(
        key=held.key,
        waiting=held.waiting,
        held_up_by=held.trace.id,
        status=delivery.status,
        reason=delivery.reason,
        since=format_time(held.since),
        next_attempt_at=optional_time(delivery.due_at),
        attempts=delivery.attempts_made,
    )
