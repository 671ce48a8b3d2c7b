"""Routes of alarms: incidents, their notifications and acknowledgements, silences, and tests of channels."""

from __future__ import annotations

import asyncio
from typing import Annotated, Final

from fastapi import APIRouter, Query

from admin.deps import Configurer, Pauser, Reader, ReaderOfSome, ServicesDep
from admin.models.alarms import AcknowledgeBody, SilenceBody, TrialBody
from admin.models.responses.alarms import IncidentsView, IncidentView, RuleView, SilenceView, TrialView
from admin.models.responses.base import Listing
from admin.requests.audited import AuditedRoute
from admin.services import AdminServices
from admin.showing.incidents import incident_views, silence_view
from bus.cluster.alarm_documents import WATCHER, Trial
from bus.domain.durations import format_duration, parse_duration
from bus.domain.health.channels import Silence
from bus.domain.health.incidents import Acknowledgement
from bus.domain.health.rulebook import RULES, TIMES
from bus.domain.identity import new_id
from bus.errors import Conflict, InvalidMessage, NotFound, PeerUnavailable
from bus.http.openapi import refusals
from bus.localized_text import localized, localized_text_of
from bus.security.principals import Principal

router = APIRouter(tags=["alarms"], route_class=AuditedRoute)
_TRIED_WITHIN: Final = 40.0
_LOOK: Final = 0.2
_LONGEST_SILENCE: Final = "30d"


@router.get("/alarms")
async def list_incidents(
    services: ServicesDep,
    principal: ReaderOfSome,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    *,
    closed: Annotated[bool, Query(description="Those that are closed as well.")] = True,
) -> IncidentsView:
    """Return the incidents that send, or sent, notifications; all alarms of one cause are one incident.

    A caller who is limited to destinations sees the incidents of these. The overview has all alarms of this moment,
    also those that have not lasted long enough for a notification.
    """
    documents, now = services.alarms, services.context.clock.now()
    incidents, silences = await documents.incidents(), await documents.silences()
    found = [one for one in incidents if closed or not one.closed_at]
    views = incident_views(found, silences, await services.cures.under_way(), principal, now)
    return IncidentsView(items=list(views)[:limit], watched=_is_watched(services))


@router.get("/alarms/{incident_id}")
async def get_incident(incident_id: str, services: ServicesDep, principal: ReaderOfSome) -> IncidentView:
    """Return one incident."""
    return await _seen(services, principal, incident_id)


@router.post("/alarms/{incident_id}/acknowledge")
async def acknowledge_incident(
    incident_id: str, services: ServicesDep, principal: Pauser, body: AcknowledgeBody | None = None
) -> IncidentView:
    """Acknowledge an incident: it sends no more notifications until it is over or becomes worse."""
    note, now = body.note if body is not None else "", services.context.clock.now()
    severity = (await services.alarms.incident(incident_id)).severity
    taken = Acknowledgement(principal.name or principal.id, now, note, severity)
    await services.alarms.acknowledge(incident_id, taken)
    return await _seen(services, principal, incident_id)


@router.get("/alarm-silences")
async def list_silences(services: ServicesDep, _: Reader) -> Listing[SilenceView]:
    """Return the silences that are not over."""
    now = services.context.clock.now()
    found = [one for one in await services.alarms.silences() if one.until > now]
    return Listing(items=[silence_view(one) for one in sorted(found, key=lambda one: one.until)])


@router.post("/alarm-silences", status_code=201)
async def add_silence(body: SilenceBody, services: ServicesDep, principal: Pauser) -> SilenceView:
    """Add a silence: alarms that match send no notifications, for at most 30 days; pages still show them."""
    if not (body.cause + body.rule + body.destination + body.subscription).strip("*"):
        raise InvalidMessage(
            localized("a silence of everything is not taken"),
            hint=localized("give cause, rule, destination or subscription; * is any text in them"),
            field="rule",
        )
    duration = parse_duration(body.duration)
    if duration > parse_duration(_LONGEST_SILENCE):
        raise InvalidMessage(
            localized("{field}: at most {longest}", field="for", longest=_LONGEST_SILENCE), field="for"
        )
    now = services.context.clock.now()
    silence = Silence(
        id=new_id(now),
        until=now + duration,
        by=principal.name or principal.id,
        at=now,
        note=body.note,
        cause=body.cause,
        rule=body.rule,
        destination=body.destination,
        subscription=body.subscription,
    )
    await services.alarms.silence(silence)
    return silence_view(silence)


@router.delete("/alarm-silences/{silence_id}", status_code=204)
async def end_silence(silence_id: str, services: ServicesDep, _: Pauser) -> None:
    """End a silence: channels are notified of the alarms that it covered, if they are not over."""
    await services.alarms.end_silence(silence_id)


@router.get("/alarm-rules")
async def list_rules(services: ServicesDep, _: ReaderOfSome) -> Listing[RuleView]:
    """Return the rules of alarms as they are in force, which the settings ``alarm_rules`` change."""
    return Listing(items=[_rule(services, name) for name in RULES])


@router.post("/alarm-trials", status_code=201, responses=refusals(409))
async def try_channels(services: ServicesDep, principal: Configurer, body: TrialBody | None = None) -> TrialView:
    """Send a test notification to one or all channels; return which have accepted it; takes up to 40 s."""
    if not _is_watched(services):
        raise Conflict(
            localized("no process watches for alarms"),
            hint=localized("start one: {command}", command="bus run alarms"),
        )
    clock, id_ = services.context.clock, new_id(services.context.clock.now())
    channel = body.channel if body is not None else ""
    await services.alarms.ask_for_trial(id_, Trial(principal.name or principal.id, clock.now(), channel))
    try:
        async with asyncio.timeout(_TRIED_WITHIN):
            while True:
                found = await services.alarms.trial(id_)
                if found is None or found.results is not None:
                    break
                await clock.sleep(_LOOK)
    except TimeoutError:
        found = None
    if found is None or found.results is None:
        raise PeerUnavailable(
            localized("the process that watches for alarms has not tried them within {seconds} s", seconds=40)
        )
    return TrialView(
        results={name: str(error) for name, error in found.results.items()},
        result_texts={name: localized_text_of(error) for name, error in found.results.items()},
    )


async def _seen(services: AdminServices, principal: Principal, id_: str) -> IncidentView:
    incident, silences = await services.alarms.incident(id_), await services.alarms.silences()
    acknowledged = (await services.alarms.acknowledged()).get(id_)
    found = incident.with_acknowledgement(acknowledged)
    under_way = await services.cures.under_way()
    for view in incident_views([found], silences, under_way, principal, services.context.clock.now()):
        return view
    raise NotFound(localized("there is no incident {id}", id=repr(id_)))


def _is_watched(services: AdminServices) -> bool:
    return any(WATCHER in member.roles for member in services.introspection.members)


def _rule(services: AdminServices, name: str) -> RuleView:
    rule, change = services.book[name], services.book.change(name)
    limit = format_duration(round(rule.limit)) if rule.limit is not None and name in TIMES else rule.limit
    return RuleView(
        name=name,
        says=rule.says,
        hold=format_duration(rule.hold),
        clear=format_duration(rule.clear),
        limit=limit,
        severity=change.severity,
        off=change.off,
    )
