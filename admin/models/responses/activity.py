"""Responses about the work of dispatchers for a subscription."""

from __future__ import annotations

from admin.models.responses.base import View
from bus.domain.delivery.delivery import Status


class RecentAttemptView(View, kw_only=True):
    """An attempt, and what its delivery became by it."""

    message_id: str
    n: int
    started_at: str
    duration_ms: float
    status_code: int | None
    error: str | None
    status: Status
    node: str


class ActivityView(View, kw_only=True):
    """Requests in flight of those permitted, and the newest attempts first."""

    permits: int
    in_flight: int
    held: int
    rate: float | None
    rate_wait_seconds: float
    silent: int
    attempts: list[RecentAttemptView]
