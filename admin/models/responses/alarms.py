"""Incidents, silences, rules, and channels that were tried."""

from __future__ import annotations

import msgspec

from admin.models.responses.base import View
from admin.models.responses.resends import CureView
from bus.localized_text import LocalizedText


class RaisedView(View, kw_only=True):
    """An alarm of an incident, and what to do; ``link`` is the path below ``/api/v1`` of what it is about.

    ``over_at`` is when it was over, null while it is not. ``cures`` are the resends and discards under way that take
    what it is about.
    """

    rule: str
    severity: str
    what: str
    what_text: LocalizedText | None
    next_step: str
    next_step_text: LocalizedText | None
    link: str
    destination: str | None
    subscription: str | None
    owner: str
    found_at: str
    over_at: str | None
    cures: list[CureView]


class AcknowledgedView(View, kw_only=True):
    """Who has taken an incident on, when, and what that person says."""

    by: str
    at: str
    note: str


class ChannelToldView(View, kw_only=True):
    """What a channel was told last, and when; ``at`` is null for one that is owed it and does not take it."""

    channel: str
    at: str | None
    is_over: bool


class IncidentView(View, kw_only=True):
    """What has one cause; ``state`` is open, acknowledged, silenced or closed. The worst alarm comes first.

    ``left_out`` alarms are not listed, since there are so many.
    """

    id: str
    cause: str
    state: str
    severity: str
    opened_at: str
    closed_at: str | None
    alarms: list[RaisedView]
    left_out: int
    acknowledged: AcknowledgedView | None
    told: list[ChannelToldView]


class IncidentsView(View, kw_only=True):
    """Incidents, those that are open first; ``watched`` is whether a process watches and tells people."""

    items: list[IncidentView]
    watched: bool


class SilenceView(View, kw_only=True):
    """Nobody is told of alarms that match until ``until``."""

    id: str
    cause: str
    rule: str
    destination: str
    subscription: str
    until: str
    by: str
    at: str
    note: str


class RuleView(View, kw_only=True):
    """A rule of alarms as it is in force: ``hold`` is how long it lasts before people are told.

    ``clear`` is how long it is gone before it is over; ``limit`` null for a rule without one.
    """

    name: str
    says: str
    hold: str
    clear: str
    limit: float | str | None
    severity: str | None
    off: bool


class TrialView(View, kw_only=True):
    """What came of trying channels: by channel why it did not take it, empty for one that did."""

    results: dict[str, str]
    result_texts: dict[str, LocalizedText | None] = msgspec.field(default_factory=dict)
