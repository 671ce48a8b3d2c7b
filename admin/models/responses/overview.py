"""The overview, and the figures that it shares with processes."""

from __future__ import annotations

import msgspec

from admin.models.responses.base import View
from admin.models.responses.resends import CureView
from bus.domain.health.conditions import State
from bus.localized_text import LocalizedText


class RatesView(View, kw_only=True):
    """Rates, success and latency of one destination or subscription, or of all; null while not known."""

    accepted_per_second: float | None = None
    delivered_per_second: float | None = None
    attempts_per_second: float | None = None
    success_rate: float | None = None
    p50_ms: float | None = None
    p99_ms: float | None = None


class NowView(RatesView, kw_only=True):
    """The rates between two times."""

    since: str = msgspec.field(name="from")
    until: str = msgspec.field(name="to")


class WaitingView(RatesView, kw_only=True):
    """The backlog of one destination or subscription, with its rates."""

    backlog: int | None
    retrying: int | None
    oldest: str | None


class BusyDestinationView(WaitingView, kw_only=True):
    """The condition of one destination; ``state`` is the worst of its subscriptions', null when there are none."""

    destination: str
    transport: str
    paused: bool
    state: State | None
    subscriptions: int
    scheduled: int | None
    unpublished_since: str | None


class BusySubscriptionView(WaitingView, kw_only=True):
    """The condition of one subscription."""

    destination: str
    subscription: str
    paused: bool
    paused_reason: str


class LeftOutView(View, kw_only=True):
    """The numbers of destinations and subscriptions that are not shown."""

    destinations: int
    subscriptions: int


class OpenBreakerView(View, kw_only=True):
    """A breaker that is not closed; ``answered`` is the last response of the subscriber."""

    destination: str
    subscription: str
    node: str
    state: str
    since: str
    next_probe: str
    answered: int | None


class AlarmView(View, kw_only=True):
    """An alarm, which a person has to react to, and what to do; ``link`` is the path of its subject below ``/api/v1``.

    Alarms of one ``cause`` follow from one another. ``cures`` are the resends and discards under way that take its
    deliveries.
    """

    severity: str
    cause: str
    what: str
    what_text: LocalizedText | None
    since: str | None
    destination: str | None
    subscription: str | None
    next_step: str
    next_step_text: LocalizedText | None
    link: str
    cures: list[CureView]


class SpoolView(View, kw_only=True):
    """A local queue; ``used`` is the share of its limit."""

    name: str
    records: int
    bytes: int
    limit: int
    used: float
    is_nearly_full: bool
    damaged: int
    oldest: str | None


class ProcessSpoolView(SpoolView, kw_only=True):
    """A local queue of one of the processes."""

    owner: str
    node: str


class MemberView(View, kw_only=True):
    """A process that is alive."""

    owner: str
    node: str
    url: str
    roles: list[str]


class DegradedView(View, kw_only=True):
    """A part of the bus that a process cannot reach."""

    name: str
    detail: str
    owner: str
    node: str


class OverviewView(View, kw_only=True):
    """The current state of the bus."""

    at: str
    now: NowView | None
    backlog: int | None
    retrying: int | None
    dead: int | None
    dead_before: int | None
    oldest: str | None
    destinations: list[BusyDestinationView]
    subscriptions: list[BusySubscriptionView]
    left_out: LeftOutView
    breakers: list[OpenBreakerView]
    alarms: list[AlarmView]
    spools: list[ProcessSpoolView] | None
    processes: list[MemberView] | None
    degraded: list[DegradedView] | None
