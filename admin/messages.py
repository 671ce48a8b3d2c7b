"""Routes of messages: search, trace, body, resend."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response

from admin.audited import AuditedRoute, add_entry
from admin.deps import OfficeDep, Reader, ReaderOfSome, ResenderOfSome
from admin.masks import MasksDep, withheld
from admin.models import ResendBody, Time
from admin.views import message_row, trace_view
from bus.domain.delivery import Status
from bus.domain.identity import parse_id
from bus.domain.selection import Selection
from bus.domain.signature import MOST_CHARACTERS
from bus.domain.times import parse_time
from bus.domain.trace import Trace
from bus.errors import InvalidMessage, NotFound
from bus.security.principals import Principal

router = APIRouter(prefix="/messages", tags=["messages"], route_class=AuditedRoute)


@router.get("")
async def search_messages(
    services: OfficeDep,
    _: Reader,
    destination: str | None = None,
    subscription: str | None = None,
    status: Status | None = None,
    biz_id: str | None = None,
    source: str | None = None,
    since: Annotated[Time | None, Query(alias="from")] = None,
    before: Annotated[Time | None, Query(alias="to")] = None,
    q: str | None = None,
    signature: Annotated[str | None, Query(max_length=MOST_CHARACTERS)] = None,
    cursor: str | None = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 50,
) -> dict[str, Any]:
    """Return one page of messages, the newest first."""
    selection = Selection(
        destination=destination,
        subscription=subscription,
        status=status,
        biz_id=biz_id,
        source=source,
        since=parse_time(since) if since else None,
        before=parse_time(before) if before else None,
        text=q,
        signature=signature,
    )
    try:
        page = await services.context.store.search(selection, cursor=cursor, limit=limit)
    except ValueError as error:
        raise InvalidMessage(str(error), field="cursor") from error
    return {"items": [message_row(trace) for trace in page.traces], "next": page.next}


@router.get("/{message_id}")
async def get_trace(message_id: str, services: OfficeDep, principal: ReaderOfSome, masks: MasksDep) -> dict[str, Any]:
    """Return the whole life of a message.

    ``masked``: its destination has masking rules; the headers that they name are ``***``, and what subscribers answered
    is withheld (``response`` is null).
    """
    trace = masks.trace(await _trace(services, message_id, principal, "read"))
    return trace_view(trace, services.context.registry.catalog) | {"masked": bool(masks.of(trace.destination))}


@router.get("/{message_id}/body")
async def get_body(
    message_id: str, request: Request, services: OfficeDep, principal: ReaderOfSome, masks: MasksDep
) -> Response:
    """Return the exact bytes of a message, as a download: a browser never renders them. Who read it is on record.

    Where masking rules hide parts of it the answer has ``Bus-Masked: true``, and is a 403 when it cannot be masked.
    """
    message = await services.context.store.message(_id(message_id))
    if message is None or not principal.may("read", message.destination):
        raise _missing(message_id)
    seen = await masks.body(message)
    if not masks.unmasked:
        await add_entry(request, principal, status=200 if seen.body is not None else 403)
    if seen.body is None:
        raise withheld(seen)
    headers = {
        "content-disposition": f'attachment; filename="{message.id}"',
        "content-type": message.content_type,
    }
    if seen.masked:
        headers["bus-masked"] = "true"
    return Response(seen.body, headers=headers)


@router.post("/{message_id}/resend", status_code=202)
async def resend_message(
    message_id: str, services: OfficeDep, principal: ResenderOfSome, body: ResendBody | None = None
) -> dict[str, Any]:
    """Deliver a message again, to all subscriptions or to those named; the id is that of a job of one message."""
    wanted = body.subscriptions if body is not None else None
    trace = await _trace(services, message_id, principal, "resend")
    job, targets = await services.runner.resend_one(trace, wanted, principal.name)
    return {"id": job.id, "subscriptions": [target.subscription for target in targets]}


async def _trace(services: OfficeDep, message_id: str, principal: Principal, action: str) -> Trace:
    """Return a trace; to who may not do that, a message of another destination is one that is not there."""
    trace = await services.context.store.trace(_id(message_id))
    if trace is None or not principal.may(action, trace.destination):
        raise _missing(message_id)
    return trace


def _id(text: str) -> str:
    try:
        return parse_id(text)
    except ValueError as error:
        raise _missing(text) from error


def _missing(message_id: str) -> NotFound:
    return NotFound(f"there is no message {message_id[:64]}", hint="check the id; it may be past its retention")
