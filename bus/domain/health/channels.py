"""Notification of people: channels, times, and texts."""

from __future__ import annotations

import enum
import fnmatch
from collections.abc import Sequence
from datetime import UTC, datetime, time, tzinfo
from typing import NamedTuple

import msgspec

from bus.domain.health.alarm import Severity
from bus.domain.health.incidents import Incident, Notification, RaisedAlarm


class QuietHours(NamedTuple):
    """Hours of a day in which only critical alarms are sent: from ``since`` until ``until``, over midnight or not."""

    since: time
    until: time
    zone: tzinfo = UTC

    def has(self, now: int) -> bool:
        """Whether a time (ms) is in them."""
        at = datetime.fromtimestamp(now / 1000, self.zone).time()
        if self.since <= self.until:
            return self.since <= at < self.until
        return at >= self.since or at < self.until


class Channel(NamedTuple):
    """A way to reach people.

    Attributes
    ----------
    url
        As Apprise writes it; it has secrets.
    least
        Lowest severity that it gets.
    after
        Milliseconds after which it gets an unacknowledged incident: several channels are an escalation.
    quiet
        Hours in which it gets critical incidents only.
    owners
        It gets the incidents of these owners; all incidents when there are none.
    repeat
        Milliseconds after which it gets an unacknowledged incident again; 0 for never.
    heartbeat
        Milliseconds between two heartbeats; such a channel gets nothing else. 0 for a channel of incidents.
    """

    name: str
    url: str
    least: Severity = Severity.WARNING
    after: int = 0
    quiet: QuietHours | None = None
    owners: tuple[str, ...] = ()
    repeat: int = 0
    heartbeat: int = 0


class Silence(msgspec.Struct, frozen=True, kw_only=True):
    """Mutes the alarms that match until a time (ms); each part may have ``*``, and an empty one matches all."""

    id: str
    until: int
    by: str
    at: int
    note: str = ""
    cause: str = ""
    rule: str = ""
    destination: str = ""
    subscription: str = ""

    def has(self, alarm: RaisedAlarm, cause: str, now: int) -> bool:
        """Whether it silences an alarm of a cause."""
        parts = (
            (self.cause, cause),
            (self.rule, alarm.rule),
            (self.destination, alarm.destination),
            (self.subscription, alarm.subscription),
        )
        return now < self.until and all(
            not wanted or fnmatch.fnmatchcase(found or "", _with_stars_alone(wanted)) for wanted, found in parts
        )


def _with_stars_alone(pattern: str) -> str:
    """Return a pattern in which only ``*`` means more than itself: the host of a cause may have brackets."""
    return pattern.replace("[", "[[]").replace("?", "[?]")


class Notice(enum.StrEnum):
    """Kind of a notification of an incident."""

    OPENED = "opened"
    WORSE = "worse"
    AGAIN = "again"
    OVER = "over"


def is_silenced(incident: Incident, silences: Sequence[Silence], now: int) -> bool:
    """Whether all that an incident is about is silenced."""
    return all(any(one.has(alarm, incident.cause, now) for one in silences) for alarm in incident.shown)


def notice(channel: Channel, incident: Incident, silences: Sequence[Silence], now: int) -> Notice | None:
    """Return the notification of an incident that a channel gets now; None for nothing."""
    if channel.heartbeat or not _concerns(channel, incident):
        return None
    if _is_quiet(channel, incident, now):
        return None
    told = incident.told.get(channel.name)
    if incident.closed_at:
        was_told = (told is not None and not told.is_over) or channel.name in incident.owed
        return Notice.OVER if was_told else None
    if is_silenced(incident, silences, now):
        return None
    return _first(channel, incident, now) if told is None else _next(channel, incident, told, now)


def _concerns(channel: Channel, incident: Incident) -> bool:
    if channel.name in incident.told or channel.name in incident.owed:
        return True
    shown = incident.shown
    if channel.owners and not any(one.owner in channel.owners for one in shown):
        return False
    return incident.severity.rank <= channel.least.rank


def _is_quiet(channel: Channel, incident: Incident, now: int) -> bool:
    return channel.quiet is not None and incident.severity is not Severity.CRITICAL and channel.quiet.has(now)


def _first(channel: Channel, incident: Incident, now: int) -> Notice | None:
    if channel.after and (incident.is_taken_on or now - incident.opened_at < channel.after):
        return None
    return Notice.OPENED


def _next(channel: Channel, incident: Incident, told: Notification, now: int) -> Notice | None:
    if incident.severity.rank < told.severity.rank:
        return Notice.WORSE
    if channel.repeat and not incident.is_taken_on and now - told.at >= channel.repeat:
        return Notice.AGAIN
    return None
