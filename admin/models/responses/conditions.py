"""Responses about the state of subscriptions."""

from __future__ import annotations

from admin.models.responses.base import View
from bus.domain.health.conditions import State
from bus.localized_text import LocalizedText


class ConditionView(View, kw_only=True):
    """The condition of a subscription, and its reason in ``why``, which may be empty.

    ``since`` and ``probe_at`` are those of an open breaker. ``waiting`` is what waits on its transports, null where a
    broker cannot say, ``oldest`` since when; ``retrying`` waits for another attempt, ``dead`` died in the last hour:
    null while the store does not answer. ``attempts`` and ``failed`` are of the present minute and the one before.
    """

    destination: str
    subscription: str
    state: State
    why: str
    why_text: LocalizedText | None
    since: str | None
    probe_at: str | None
    waiting: int | None
    oldest: str | None
    retrying: int | None
    dead: int | None
    attempts: int
    failed: int
