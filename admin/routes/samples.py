"""The route that sends a subscriber one message now, and returns the request and the response."""

from __future__ import annotations

import base64
import binascii
from typing import Any, Final

import msgspec
from fastapi import APIRouter
from pydantic import Field

from admin.deps import Configurer, ServicesDep
from admin.models.base import Body, Code
from admin.models.responses.samples import SampleRequestView, SampleResponseView, SampleView, SentBodyView
from admin.requests.audited import AuditedRoute, NotingDep
from bus.domain.delivery.verdict import Answer
from bus.domain.headers import own_headers
from bus.domain.identity import new_id
from bus.domain.message import Message, check_size
from bus.errors import InvalidMessage
from bus.localized_text import localized, text_of_error
from bus.ports.sampling import SampleResult

router = APIRouter(prefix="/destinations/{code}/subscriptions", tags=["subscriptions"], route_class=AuditedRoute)
_JSON: Final = "application/json"
_BINARY: Final = "application/octet-stream"
_SOURCE: Final = "sample"


class SampleBody(Body):
    """A message to send once: ``body`` is any JSON value, ``body_base64`` any bytes; one of the two."""

    body: Any = None
    body_base64: str | None = None
    content_type: str | None = Field(default=None, pattern=r"^[\x20-\x7e]{1,200}$")
    headers: dict[str, str] = Field(default_factory=dict, max_length=64)


@router.post("/{name}/sample")
async def send_sample(
    code: Code, name: str, body: SampleBody, services: ServicesDep, noting: NotingDep, _: Configurer
) -> SampleView:
    """Send one message to the subscriber now, and return the exact request and its result.

    A dispatcher sends it as it sends deliveries: within ``max_concurrency``, to no address that is denied, signed with
    the subscription's secrets, with ``bus-sample: true`` and a message id of its own, as a batch of one where the
    subscription takes batches. It is sent once, also while the
    subscription or its destination is paused or its breaker is open, whatever the filter says. It leaves no trace, is
    in no statistics, and neither opens nor closes the breaker. ``response`` is null when no answer came; ``error`` says
    why, or that a batch was taken without this message. The signature that is shown is good for this message only.

    503 when nothing was sent: no dispatcher is alive, or no slot became free within 2 s; the detail says so when it is
    not known whether it was sent.
    """
    context = services.context
    destination = context.registry.destination(code)
    subscription = context.registry.subscription(code, name)
    context.egress.check_url(subscription.url)
    now = context.clock.now()
    content, content_type = _content(body)
    headers = _headers(body)
    check_size(content, headers, destination.max_bytes)
    message = Message(
        id=new_id(now),
        destination=code,
        body=content,
        content_type=content_type,
        sent_at=now,
        received_at=now,
        source=_SOURCE,
        headers=headers,
    )
    noting.compare({}, {"id": message.id, "bytes": len(content), "content_type": content_type})
    sampled = await services.introspection.sampler.sample(message, name, subscription.timeout / 1000)
    return _view(message, sampled)


def _content(body: SampleBody) -> tuple[bytes, str]:
    if body.body_base64 is not None:
        if "body" in body.model_fields_set:
            raise InvalidMessage(localized("body_base64: send body or body_base64, not both"), field="body_base64")
        try:
            return base64.b64decode(body.body_base64, validate=True), body.content_type or _BINARY
        except (binascii.Error, ValueError) as error:
            raise InvalidMessage(localized("body_base64: {error}", error=str(error)), field="body_base64") from error
    if "body" not in body.model_fields_set:
        raise InvalidMessage(localized("body: send body, any JSON, or body_base64"), field="body")
    try:
        return msgspec.json.encode(body.body), body.content_type or _JSON
    except (UnicodeEncodeError, OverflowError, RecursionError) as error:
        raise InvalidMessage(
            localized("body: it cannot be sent as JSON: {error}", error=str(error)), field="body"
        ) from error


def _headers(body: SampleBody) -> dict[str, str]:
    try:
        return own_headers(body.headers)
    except ValueError as error:
        raise InvalidMessage(localized("headers: {error}", error=text_of_error(error)), field="headers") from error


def _view(message: Message, sampled: SampleResult) -> SampleView:
    sent = message.body if sampled.body is None else sampled.body
    return SampleView(
        id=message.id,
        node=sampled.node,
        request=SampleRequestView(
            method="POST",
            url=sampled.url,
            headers=sampled.headers,
            **msgspec.structs.asdict(_body_view(sent, len(sent))),
        ),
        response=SampleResponseView(
            status=sampled.status,
            headers=sampled.answer_headers,
            **msgspec.structs.asdict(_body_view(sampled.answer, sampled.answer_bytes)),
        )
        if sampled.status is not None
        else None,
        delivered=Answer(sampled.status, sampled.error, None).succeeded,
        error=sampled.error or None,
        failure=sampled.failure or None,
        duration_ms=round(sampled.duration, 3),
        phases={name: round(value, 3) for name, value in sampled.phases._asdict().items() if value is not None},
    )


def _body_view(body: bytes, length: int) -> SentBodyView:
    """Return a body as bytes, and as text where it is text; ``truncated`` is whether there were more."""
    try:
        text = body.decode()
    except UnicodeDecodeError:
        text = None
    return SentBodyView(
        body=text,
        body_base64=base64.b64encode(body).decode(),
        bytes=length,
        truncated=length > len(body),
    )
