"""Notification of people: channels, times, and texts."""

from __future__ import annotations

from datetime import UTC, datetime, time
from typing import Any
from zoneinfo import ZoneInfo

import msgspec
import pytest

from bus.domain.health.alarm import Severity
from bus.domain.health.channels import Channel, Notice, QuietHours, Silence, notice
from bus.domain.health.incidents import Acknowledgement, Incident, Notification, RaisedAlarm
from bus.domain.times import HOUR, MINUTE
from bus.localized_text import localized

NOON = int(datetime(2026, 11, 24, 12, tzinfo=UTC).timestamp() * 1000)
OPS = Channel("ops", "json://x")


def raised(name: str = "shop", severity: Severity = Severity.WARNING, **changes: Any) -> RaisedAlarm:
    fields = {
        "rule": "backlog",
        "severity": severity,
        "what": localized("it waits"),
        "next_step": localized("look"),
        "link": "x",
        "destination": "orders",
        "subscription": name,
        "found_at": NOON,
        "raised_at": NOON,
    }
    return RaisedAlarm(**{**fields, **changes})


def incident(*alarms: RaisedAlarm, **changes: Any) -> Incident:
    found = {str(number): one for number, one in enumerate(alarms or (raised(),))}
    return Incident(**{"id": "1", "cause": "c", "opened_at": NOON, "alarms": found, **changes})


def due(channel: Channel, of: Incident, *silences: Silence, after: int = 0) -> Notice | None:
    return notice(channel, of, silences, NOON + after)


@pytest.mark.parametrize(
    ("least", "severity", "is_told"),
    [
        (Severity.WARNING, Severity.CRITICAL, True),
        (Severity.WARNING, Severity.WARNING, True),
        (Severity.WARNING, Severity.INFO, False),
        (Severity.CRITICAL, Severity.WARNING, False),
        (Severity.INFO, Severity.INFO, True),
    ],
)
def test_a_channel_is_told_of_what_is_bad_enough(least: Severity, severity: Severity, is_told: bool) -> None:
    found = due(OPS._replace(least=least), incident(raised(severity=severity)))
    assert found is (Notice.OPENED if is_told else None)


def test_it_is_told_once_when_it_is_worse_and_when_it_is_over() -> None:
    known = {"ops": Notification(NOON, Severity.WARNING)}
    assert due(OPS, incident(told=known), after=HOUR) is None
    assert due(OPS, incident(raised(severity=Severity.CRITICAL), told=known)) is Notice.WORSE
    assert due(OPS, incident(told=known, closed_at=NOON)) is Notice.OVER
    over = {"ops": Notification(NOON, Severity.WARNING, is_over=True)}
    assert due(OPS, incident(told=over, closed_at=NOON)) is None


def test_what_it_never_heard_of_is_not_told_as_over_unless_it_was_to_be_told() -> None:
    assert due(OPS, incident(closed_at=NOON)) is None
    assert due(OPS, incident(closed_at=NOON, owed={"ops": NOON})) is Notice.OVER


def test_people_are_told_in_turn_until_somebody_takes_it_on() -> None:
    second = OPS._replace(after=15 * MINUTE)
    taken = Acknowledgement("eve", NOON)
    assert due(second, incident(), after=15 * MINUTE - 1) is None
    assert due(second, incident(), after=15 * MINUTE) is Notice.OPENED
    assert due(second, incident(acknowledged=taken), after=HOUR) is None
    told = {"ops": Notification(NOON, Severity.WARNING)}
    assert due(second, incident(acknowledged=taken, told=told, closed_at=NOON)) is Notice.OVER


def test_it_is_told_again_of_what_nobody_takes_on() -> None:
    again = OPS._replace(repeat=HOUR)
    told = {"ops": Notification(NOON, Severity.WARNING)}
    assert due(again, incident(told=told), after=HOUR - 1) is None
    assert due(again, incident(told=told), after=HOUR) is Notice.AGAIN
    assert due(again, incident(told=told, acknowledged=Acknowledgement("eve", NOON)), after=HOUR) is None


def test_in_quiet_hours_only_what_is_critical_is_told() -> None:
    quiet = OPS._replace(quiet=QuietHours(time(22), time(7), ZoneInfo("Asia/Shanghai")))  # 14:00 to 23:00 in UTC
    assert due(quiet, incident(), after=2 * HOUR - 1) is Notice.OPENED
    assert due(quiet, incident(), after=2 * HOUR) is None
    assert due(quiet, incident(raised(severity=Severity.CRITICAL)), after=2 * HOUR) is Notice.OPENED
    assert due(quiet, incident(), after=11 * HOUR) is Notice.OPENED
    told = {"ops": Notification(NOON, Severity.WARNING)}
    assert due(quiet, incident(told=told, closed_at=NOON), after=2 * HOUR) is None
    assert due(quiet, incident(told=told, closed_at=NOON), after=11 * HOUR) is Notice.OVER
    day = OPS._replace(quiet=QuietHours(time(11), time(13)))
    assert due(day, incident()) is None
    assert due(day, incident(), after=HOUR) is Notice.OPENED


def test_a_channel_of_an_owner_is_told_of_what_is_theirs() -> None:
    mine = OPS._replace(owners=("shop-team",))
    assert due(mine, incident()) is None
    assert due(mine, incident(raised(), raised("b", owner="shop-team"))) is Notice.OPENED


def test_a_heartbeat_is_told_of_nothing_else() -> None:
    assert due(OPS._replace(heartbeat=MINUTE), incident(raised(severity=Severity.CRITICAL))) is None


@pytest.mark.parametrize(
    ("wanted", "is_silent"),
    [
        ({"destination": "orders"}, True),
        ({"destination": "ord*"}, True),
        ({"destination": "order"}, False),
        ({"rule": "backlog", "subscription": "shop"}, True),
        ({"rule": "dead", "subscription": "shop"}, False),
        ({"rule": "*"}, True),
        ({"cause": "c*"}, True),
        ({"cause": "part:*"}, False),
    ],
)
def test_a_silence_covers_what_matches_all_of_it(wanted: dict[str, str], is_silent: bool) -> None:
    silence = Silence(id="1", until=NOON + HOUR, by="eve", at=NOON, **wanted)
    assert due(OPS, incident(), silence) is (None if is_silent else Notice.OPENED)
    assert due(OPS, incident(), silence, after=HOUR) is Notice.OPENED


def test_in_a_silence_only_the_star_is_special() -> None:
    cause = "host:[::1]:8080?x"
    silence = Silence(id="1", until=NOON + HOUR, by="eve", at=NOON, cause=cause)
    assert due(OPS, incident(cause=cause), silence) is None
    assert due(OPS, incident(cause="host::"), silence) is Notice.OPENED


def test_an_incident_is_silent_when_all_of_it_is() -> None:
    silence = Silence(id="1", until=NOON + HOUR, by="eve", at=NOON, subscription="shop")
    assert due(OPS, incident(raised(), raised("mail")), silence) is Notice.OPENED
    told = incident(told={"ops": Notification(NOON, Severity.WARNING)}, closed_at=NOON)
    assert due(OPS, told, silence) is Notice.OVER


def test_what_is_over_counts_no_more_for_how_bad_it_is() -> None:
    over = raised("b", Severity.CRITICAL, over_at=NOON, gone_at=NOON)
    assert msgspec.structs.replace(incident(raised(), over)).severity is Severity.WARNING


def test_who_took_on_a_warning_has_not_taken_on_what_it_became() -> None:
    late = OPS._replace(after=15 * MINUTE, repeat=HOUR)
    taken = Acknowledgement("eve", NOON, "", Severity.WARNING)
    worse = incident(raised(severity=Severity.CRITICAL), acknowledged=taken)
    assert due(late, incident(acknowledged=taken), after=HOUR) is None
    assert due(late, worse, after=HOUR) is Notice.OPENED
    told = {"ops": Notification(NOON, Severity.CRITICAL)}
    assert due(late, msgspec.structs.replace(worse, told=told), after=HOUR) is Notice.AGAIN
