"""The route of one attempt: the request as it was sent, and the response."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Annotated, Final

from fastapi import APIRouter, Path

from admin.deps import ReaderOfSome, ServicesDep
from admin.models.responses.messages import HeaderView, RequestView, SentAttemptView
from admin.requests.audited import AuditedRoute
from admin.requests.masking import MasksDep
from admin.routes.messages import trace_of
from admin.services import AdminServices
from admin.showing.contents import request_headers, response_view
from admin.showing.views import attempt_view
from bus.domain.delivery.delivery import Attempt
from bus.domain.delivery.request import SIGNATURE
from bus.domain.identity import id_time
from bus.domain.subscription import Subscription
from bus.domain.times import format_time
from bus.domain.tracing.trace import DeliveryTrace, Trace, attempts_in_order
from bus.errors import NotFound
from bus.localized_text import localized
from bus.security.audit_log import AuditQuery

router = APIRouter(prefix="/messages", tags=["messages"], route_class=AuditedRoute)
_PLACEHOLDER: Final = "SIGNATURE"
_CHANGES_READ: Final = 20
_REFUSED: Final = 400


@router.get("/{message_id}/deliveries/{subscription}/attempts/{attempt}")
async def get_attempt(
    message_id: str,
    subscription: str,
    attempt: Annotated[str, Path(max_length=200)],
    services: ServicesDep,
    principal: ReaderOfSome,
    masks: MasksDep,
) -> SentAttemptView:
    """Return one attempt by its number or id: the request as it was sent, and the response.

    The request is rebuilt from the message, the subscription and the attempt (null while the message itself has not
    arrived), without what HTTP itself needs (host, content-length, accept, accept-encoding). Signatures are shown as
    ``(signed)``, values of the subscription's constant headers as ``***``. ``changed_at`` is when the subscription was
    last changed after the attempt, so that it may have been sent otherwise; with ``changes_known`` false the log was
    too long to be sure. ``curl`` sends it again, with the body in a file named by the message's id and the signature to
    be filled in. Of a batch, which ``attempt.batch`` names, ``headers`` are those of the batch and the body is the
    message's own: the others of it are not known. ``masked``: headers that masking rules name are ``***``, and the
    answer's body is withheld.
    """
    trace = masks.trace(await trace_of(services, message_id, principal, "read"))
    delivery = trace.deliveries.get(subscription)
    found = _find(delivery, attempt) if delivery is not None else None
    if delivery is None or found is None:
        raise NotFound(
            localized("there is no attempt {attempt} of that delivery", attempt=repr(attempt[:64])),
            hint=localized("it may be one of those that are not kept"),
        )
    return SentAttemptView(
        message_id=trace.id,
        subscription=subscription,
        attempt=attempt_view(found),
        request=await _request(services, trace, subscription, delivery, found),
        response=response_view(found),
        masked=bool(masks.of(trace.destination)),
    )


def _find(delivery: DeliveryTrace, wanted: str) -> Attempt | None:
    if wanted in delivery.attempts:
        return delivery.attempts[wanted]
    return next((attempt for attempt in attempts_in_order(delivery) if str(attempt.n) == wanted), None)


async def _request(
    services: AdminServices, trace: Trace, name: str, delivery: DeliveryTrace, attempt: Attempt
) -> RequestView | None:
    if trace.message is None:
        return None
    present = services.context.registry.catalog.subscriptions.get((trace.destination, name))
    url = delivery.url or (present.url if present is not None else "")
    subscription = present or Subscription(destination=trace.destination, name=name, url=url)
    headers = request_headers(trace.message, subscription, attempt)
    changed_at, is_known = await _changed(services, subscription, attempt)
    return RequestView(
        method="POST",
        url=url,
        headers=[HeaderView(name=header, value=value) for header, value in headers],
        body=f"/api/v1/messages/{trace.id}/body",
        body_bytes=trace.body_bytes,
        curl=curl(url, headers, trace.id),
        removed=present is None,
        changed_at=changed_at,
        changes_known=changed_at is not None or is_known,
    )


async def _changed(services: AdminServices, subscription: Subscription, attempt: Attempt) -> tuple[str | None, bool]:
    """Return when a subscription was last changed after an attempt, and whether the audit log was read whole."""
    what = f"destinations/{subscription.destination}/subscriptions/{subscription.name}"
    found = await services.audit.read(AuditQuery(since=attempt.started_at, what=what), after=None, limit=_CHANGES_READ)
    done = [entry for entry in found.entries if entry.changes and (entry.status is None or entry.status < _REFUSED)]
    return format_time(id_time(done[0].id)) if done else None, found.next is None


def curl(url: str, headers: Sequence[tuple[str, str]], file: str) -> str:
    """Return a command for a POSIX shell that sends a request again: nothing in it is run or expanded."""
    words = ["curl", "--globoff", "-X", "POST", url]
    for name, value in headers:
        given = _PLACEHOLDER if name == SIGNATURE else value
        words += ["-H", f"{name}: {given}" if given else f"{name};"]
    return shlex.join([*words, "--data-binary", f"@{file}"])
