"""Responses that summarize the messages of a search, by attribute and by time."""

from __future__ import annotations

import msgspec

from admin.models.responses.base import View
from admin.models.responses.messages import SearchedView
from bus.domain.delivery.delivery import Status


class PeriodView(View, kw_only=True):
    """Counts of messages by state, created in the period that begins at this time."""

    at: str
    states: dict[Status, int]


class ValueView(View, kw_only=True):
    """A value that many messages have, how many, and the search for those; null where no filter can ask for it."""

    value: str
    messages: int
    filter: dict[str, str] | None


class SharedView(View, kw_only=True):
    """An attribute that many messages share: its most frequent values, and how many messages have others.

    ``of`` is destination, subscription, signature, node, source, key, content_type or header; ``name`` is the header's.
    """

    of: str
    name: str
    values: list[ValueView]
    others: int


class SummaryView(View, kw_only=True):
    """The messages of a search, in periods of ``step_seconds`` from ``from`` to ``to``."""

    messages: int
    since: str = msgspec.field(name="from")
    until: str = msgspec.field(name="to")
    step_seconds: int
    periods: list[PeriodView]
    shared: list[SharedView]
    searched: SearchedView
