"""``bus failures``, and what goes on from there."""

from __future__ import annotations

from typing import Any

from tests.harness.fake_bus import FakeBus
from tests.unit.cli.conftest import Cli

GROUP = {
    "destination": "orders",
    "subscription": "billing",
    "signature": "HTTP 503",
    "example": "HTTP 503",
    "count": 3,
    "deliveries": {"dead": 2, "retrying": 1},
    "first_seen": "A",
    "last_seen": "B",
    "sample": "019a0000-0000-7000-8000-000000000001",
    "advice": "it answered and failed",
    "filter": {"destination": "orders", "subscription": "billing", "signature": "HTTP 503"},
}


def answer(**changes: Any) -> dict[str, Any]:
    return {"items": [GROUP], "next": None, "complete": True, "complete_since": None, **changes}


def test_a_line_for_each_group(cli: Cli, bus: FakeBus) -> None:
    bus.on("GET", "/api/v1/failures", answer())
    ran = cli("failures", "--destination", "orders", "--subscription", "billing", "--limit", "7")
    head, row = [line.split("\t") for line in ran.out.splitlines()]
    assert head[:4] == ["count", "destination", "subscription", "example"]
    assert row[:5] == ["3", "orders", "billing", "HTTP 503", "2 dead, 1 retrying"]
    assert row[-1] == "it answered and failed"
    assert ran.err == ""
    assert bus.asked[0].query == {"destination": "orders", "subscription": "billing", "limit": "7"}


def test_what_is_left_out_is_said(cli: Cli, bus: FakeBus) -> None:
    bus.on("GET", "/api/v1/failures", answer(complete=False), answer(complete=False, complete_since="C"))
    assert cli("failures").err.startswith("only the largest groups are shown; ")
    assert "messages before C are not counted" in cli("failures").err


def test_json_is_what_the_bus_said(cli: Cli, bus: FakeBus) -> None:
    bus.on("GET", "/api/v1/failures", answer())
    assert cli("failures", "--json").json == answer()


def test_a_group_is_searched_and_resent(cli: Cli, bus: FakeBus) -> None:
    bus.on("GET", "/api/v1/messages", {"items": [], "next": None})
    assert cli("search", "--destination", "orders", "--signature", "HTTP 503").code == 0
    assert bus.asked[0].query["signature"] == "HTTP 503"
    bus.on("POST", "/api/v1/resends", {"count": 3, "sample": []})
    ran = cli(
        "resend", "--destination", "orders", "--signature", "HTTP 503", "--from", "2h", "--to", "1h", "--dry-run",
    )  # fmt: skip
    assert ran.code == 0
    assert bus.asked[1].body["filter"]["signature"] == "HTTP 503"
