"""Migrations of topics, planned, begun, shown and steered."""

from __future__ import annotations

from typing import Any

from tests.harness.fake_bus import FakeBus
from tests.unit.cli.conftest import Cli

PATH = "/api/v1/lookup/migrations"
SIDE: dict[str, Any] = {
    "cluster": "a",
    "partitions": 2,
    "depth": 3,
    "in_flight": 1,
    "deferred": 0,
    "written": 9,
    "producers": 2,
    "consumers": 1,
    "channels": ["billing"],
    "unwritten_for": 0.0,
    "empty_for": 0.0,
}
FOUND: dict[str, Any] = {
    "id": "orders-1",
    "topic": "orders",
    "from": "a",
    "to": "b",
    "kind": "ordered",
    "partitions": 2,
    "step": "producers-stopped",
    "since": "2026-11-21T12:00:00.000Z",
    "next": "draining-source",
    "paused": False,
    "ended": False,
    "by": "ann",
    "produce": [],
    "consume": ["a"],
    "waits": ["2 producers are connected to a"],
    "trouble": "",
    "risk": "messages of a key may be delivered out of order",
    "producers_stopped": True,
    "producers_stopped_ms": 61_000,
    "evidence": {"source": SIDE, "target": {**SIDE, "cluster": "b"}, "in_force_for": 1.0},
    "history": [
        {"step": "prepare", "at": "2026-11-21T11:59:00.000Z", "by": "ann"},
        {"step": "producers-stopped", "at": "2026-11-21T12:00:00.000Z", "by": ""},
    ],
}


def at(bus: FakeBus) -> tuple[str, ...]:
    return ("--url", bus.url)


def test_a_plan_says_what_is_done_and_what_is_missing(cli: Cli, bus: FakeBus) -> None:
    steps = [{"step": "prepare", "produce": ["a"], "consume": ["a"], "risk": ""}]
    steps.append({"step": "producers-stopped", "produce": [], "consume": ["a"], "risk": ""})
    plan = {**FOUND, "interval": 90, "steps": steps, "makes": ["POST /x"], "missing": ["b lacks channels: billing"]}
    bus.on("POST", PATH, plan)
    ran = cli("lookup", "plan", "orders", "--to", "b", *at(bus))
    assert bus.asked[-1].body == {"topic": "orders", "to": "b", "dry_run": True}
    assert "producers-stopped\tnone\ta" in ran.out
    assert "creates   POST /x" in ran.out
    assert "missing   b lacks channels: billing" in ran.out
    assert cli("lookup", "plan", "orders", "--to", "b", "--json", *at(bus)).json == plan


def test_one_is_begun_with_what_was_said(cli: Cli, bus: FakeBus) -> None:
    bus.on("POST", PATH, FOUND)
    options = ("--kind", "expansion", "--partitions", "4", "--interval", "30")
    ran = cli("lookup", "start", "orders", "--to", "b", *options, *at(bus))
    assert bus.asked[-1].body == {"topic": "orders", "to": "b", "kind": "expansion", "partitions": 4, "interval": 30}
    assert "2 producers are connected to a" in ran.out
    assert "61.0 s so far" in ran.out
    assert cli("lookup", "start", "orders", *at(bus)).code == 2


def test_all_are_listed_and_one_is_shown_with_its_evidence(cli: Cli, bus: FakeBus) -> None:
    bus.on("GET", PATH, {"items": [FOUND], "next": None})
    bus.on("GET", f"{PATH}/orders-1", {**FOUND, "trouble": "b refuses"})
    assert "orders-1\ta\tb\tordered\tproducers-stopped" in cli("lookup", "status", *at(bus)).out
    assert cli("lookup", "status", "--json", *at(bus)).json["items"] == [FOUND]
    out = cli("lookup", "status", "orders-1", *at(bus)).out
    assert "b refuses" in out
    assert "a\t2\t1\t3\t1\t0\t9" in out
    assert "producers-stopped\t2026-11-21T12:00:00.000Z\tevidence" in out


def test_a_step_without_evidence_is_asked_about_first(cli: Cli, bus: FakeBus) -> None:
    bus.on("GET", f"{PATH}/orders-1", FOUND)
    bus.on("POST", f"{PATH}/orders-1/advance", {**FOUND, "step": "draining-source"})
    ran = cli("lookup", "advance", "orders-1", *at(bus))
    assert ran.code == 1
    assert "risk: messages of a key may be delivered out of order" in ran.err
    assert "no terminal for the confirmation" in ran.err
    assert [one.method for one in bus.asked] == ["GET"]
    assert "draining-source" in cli("lookup", "advance", "orders-1", "--yes", *at(bus)).out
    assert bus.asked[-1].body == {"step": "producers-stopped"}


def test_one_is_steered(cli: Cli, bus: FakeBus) -> None:
    for action in ("pause", "resume", "rollback"):
        bus.on("POST", f"{PATH}/orders-1/{action}", FOUND)
        assert cli("lookup", action, "orders-1", "--json", *at(bus)).json == FOUND
        assert bus.asked[-1].body == {}


def test_a_refusal_is_one_line_with_a_hint(cli: Cli, bus: FakeBus) -> None:
    bus.on("POST", PATH, (409, {"detail": "orders is in the migration orders-1", "hint": "bus lookup status"}))
    ran = cli("lookup", "start", "orders", "--to", "b", *at(bus))
    assert (ran.code, ran.err) == (
        1,
        f"error: orders is in the migration orders-1 (hint: bus lookup status --server {bus.url})\n",
    )


def test_help_has_examples(cli: Cli) -> None:
    assert "bus lookup start orders --to nsq2" in cli("lookup", "start", "--help").out


def test_a_room_fails_over_and_returns(cli: Cli, bus: FakeBus) -> None:
    path = "/api/v1/lookup/failovers"
    found = {"room": "north", "phase": "active", "since": "t", "lost": ["a"], "to": "b", "by": "ann"}
    bus.on("POST", path, found)
    bus.on("POST", f"{path}/north/end", {**found, "phase": "returning"})
    bus.on("GET", path, {"items": [found], "next": None})
    assert "north\tactive\tt\ta\tb\tann" in cli("lookup", "failover", "north", "--to", "b", *at(bus)).out
    assert bus.asked[-1].body == {"room": "north", "to": "b", "force": False}
    assert "returning" in cli("lookup", "failover", "north", "--end", "--force", *at(bus)).out
    assert bus.asked[-1].body == {"force": True}
    assert cli("lookup", "failover", "--json", *at(bus)).json["items"] == [found]
