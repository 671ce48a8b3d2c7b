"""``bus secrets``: how secrets rest, and another key."""

from __future__ import annotations

from tests.harness.fake_bus import FakeBus
from tests.unit.cli.conftest import Cli


def test_secrets_are_counted_and_sealed_again(cli: Cli, bus: FakeBus) -> None:
    bus.on("GET", "/api/v1/secrets", {"stale": 2})
    bus.on("POST", "/api/v1/secrets/reseal", {"resealed": 2, "stale": 0})
    assert cli("secrets", "status").out == "stale  2\n"
    assert cli("secrets", "reseal", "--json").json == {"resealed": 2, "stale": 0}
    assert [asked.path for asked in bus.asked] == ["/api/v1/secrets", "/api/v1/secrets/reseal"]
