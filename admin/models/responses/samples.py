"""Samples: one message sent to a subscriber now."""

from __future__ import annotations

from admin.models.responses.base import View


class SentBodyView(View, kw_only=True):
    """A body: as text where it is text, and its bytes; ``truncated`` when there were more."""

    body: str | None
    body_base64: str
    bytes: int
    truncated: bool


class SampleRequestView(SentBodyView, kw_only=True):
    """The exact request."""

    method: str
    url: str
    headers: list[tuple[str, str]]


class SampleResponseView(SentBodyView, kw_only=True):
    """The response of a subscriber to a sample."""

    status: int
    headers: list[tuple[str, str]]


class SampleView(View, kw_only=True):
    """The request of a sample and its result; ``response`` is null without an answer, and ``error`` says why."""

    id: str
    node: str
    request: SampleRequestView
    response: SampleResponseView | None
    delivered: bool
    error: str | None
    failure: str | None
    duration_ms: float
    phases: dict[str, float]
