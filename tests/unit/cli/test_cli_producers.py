"""``bus producers`` against an API that answers as the test says."""

from __future__ import annotations

from typing import Any

from tests.harness.fake_bus import FakeBus
from tests.unit.cli.conftest import Cli

PATH = "/api/v1/producers"
PRODUCER: dict[str, Any] = {
    "source": "shop",
    "agent": "pier-python/0.1.0 (host web-1; python 3.12.1)",
    "host": "web-1",
    "key": "shop key",
    "records": 2,
    "oldest": "2026-11-21T12:00:00.000Z",
    "last_seen": "2026-11-21T12:00:05.000Z",
    "messages": 8,
    "path": None,
}
REFUSED = {"source": "shop", "destination": "orders", "count": 3, "status": 422, "reason": "odd", "last": None}
TURNED_AWAY = {"whose": "shop key", "why": "key_rate", "destination": "orders", "count": 4, "last": None}
FOUND = {"items": [PRODUCER], "left_out": 0, "refused": [], "turned_away": [], "unheard": []}


def test_producers_are_a_line_each(cli: Cli, bus: FakeBus) -> None:
    bus.on("GET", PATH, FOUND)
    ran = cli("producers", "--source", "shop")
    assert ran.err == ""
    assert ran.out.splitlines()[1].split("\t")[:5] == ["shop", "pier-python/0.1.0", "web-1", "shop key", "2"]
    assert bus.asked[-1].query == {"limit": "200", "source": "shop"}
    assert cli("producers", "--json").json == FOUND


def test_what_is_refused_and_what_is_missing_is_told(cli: Cli, bus: FakeBus) -> None:
    unheard = [{"node": "b:1", "trouble": "it is away"}]
    refused, turned_away = REFUSED | {"example": "m1", "next_step": "a"}, TURNED_AWAY | {"next_step": "b"}
    more = {"left_out": 3, "refused": [refused], "turned_away": [turned_away], "unheard": unheard}
    bus.on("GET", PATH, FOUND | more)
    ran = cli("producers", "--limit", "1")
    lines = ran.out.splitlines()
    assert lines[2:] == [
        "rejected",
        "source\tdestination\tcount\tstatus\treason\tlast_at\texample\tnext_step",
        "shop\torders\t3\t422\todd\t-\tm1\ta",
        "throttled",
        "sender\tlimit\tdestination\tcount\tlast_at\tnext_step",
        "shop key\tkey_rate\torders\t4\t-\tb",
    ]
    assert ran.err.splitlines() == [
        "3 more producers: raise --limit",
        "b:1 is unreachable, its figures are missing: it is away",
    ]
