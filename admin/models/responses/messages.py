"""Messages as a search finds them, and the life of one."""

from __future__ import annotations

import msgspec

from admin.models.responses.base import Listing, View
from bus.domain.delivery.delivery import Origin, Status
from bus.localized_text import LocalizedText


class MessageRow(View, kw_only=True):
    """A message in a list; ``delivered`` of its ``subscriptions`` have it."""

    id: str
    destination: str
    biz_id: str
    source: str
    status: Status
    delivered: int
    subscriptions: int
    sent_at: str | None
    received_at: str | None
    completed_at: str | None
    bytes: int
    attempts: int
    next_attempt_at: str | None


class ArchivedView(View, kw_only=True):
    """A day that was archived and dropped; ``lake`` has it."""

    partition: str
    lake: str | None


class SearchedView(View, kw_only=True):
    """The range of times in which a page has every match, and why it ends there."""

    since: str | None = msgspec.field(name="from")
    until: str | None = msgspec.field(name="to")
    complete: bool
    reason: str | None
    archived: list[ArchivedView]


class MessagesView(Listing[MessageRow], kw_only=True):
    """One page of a search."""

    searched: SearchedView


class MessageView(MessageRow, kw_only=True):
    """A message without its body."""

    content_type: str
    key: str
    routing_key: str
    headers: dict[str, str]
    deliver_at: str | None
    traceparent: str
    original_id: str
    idempotency_key: str
    expected: list[str]
    retention_days: int


class BatchView(View, kw_only=True):
    """The POST that several messages went in: its ``webhook-id``, and how many they were."""

    id: str
    size: int


class AttemptView(View, kw_only=True):
    """One POST; ``phases`` are those that happened, in milliseconds; ``batch`` is null for a message alone.

    ``out_of_order`` is true for one that was resent, or found again, behind younger ones of its key.
    """

    id: str
    n: int
    by: Origin
    started_at: str
    duration_ms: float
    phases: dict[str, float]
    status_code: int | None
    error: str | None
    response: str | None
    node: str
    generation: int
    taken_at: str | None
    batch: BatchView | None
    out_of_order: bool


class ResendOfView(View, kw_only=True):
    """A resend of one delivery; ``job`` is null without a job, as for an edit."""

    generation: int
    job: str | None
    by: str
    reason: str
    at: str


class CauseView(View, kw_only=True):
    """The reason why a delivery is not in flight."""

    cause: str
    what: str
    what_text: LocalizedText | None


class DeliveryView(View, kw_only=True):
    """One delivery, with the attempts asked for."""

    subscription: str
    url: str
    status: Status
    reason: str
    detail: str
    at: str | None
    due_at: str | None
    generation: int
    attempts_made: int
    attempts_kept: int
    resends: list[ResendOfView]
    held: CauseView | None
    attempts: list[AttemptView]


class HopView(View, kw_only=True):
    """One step of a message on its way."""

    at: str | None
    place: str
    what: str
    what_text: LocalizedText | None
    subscription: str | None
    node: str | None
    attempt: str | None
    missing: bool
    ms_since_previous: int | None


class EditView(View, kw_only=True):
    """The other message of an edit, the original or the new one; by whom and why, while that is known."""

    id: str
    by: str | None
    reason: str | None
    at: str | None


class ReplayView(View, kw_only=True):
    """Which replay sent a message, and of which one it is a copy."""

    name: str
    of: str


class TraceView(MessageRow, kw_only=True):
    """The whole life of a message; ``message`` is left out before it arrived, ``reason`` if it has a subscriber."""

    message: MessageView | msgspec.UnsetType = msgspec.UNSET
    reason: str | msgspec.UnsetType = msgspec.UNSET
    deliveries: list[DeliveryView]
    hops: list[HopView]
    masked: bool
    replay: ReplayView | None
    edited_from: EditView | None
    edits: list[EditView]


class HeaderView(View, kw_only=True):
    """One header of a request."""

    name: str
    value: str


class RequestView(View, kw_only=True):
    """A request as it was sent; ``body`` is the path of the API at which the body is."""

    method: str
    url: str
    headers: list[HeaderView]
    body: str
    body_bytes: int
    curl: str
    removed: bool
    changed_at: str | None
    changes_known: bool


class ResponseView(View, kw_only=True):
    """The response of a subscriber; the body is stored in part, and of failures only."""

    status_code: int | None
    error: str | None
    body: str | None
    body_bytes: int
    may_be_cut: bool


class SentAttemptView(View, kw_only=True):
    """One attempt with its request and response."""

    message_id: str
    subscription: str
    attempt: AttemptView
    request: RequestView | None
    response: ResponseView
    masked: bool


class PrettyView(View, kw_only=True):
    """A body as text; ``json`` is whether it is JSON, and ``text`` is null where it is no text."""

    json: bool
    text: str | None
    bytes: int


class ResentView(View, kw_only=True):
    """A message that is delivered again; the id is that of the job."""

    id: str
    subscriptions: list[str]


class EditedView(View, kw_only=True):
    """A message that was created from another."""

    id: str
    edited_from: str
    subscriptions: list[str]
