"""``bus key``: list and revoke."""

from __future__ import annotations

from tests.harness.fake_bus import FakeBus
from tests.unit.cli.conftest import Cli

KEY = {
    "id": "0a1b2c3d4e5f",
    "name": "shop",
    "role": "producer",
    "roles": ["producer"],
    "destinations": ["orders", "mails"],
    "rate": None,
    "burst": None,
    "created_at": "2026-11-21T12:00:00.000Z",
    "last_used_at": None,
}


def test_keys_are_listed_with_their_last_use(cli: Cli, bus: FakeBus) -> None:
    bus.on("GET", "/api/v1/keys", (200, {"items": [KEY], "next": None}))
    assert cli("key", "list").out.splitlines() == [
        "id\tname\trole\tdestinations\trate\tcreated_at\tlast_used_at",
        "0a1b2c3d4e5f\tshop\tproducer\torders,mails\t-\t2026-11-21T12:00:00.000Z\t-",
    ]
    assert cli("key", "list", "--json").json["items"] == [KEY]


def test_a_key_is_revoked_by_its_id(cli: Cli, bus: FakeBus) -> None:
    bus.on("DELETE", "/api/v1/keys/0a1b2c3d4e5f", (204, None))
    ran = cli("key", "revoke", "0a1b2c3d4e5f")
    assert (ran.code, ran.out) == (0, "revoked  0a1b2c3d4e5f\n")


def test_a_key_that_is_not_there_is_an_error_with_a_hint(cli: Cli, bus: FakeBus) -> None:
    refusal = {"title": "Not found", "status": 404, "detail": "there is no key 'x'", "hint": "bus key list"}
    bus.on("DELETE", "/api/v1/keys/x", (404, refusal))
    ran = cli("key", "revoke", "x")
    assert ran.code == 1
    assert "there is no key 'x'" in ran.err
    assert "bus key list" in ran.err


def test_the_rate_of_a_key_is_changed(cli: Cli, bus: FakeBus) -> None:
    bus.on("PATCH", "/api/v1/keys/0a1b2c3d4e5f", (200, KEY | {"rate": 5.0}))
    assert cli("key", "set", "0a1b2c3d4e5f", "--rate", "5", "--burst", "9", "--json").json["rate"] == 5
    assert cli("key", "set", "0a1b2c3d4e5f", "--no-rate").code == 0
    assert [asked.body for asked in bus.asked] == [{"rate": 5.0, "burst": 9}, {"rate": None, "burst": None}]
    assert cli("key", "set", "0a1b2c3d4e5f", "--rate", "5", "--no-rate").code == 2
