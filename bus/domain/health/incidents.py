"""Incidents: one for each cause of alarms, opened once an alarm lasts, closed once all of them are over."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import msgspec

from bus.domain.health.alarm import Alarm, Severity
from bus.domain.health.rulebook import RULES, Rulebook
from bus.domain.times import DAY, MINUTE
from bus.localized_text import LocalizedText

KEPT: Final = 7 * DAY
"""Time for which a closed incident is kept, in milliseconds."""
_MOST_CLOSED: Final = 200
_MOST_ALARMS: Final = 500
_MOST_REMEMBERED: Final = 50
_ORDER: Final = {rule: number for number, rule in enumerate(RULES)}
_LONGEST_GAP: Final = 2 * MINUTE
"""Longest time between two checks through which an alarm is assumed to have lasted."""


class RaisedAlarm(msgspec.Struct, frozen=True, kw_only=True):
    """An alarm of an incident.

    Attributes
    ----------
    found_at, raised_at
        When it was found first, and when it had lasted long enough, in milliseconds.
    gone_at
        Since when it is not found any more; 0 while it is.
    over_at
        When it had been gone for long enough; 0 before.
    """

    rule: str
    severity: Severity
    what: LocalizedText
    next_step: LocalizedText
    link: str
    destination: str | None = None
    subscription: str | None = None
    owner: str = ""
    since: int | None = None
    found_at: int
    raised_at: int
    gone_at: int = 0
    over_at: int = 0

    def moved(self, by: int) -> RaisedAlarm:
        """Return the alarm with all its times shifted by so many milliseconds."""
        times = {
            name: at + by for name in ("found_at", "raised_at", "gone_at", "over_at") if (at := getattr(self, name))
        }
        return msgspec.structs.replace(self, **times)


def _first(raised: RaisedAlarm) -> tuple[int, int, int]:
    return (raised.severity.rank, _ORDER.get(raised.rule, len(_ORDER)), raised.raised_at)


class Acknowledgement(msgspec.Struct, frozen=True):
    """Acknowledgement of an incident: by whom, when (ms), with which note, and how severe it was then."""

    by: str
    at: int
    note: str = ""
    severity: Severity = Severity.CRITICAL


class Notification(msgspec.Struct, frozen=True):
    """Last notification of a channel: when (ms), how severe it was then, and whether it reported the end."""

    at: int
    severity: Severity
    is_over: bool = False


class Incident(msgspec.Struct, frozen=True, kw_only=True):
    """All alarms of one cause, from the first alarm until none of them is left.

    Attributes
    ----------
    alarms
        By key, those of now and of before; ``left_out`` of now are not among them, since there are so many.
    owed
        Channels that have not got a due notification, since when (ms).
    """

    id: str
    cause: str
    opened_at: int
    alarms: Mapping[str, RaisedAlarm]
    left_out: int = 0
    closed_at: int = 0
    acknowledged: Acknowledgement | None = None
    told: Mapping[str, Notification] = {}
    owed: Mapping[str, int] = {}

    @property
    def open_alarms(self) -> list[RaisedAlarm]:
        """The alarms that are not over: the worst first, and among equals the causes of others."""
        return sorted((one for one in self.alarms.values() if not one.over_at), key=_first)

    @property
    def shown(self) -> list[RaisedAlarm]:
        """The alarms that are not over, or once it is closed all of them."""
        return self.open_alarms or sorted(self.alarms.values(), key=_first)

    @property
    def is_taken_on(self) -> bool:
        """Whether a person has acknowledged it, and it has not become worse since."""
        taken = self.acknowledged
        return taken is not None and self.severity.rank >= taken.severity.rank

    def with_acknowledgement(self, acknowledged: Acknowledgement | None) -> Incident:
        """Return the incident with its last known acknowledgement."""
        return self if acknowledged is None else msgspec.structs.replace(self, acknowledged=acknowledged)

    def with_what_was_told(self, other: Incident) -> Incident:
        """Return it merged with another copy's channels and people; its alarms stay as they are."""
        both = merged(self, other)
        changes = {"told": both.told, "owed": both.owed, "acknowledged": other.acknowledged or self.acknowledged}
        return msgspec.structs.replace(self, **changes)

    def moved(self, by: int) -> Incident:
        """Return an open incident with all its times shifted by so many milliseconds."""
        return msgspec.structs.replace(
            self,
            opened_at=self.opened_at + by,
            alarms={key: one.moved(by) for key, one in self.alarms.items()},
            told={name: msgspec.structs.replace(one, at=one.at + by) for name, one in self.told.items()},
            owed={name: at + by for name, at in self.owed.items()},
        )

    def until(self, now: int) -> Incident:
        """Return it with no time later than now, in case the clock was set back between two processes."""
        return msgspec.structs.replace(
            self,
            opened_at=min(self.opened_at, now),
            told={name: msgspec.structs.replace(one, at=min(one.at, now)) for name, one in self.told.items()},
            owed={name: min(at, now) for name, at in self.owed.items()},
        )

    @property
    def severity(self) -> Severity:
        """That of the worst of them."""
        return self.shown[0].severity


class Watch(msgspec.Struct, frozen=True, kw_only=True):
    """State that is kept from one check to the next.

    Attributes
    ----------
    at
        When the last look was, in milliseconds.
    pending
        By key, since when alarms are found that have not lasted long enough.
    incidents
        By id, those that are open and the last that were closed.
    """

    at: int = 0
    pending: Mapping[str, int] = {}
    incidents: Mapping[str, Incident] = {}

    @property
    def open(self) -> list[Incident]:
        """Those that are not closed."""
        return [one for one in self.incidents.values() if not one.closed_at]

    @property
    def active(self) -> frozenset[str]:
        """The keys of all alarms that are not over."""
        raised = (key for one in self.open for key, alarm in one.alarms.items() if not alarm.over_at)
        return frozenset((*self.pending, *raised))

    def moved(self, by: int) -> Watch:
        """Return it with the times of pending alarms and open incidents shifted by so many milliseconds."""
        return msgspec.structs.replace(
            self,
            at=self.at + by,
            pending={key: at + by for key, at in self.pending.items()},
            incidents={key: one if one.closed_at else one.moved(by) for key, one in self.incidents.items()},
        )

    def with_incident(self, incident: Incident) -> Watch:
        """Return it with one incident changed."""
        return msgspec.structs.replace(self, incidents={**self.incidents, incident.id: incident})


def advance(
    watch: Watch,
    found: Sequence[Alarm],
    is_known: Callable[[str], bool],
    book: Rulebook,
    now: int,
    new_id: Callable[[], str],
) -> Watch:
    """Return the incidents after a check.

    Parameters
    ----------
    is_known
        Whether the check can show that the alarm with a key is over.
    """
    by_key = {one.key: one for one in found}
    gap = not 0 <= now - watch.at <= _LONGEST_GAP  # or a clock that was put back
    incidents = {one.id: _followed(one, by_key, is_known, book, now) for one in watch.open}
    raised = {key for one in incidents.values() for key, alarm in one.alarms.items() if not alarm.over_at}
    since = {
        key: now if gap else watch.pending.get(key, now)
        for key in (*by_key, *(key for key in watch.pending if not is_known(key)))
        if key not in raised
    }
    lasting = [key for key in by_key if key in since and now - since[key] >= book[by_key[key].rule].hold]
    open_by_cause = {one.cause: one.id for one in incidents.values()}
    for key in lasting:
        alarm = by_key[key]
        id_ = open_by_cause.get(alarm.cause) or open_by_cause.setdefault(alarm.cause, new_id())
        incident = incidents.get(id_) or Incident(id=id_, cause=alarm.cause, opened_at=now, alarms={})
        alarms = _with_room(incident.alarms)
        if len(alarms) < _MOST_ALARMS:
            joined = {**alarms, key: _raised(alarm, since.pop(key), now)}
            incidents[id_] = msgspec.structs.replace(incident, alarms=joined)
        else:  # it stays pending, so that it joins once there is capacity
            incidents[id_] = msgspec.structs.replace(incident, left_out=incident.left_out + 1)
    closed = {one.id: _closed(one, now) for one in incidents.values()}
    past = {one.id: one for one in watch.incidents.values() if one.closed_at}
    return Watch(at=now, pending=since, incidents=_kept({**past, **closed}, now))


def _with_room(alarms: Mapping[str, RaisedAlarm]) -> Mapping[str, RaisedAlarm]:
    """Return the alarms of an incident, those that are over left out when there is no capacity for one more."""
    if len(alarms) < _MOST_ALARMS:
        return alarms
    return {key: one for key, one in alarms.items() if not one.over_at}


def _followed(
    incident: Incident, found: Mapping[str, Alarm], is_known: Callable[[str], bool], book: Rulebook, now: int
) -> Incident:
    """Return an open incident with its alarms as they are now."""
    alarms = {
        key: one if one.over_at else _now(one, found.get(key), book[one.rule].clear, now, known=is_known(key))
        for key, one in incident.alarms.items()
    }
    return msgspec.structs.replace(incident.until(now), alarms=alarms, left_out=0)


def _now(raised: RaisedAlarm, alarm: Alarm | None, clear: int, now: int, *, known: bool) -> RaisedAlarm:
    if alarm is not None:
        return _raised(alarm, raised.found_at, raised.raised_at)
    if not known:
        return raised
    gone_at = min(raised.gone_at or now, now)
    return msgspec.structs.replace(raised, gone_at=gone_at, over_at=now if now - gone_at >= clear else 0)


def _raised(alarm: Alarm, found_at: int, raised_at: int) -> RaisedAlarm:
    return RaisedAlarm(
        rule=alarm.rule,
        severity=alarm.severity,
        what=alarm.what,
        next_step=alarm.next_step,
        link=alarm.link,
        destination=alarm.destination,
        subscription=alarm.subscription,
        owner=alarm.owner,
        since=alarm.since,
        found_at=found_at,
        raised_at=raised_at,
    )


def _closed(incident: Incident, now: int) -> Incident:
    """Return an incident as closed once none of its alarms is left, with some of its alarms."""
    if incident.open_alarms or incident.left_out:
        return incident
    worst = sorted(incident.alarms.items(), key=lambda item: _first(item[1]))
    left_out = max(0, len(worst) - _MOST_REMEMBERED)
    return msgspec.structs.replace(incident, alarms=dict(worst[:_MOST_REMEMBERED]), left_out=left_out, closed_at=now)


def _kept(incidents: Mapping[str, Incident], now: int) -> dict[str, Incident]:
    """Return those that are open, and of the others the newest."""
    closed = [one for one in incidents.values() if one.closed_at and now - one.closed_at < KEPT]
    newest = sorted(closed, key=lambda one: one.closed_at)[-_MOST_CLOSED:]
    return {one.id: one for one in (*newest, *(one for one in incidents.values() if not one.closed_at))}


def merged(one: Incident, other: Incident) -> Incident:
    """Return an incident merged from two copies: it has the notifications of both, and is closed if either is."""
    last, first = (one, other) if one.closed_at >= other.closed_at else (other, one)
    told = {
        name: max(filter(None, (last.told.get(name), first.told.get(name))), key=lambda each: (each.is_over, each.at))
        for name in {**first.told, **last.told}
    }
    owed = {name: at for name, at in {**first.owed, **last.owed}.items() if name not in told}
    acknowledged = last.acknowledged or first.acknowledged
    return msgspec.structs.replace(last, told=told, owed=owed, acknowledged=acknowledged)
