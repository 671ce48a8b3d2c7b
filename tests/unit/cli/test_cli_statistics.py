"""``bus stats``."""

from __future__ import annotations

from typing import Any

from tests.harness.fake_bus import FakeBus
from tests.unit.cli.conftest import Cli

TOTALS = {
    "accepted": 5,
    "deliveries": {"delivered": 3, "canceled": 1},
    "attempts": 4,
    "failed_attempts": 1,
    "success_rate": 0.75,
    "p50_ms": 2.0,
    "p99_ms": None,
}
ROW = ["5", "3", "0", "4", "1", "0.75", "2.0", "-"]


def answer(**changes: Any) -> dict[str, Any]:
    series = {"destination": "orders", "subscription": "billing", "totals": TOTALS, "points": []}
    return {
        "from": "A",
        "to": "B",
        "complete": True,
        "complete_until": "C",
        "totals": TOTALS,
        "series": [series],
        "left_out": 0,
        **changes,
    }


def test_a_line_for_each_series(cli: Cli, bus: FakeBus) -> None:
    bus.on("GET", "/api/v1/stats", answer())
    ran = cli("stats", "--from", "2026-01-01T00:00:00Z", "--by", "subscription", "--destination", "orders")
    head, row = [line.split("\t") for line in ran.out.splitlines()]
    assert head[:3] == ["destination", "subscription", "accepted"]
    assert row == ["orders", "billing", *ROW]
    assert ran.err == "A to B\n"
    assert bus.asked[0].query == {
        "from": "2026-01-01T00:00:00.000Z",
        "by": "subscription",
        "destination": "orders",
        "limit": "50",
    }


def test_what_is_not_there_is_said(cli: Cli, bus: FakeBus) -> None:
    bus.on("GET", "/api/v1/stats", answer(complete=False, left_out=7))
    ran = cli("stats")
    assert ran.err == "A to B, complete until C; 7 more lines: raise --limit\n"
    assert ran.out.splitlines()[1].split("\t") == ROW


def test_json_is_what_the_bus_said(cli: Cli, bus: FakeBus) -> None:
    bus.on("GET", "/api/v1/stats", answer())
    assert cli("stats", "--json").json == answer()


def test_a_grouping_that_is_not_there_is_wrong_usage(cli: Cli) -> None:
    assert cli("stats", "--by", "colour").code == 2
