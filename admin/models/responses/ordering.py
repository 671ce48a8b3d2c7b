"""Keys that are held up."""

from __future__ import annotations

from admin.models.responses.base import View
from bus.cluster.leaders import Task
from bus.domain.delivery.delivery import Status


class HeldKeyView(View, kw_only=True):
    """A key that is held up, and by which message."""

    key: str
    waiting: int
    held_up_by: str
    status: Status
    reason: str
    since: str
    next_attempt_at: str | None
    attempts: int


class DecidedView(View, kw_only=True):
    """The message that held up a key, and that a person decided about."""

    key: str
    message_id: str


class ReleasedView(View, kw_only=True):
    """The tasks of an order that are free for other processes, since their process has ended."""

    released: list[Task]
