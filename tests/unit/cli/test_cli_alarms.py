"""``bus alarms`` against an API that answers as the test says."""

from __future__ import annotations

from typing import Any

import pytest

from tests.harness.fake_bus import FakeBus
from tests.unit.cli.conftest import Cli

ALARMS = "/api/v1/alarms"
SILENCES = "/api/v1/alarm-silences"
FIRST = {"what": "kafka is away", "next_step": "start it", "cures": []}
CURE = {"id": "j1", "kind": "resend", "state": "sending", "by": "ann", "ended": 340, "total": 5000}
INCIDENT: dict[str, Any] = {
    "id": "i1",
    "cause": "part:kafka",
    "state": "open",
    "severity": "critical",
    "opened_at": "2026-11-21T12:00:00.000Z",
    "closed_at": None,
    "alarms": [FIRST, {"what": "3 messages wait", "next_step": "x", "cures": []}],
    "left_out": 4,
    "acknowledged": {"by": "eve", "at": "2026-11-21T12:01:00.000Z", "note": "on it"},
    "told": [{"channel": "ops", "at": "2026-11-21T12:00:30.000Z"}, {"channel": "mail", "at": None}],
}


def test_one_line_for_each_cause(cli: Cli, bus: FakeBus) -> None:
    bus.on("GET", ALARMS, {"items": [INCIDENT], "watched": True})
    ran = cli("alarms", "list")
    assert ran.out.splitlines()[1].split("\t")[:4] == ["open", "critical", "kafka is away", "6"]
    assert bus.asked[-1].query == {"closed": "false"}
    assert ran.err == ""
    assert cli("alarms", "list", "--closed", "--json").json["items"] == [INCIDENT]
    assert bus.asked[-1].query == {"closed": "true"}


def test_it_says_when_nobody_is_told(cli: Cli, bus: FakeBus) -> None:
    bus.on("GET", ALARMS, {"items": [], "watched": False})
    assert "start one with: bus run alarms" in cli("alarms", "list").err


def test_the_whole_story_of_one(cli: Cli, bus: FakeBus) -> None:
    bus.on("GET", f"{ALARMS}/i1", INCIDENT)
    assert cli("alarms", "show", "i1").out.splitlines() == [
        "critical: kafka is away",
        "  open, since 2026-11-21T12:00:00.000Z",
        "  next step: start it",
        "  acknowledged by eve at 2026-11-21T12:01:00.000Z: on it",
        "  channel ops: notified at 2026-11-21T12:00:30.000Z",
        "  channel mail: not notified yet",
        "  alarms with the same cause:",
        "    3 messages wait",
        "    and 4 more",
    ]
    assert cli("alarms", "show", "i1", "--json").json == INCIDENT
    bus.on("GET", f"{ALARMS}/i1", INCIDENT | {"closed_at": "2026-11-21T13:00:00.000Z", "state": "closed"})
    assert "what to do" not in cli("alarms", "show", "i1").out


def test_what_cures_it_is_named_with_its_progress(cli: Cli, bus: FakeBus) -> None:
    selecting = CURE | {"id": "j2", "kind": "discard", "state": "selecting", "total": None}
    cured = INCIDENT | {"alarms": [FIRST, FIRST | {"what": "3 messages wait", "cures": [CURE, selecting]}]}
    bus.on("GET", f"{ALARMS}/i1", cured)
    bus.on("GET", ALARMS, {"items": [cured], "watched": True})
    assert cli("alarms", "show", "i1").out.splitlines()[-4:-1] == [
        "    3 messages wait",
        "      running job: resend 340/5000, by ann (j1)",
        "      running job: discard selecting, by ann (j2)",
    ]
    ran = cli("alarms", "list", "--columns", "id,jobs")
    assert ran.out.splitlines()[1] == "i1\tresend 340/5000, discard selecting"


def test_one_is_taken_on(cli: Cli, bus: FakeBus) -> None:
    bus.on("POST", f"{ALARMS}/i1/acknowledge", INCIDENT | {"state": "acknowledged"})
    assert "acknowledged" in cli("alarms", "ack", "i1", "--note", "on it").out
    assert bus.asked[-1].body == {"note": "on it"}
    assert cli("alarms", "ack", "i1", "--json").json["state"] == "acknowledged"


def test_silences(cli: Cli, bus: FakeBus) -> None:
    matches = {"cause": "", "rule": "", "destination": "orders", "subscription": ""}
    made = {"id": "s1", "until": "x", **matches, "by": "eve", "note": "n"}
    bus.on("POST", SILENCES, (201, made))
    bus.on("GET", SILENCES, {"items": [made], "next": None})
    bus.on("DELETE", f"{SILENCES}/s1", (204, None))
    assert "s1" in cli("alarms", "silence", "--destination", "orders", "--for", "2h").out
    assert bus.asked[-1].body == {**matches, "for": "2h", "note": ""}
    assert cli("alarms", "silences").out.splitlines()[1].endswith("s1")
    assert cli("alarms", "silences", "--json").json["items"] == [made]
    assert cli("alarms", "unsilence", "s1").out == "ended  s1\n"


def test_rules(cli: Cli, bus: FakeBus) -> None:
    rule = {"name": "age", "hold": "5m", "clear": "1m", "limit": "15m", "off": False, "says": "old", "severity": None}
    bus.on("GET", "/api/v1/alarm-rules", {"items": [rule], "next": None})
    assert cli("alarms", "rules").out.splitlines()[1].split("\t") == ["age", "5m", "1m", "15m", "no", "old"]
    assert cli("alarms", "rules", "--json").json["items"] == [rule]


@pytest.mark.parametrize(("results", "code"), [({"ops": ""}, 0), ({"ops": "", "mail": "it is deaf"}, 1), ({}, 1)])
def test_channels_are_tried(cli: Cli, bus: FakeBus, results: dict[str, str], code: int) -> None:
    bus.on("POST", "/api/v1/alarm-trials", (201, {"results": results, "result_texts": {}}))
    ran = cli("alarms", "test")
    assert ran.code == code
    assert bus.asked[-1].body == {"channel": ""}
    for name, error in results.items():
        assert f"{name}\t{error or 'sent'}" in ran.out
    if not results:
        assert "alarm_channels" in ran.err
    assert cli("alarms", "test", "ops", "--json").json == {"results": results}


def test_limits_of_a_subscription_and_a_destination(cli: Cli, bus: FakeBus) -> None:
    shop = "/api/v1/destinations/orders/subscriptions/shop"
    bus.on("GET", shop, {"name": "shop"})
    bus.on("PATCH", shop, lambda asked: {"name": "shop", **asked.body})
    limits = "backlog=1000, age=15m,p99=2s,error_rate=0.2"
    cli("subscription", "set", "orders", "shop", "--alarms", limits, "--owner", "shop-team")
    alarms = {"backlog": 1000, "age": "15m", "p99": "2s", "error_rate": 0.2}
    assert bus.asked[-1].body == {"alarms": alarms, "owner": "shop-team"}
    cli("subscription", "set", "orders", "shop", "--alarms", "")
    assert bus.asked[-1].body == {"alarms": {}}
    for bad in ("backlog", "backlog=many"):
        ran = cli("subscription", "set", "orders", "shop", "--alarms", bad)
        assert (ran.code, "--alarms" in ran.err) == (2, True)
    bus.on("GET", "/api/v1/destinations/orders", {"code": "orders"})
    bus.on("PATCH", "/api/v1/destinations/orders", lambda asked: {"code": "orders", **asked.body})
    cli("destination", "set", "orders", "--pv-min", "5", "--pv-max", "9")
    assert bus.asked[-1].body == {"pv_min": 5, "pv_max": 9}
    cli("destination", "set", "orders", "--no-pv")
    assert bus.asked[-1].body == {"pv_min": None, "pv_max": None}
    assert cli("destination", "set", "orders", "--no-pv", "--pv-min", "5").code == 2
