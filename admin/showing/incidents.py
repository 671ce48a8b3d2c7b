"""Incidents as a principal may see them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from admin.models.base import optional_time
from admin.models.responses.alarms import AcknowledgedView, ChannelToldView, IncidentView, RaisedView, SilenceView
from admin.models.responses.resends import CureView
from admin.showing.cures import UnderWay
from bus.domain.health.alarm import Alarm
from bus.domain.health.channels import Silence, is_silenced
from bus.domain.health.incidents import Incident, RaisedAlarm
from bus.domain.times import format_time
from bus.localized_text import localized_text_of
from bus.security.keys import Action
from bus.security.principals import Principal


def cure_views(under_way: UnderWay, alarm: Alarm | RaisedAlarm, principal: Principal) -> list[CureView]:
    """Return the jobs that cure an alarm, as far as a principal may see them."""
    found = under_way.of(alarm.rule, alarm.destination, alarm.subscription, principal)
    return [CureView(**cure._asdict()) for cure in found]


def incident_views(
    incidents: Sequence[Incident], silences: Sequence[Silence], under_way: UnderWay, principal: Principal, now: int
) -> Iterator[IncidentView]:
    """Yield those of which a principal may see something, the open ones first, the newest before."""
    for incident in sorted(incidents, key=lambda one: (bool(one.closed_at), -(one.closed_at or one.opened_at))):
        shown = [one for one in incident.shown if principal.may(Action.READ, one.destination)]
        if shown:
            alarms = [_raised(one, under_way, principal) for one in shown]
            yield _view(incident, alarms, silences, now)


def silence_view(silence: Silence) -> SilenceView:
    """Return the view of a silence."""
    return SilenceView(
        id=silence.id,
        cause=silence.cause,
        rule=silence.rule,
        destination=silence.destination,
        subscription=silence.subscription,
        until=format_time(silence.until),
        by=silence.by,
        at=format_time(silence.at),
        note=silence.note,
    )


def _view(incident: Incident, alarms: list[RaisedView], silences: Sequence[Silence], now: int) -> IncidentView:
    taken = incident.acknowledged
    return IncidentView(
        id=incident.id,
        cause=incident.cause,
        state=_state(incident, silences, now),
        severity=alarms[0].severity,
        opened_at=format_time(incident.opened_at),
        closed_at=optional_time(incident.closed_at),
        alarms=alarms,
        left_out=incident.left_out,
        acknowledged=AcknowledgedView(by=taken.by, at=format_time(taken.at), note=taken.note) if taken else None,
        told=list(_told(incident)),
    )


def _told(incident: Incident) -> Iterator[ChannelToldView]:
    for name, one in incident.told.items():
        yield ChannelToldView(channel=name, at=format_time(one.at), is_over=one.is_over)
    for name in incident.owed:
        if name not in incident.told:
            yield ChannelToldView(channel=name, at=None, is_over=False)


def _state(incident: Incident, silences: Sequence[Silence], now: int) -> str:
    if incident.closed_at:
        return "closed"
    if is_silenced(incident, silences, now):
        return "silenced"
    return "acknowledged" if incident.is_taken_on else "open"


def _raised(one: RaisedAlarm, under_way: UnderWay, principal: Principal) -> RaisedView:
    return RaisedView(
        rule=one.rule,
        severity=one.severity,
        what=str(one.what),
        what_text=localized_text_of(one.what),
        next_step=str(one.next_step),
        next_step_text=localized_text_of(one.next_step),
        link=one.link,
        destination=one.destination,
        subscription=one.subscription,
        owner=one.owner,
        found_at=format_time(one.found_at),
        over_at=optional_time(one.over_at),
        cures=[] if one.over_at else cure_views(under_way, one, principal),
    )
