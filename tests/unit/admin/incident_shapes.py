"""Incidents as the process that watches writes them."""

from __future__ import annotations

from typing import Any

from bus.domain.health.alarm import Severity
from bus.domain.health.incidents import Incident, RaisedAlarm
from bus.localized_text import localized
from bus.testing.writes import NOON
from tests.unit.admin.admin_world import World


def raised(destination: str | None = "orders", severity: Severity = Severity.WARNING) -> RaisedAlarm:
    return RaisedAlarm(
        rule="backlog",
        severity=severity,
        what=localized("{count} messages wait", count=3),
        next_step=localized("look"),
        link="destinations/orders",
        destination=destination,
        subscription="shop" if destination else None,
        found_at=NOON - 9000,
        raised_at=NOON - 5000,
    )


async def put(world: World, id_: str, *alarms: RaisedAlarm, **changes: Any) -> Incident:
    found = {str(number): one for number, one in enumerate(alarms or (raised(),))}
    incident = Incident(**{"id": id_, "cause": "c", "opened_at": NOON - 5000, "alarms": found, **changes})
    await world.services.alarms.put_incident(incident)
    return incident
