"""``bus status``."""

from __future__ import annotations

from typing import Any

from tests.harness.fake_bus import FakeBus
from tests.unit.cli.conftest import Cli

LANE = {
    "destination": "orders",
    "subscription": "billing",
    "backlog": None,
    "retrying": 3,
    "oldest": "A",
    "paused": False,
    "delivered_per_second": 1.5,
    "success_rate": 0.5,
    "p99_ms": 7.0,
}
NOW = {
    "accepted_per_second": 2.0,
    "delivered_per_second": 1.5,
    "success_rate": 0.5,
    "p50_ms": 2.0,
    "p99_ms": 7.0,
}


def overview(*severities: str, **changes: Any) -> dict[str, Any]:
    alarms = [{"severity": one, "since": None, "what": f"it is {one}", "next_step": "look"} for one in severities]
    plain = {"now": NOW, "alarms": alarms, "subscriptions": [LANE], "processes": [{}]}
    return {**plain, "left_out": {"subscriptions": 0, "destinations": 0}, **changes}


def process(**changes: Any) -> dict[str, Any]:
    return {
        "node": "n1",
        "roles": ["admin", "dispatcher"],
        "url": "http://a",
        "version": "1",
        "started_at": "T",
        "answers": True,
        "trouble": "",
        "troubles": [],
        "is_current": True,
        "spools": [{"name": "direct", "used": 0.1}, {"name": "outcomes", "used": 0.42}],
        "permits": {"in_use": 3, "share": 16, "subscriptions": 1},
        "open_breakers": 0,
        **changes,
    }


def lines(out: str) -> list[list[str]]:
    return [line.split("\t") for line in out.splitlines()]


def test_what_needs_somebody_what_waits_and_who_is_there(cli: Cli, bus: FakeBus) -> None:
    bus.on("GET", "/api/v1/overview", overview("warning"))
    bus.on("GET", "/api/v1/processes", {"items": [process()]})
    ran = cli("status", "--limit", "5")
    assert ran.code == 0
    found = lines(ran.out)
    assert found[0] == ["now"]
    assert found[2] == ["2.0", "1.5", "0.5", "2.0", "7.0"]
    assert found[5] == ["warning", "-", "it is warning", "look"]
    assert found[8][:6] == ["orders", "billing", "-", "3", "A", "no"]
    assert found[11] == ["n1", "admin,dispatcher", "http://a", "1", "T", "ok", "outcomes 42%", "3/16", "0"]
    assert bus.asked[0].query == {"limit": "5"}
    assert ran.err == ""


def test_a_critical_alarm_is_a_failure(cli: Cli, bus: FakeBus) -> None:
    bus.on("GET", "/api/v1/overview", overview("critical", "info"))
    bus.on("GET", "/api/v1/processes", {"items": []})
    assert cli("status").code == 1


def test_how_a_process_is_is_said_in_a_few_words(cli: Cli, bus: FakeBus) -> None:
    bus.on("GET", "/api/v1/overview", overview())
    items = [
        process(answers=False, trouble="it does not answer", permits=None, spools=[]),
        process(troubles=[{"name": "store", "detail": "away"}]),
        process(is_current=False),
    ]
    bus.on("GET", "/api/v1/processes", {"items": items})
    ran = cli("status")
    assert "alarms: none" in ran.out.splitlines()
    rows = lines(ran.out)[-3:]
    assert [row[5] for row in rows] == [
        "it does not answer",
        "store: away",
        "outdated configuration",
    ]
    assert rows[0][6:8] == ["-", "-"]


def test_a_limited_key_sees_no_processes(cli: Cli, bus: FakeBus) -> None:
    left_out = {"subscriptions": 7, "destinations": 0}
    bus.on("GET", "/api/v1/overview", overview(processes=None, now=None, left_out=left_out))
    ran = cli("status")
    assert ran.code == 0
    assert "processes" not in ran.out
    assert ran.err.splitlines() == [
        "rates are unknown: the store is unreachable",
        "7 more subscriptions: raise --limit",
    ]


def test_json_is_what_the_bus_said(cli: Cli, bus: FakeBus) -> None:
    bus.on("GET", "/api/v1/overview", overview())
    bus.on("GET", "/api/v1/processes", {"items": []})
    assert cli("status", "--json").json == {"overview": overview(), "processes": {"items": []}}
