"""Incidents, silences, rules, and channels that were tried."""

from __future__ import annotations

import msgspec

from admin.models.responses.base import View
from admin.models.responses.resends import CureView
from bus.localized_text import LocalizedText


class RaisedView(View, kw_only=True):
    """An alarm of an incident, and what to do; ``link`` is the path of its subject below ``/api/v1``.

    ``over_at`` is when it was over, null while it is not. ``cures`` are the resends and discards under way that take
    its deliveries.
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
    """The person who acknowledged an incident, the time, and the note."""

    by: str
    at: str
    note: str


class ChannelToldView(View, kw_only=True):
    """The last notification of a channel, and its time; ``at`` is null while the channel has not accepted it."""

    channel: str
    at: str | None
    is_over: bool


class IncidentView(View, kw_only=True):
    """An incident: the alarms of one cause, the worst first; ``state`` is open, acknowledged, silenced or closed.

    ``left_out`` is the number of alarms that are not listed.
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
    """Incidents, the open ones first; ``watched`` is whether a process watches alarms and sends notifications."""

    items: list[IncidentView]
    watched: bool


class SilenceView(View, kw_only=True):
    """A silence: alarms that match send no notifications until ``until``."""

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
    """A rule of alarms as it is in force: ``hold`` is how long an alarm lasts before it sends notifications.

    ``clear`` is how long its condition must be absent before it is over; ``limit`` null for a rule without one.
    """

    name: str
    says: str
    hold: str
    clear: str
    limit: float | str | None
    severity: str | None
    off: bool


class TrialView(View, kw_only=True):
    """Results of test notifications: the error by channel, empty for one that accepted it."""

    results: dict[str, str]
    result_texts: dict[str, LocalizedText | None] = msgspec.field(default_factory=dict)
