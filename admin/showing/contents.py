"""The only place through which the contents of messages and answers reach people: bodies, headers, responses."""

from __future__ import annotations

from typing import Final

import msgspec

from admin.models.responses.messages import PrettyView, ResponseView
from bus.domain.delivery.batch import batch_headers
from bus.domain.delivery.delivery import Attempt
from bus.domain.delivery.request import constant_headers, message_headers
from bus.domain.headers import wire_value
from bus.domain.message import Message
from bus.domain.subscription import Subscription

RESPONSE_KEPT: Final = 4096
_SIGNED: Final = "(signed)"
_HIDDEN: Final = "***"


def body_of(message: Message) -> bytes:
    """Return a message's body."""
    return message.body


def pretty(body: bytes) -> PrettyView:
    """Return a body as text to read: JSON indented with every number and key as it was sent, other text as it is.

    ``text`` is None when it is not UTF-8; nothing is ever cut.
    """
    try:
        return PrettyView(json=True, text=msgspec.json.format(body, indent=2).decode(), bytes=len(body))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        pass
    try:
        return PrettyView(json=False, text=body.decode(), bytes=len(body))
    except UnicodeDecodeError:
        return PrettyView(json=False, text=None, bytes=len(body))


def headers_of(message: Message) -> dict[str, str]:
    """Return a message's own headers."""
    return message.headers


def response_text(attempt: Attempt) -> str | None:
    """Return the stored part of an answer's body as text; None when nothing is stored."""
    return attempt.response.decode("utf-8", "replace") or None


def response_view(attempt: Attempt) -> ResponseView:
    """Return an answer: its status or error, and the stored part of its body, which only failures have."""
    kept = len(attempt.response)
    return ResponseView(
        status_code=attempt.status_code,
        error=attempt.error or None,
        body=response_text(attempt),
        body_bytes=kept,
        # A body below the limit is whole; one of just that length may have been cut.
        may_be_cut=kept >= RESPONSE_KEPT,
    )


def request_headers(message: Message, subscription: Subscription, attempt: Attempt) -> list[tuple[str, str]]:
    """Return the headers of an attempt as the dispatcher builds them, with ``(signed)`` for a signature.

    The values of a subscription's own constant headers may be credentials, so they are ``***``.
    """
    constant = constant_headers(subscription)
    signature = _SIGNED if subscription.signing_secrets(attempt.started_at) else ""
    taken = frozenset(name.lower() for name in constant)
    if attempt.batch is not None:
        own = batch_headers(attempt.batch, subscription.batch_format, attempt.started_at, signature)
    else:
        own = message_headers(message, attempt.n, attempt.started_at, signature, taken, is_late=attempt.is_late)
    visible = headers_of(message)
    shown = [(name, wire_value(visible.get(name, value))) for name, value in own]
    return [(name, _HIDDEN if name in subscription.headers else value) for name, value in constant.items()] + shown
