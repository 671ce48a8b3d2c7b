"""``bus user``: add with limits, list, reset a password, remove."""

from __future__ import annotations

from tests.harness.fake_bus import FakeBus
from tests.unit.cli.conftest import Cli

USER = {
    "name": "ann",
    "role": "operator",
    "destinations": ["orders"],
    "created_at": "2026-11-21T12:00:00.000Z",
    "logs_in_by": "password",
    "blocked": False,
}
PLACE = "/api/v1/users/ann%40example.com"


def test_a_user_is_made_with_limits(cli: Cli, bus: FakeBus) -> None:
    bus.on("POST", "/api/v1/users", (201, {**USER, "password": "shown-once"}))
    ran = cli("user", "add", "ann", "--role", "operator", "--destination", "orders")
    assert ran.code == 0
    assert "shown-once" in ran.out
    assert bus.asked[0].body == {"name": "ann", "role": "operator", "destinations": ["orders"]}


def test_limits_that_would_hold_nobody_are_refused_before_anything_is_asked(cli: Cli, bus: FakeBus) -> None:
    ran = cli("user", "add", "ann", "--role", "admin", "--destination", "orders")
    assert ran.code == 1
    assert "cannot be limited" in ran.err
    assert bus.asked == []


def test_users_are_listed(cli: Cli, bus: FakeBus) -> None:
    bus.on("GET", "/api/v1/users", (200, {"items": [USER], "next": None}))
    assert cli("user", "list").out.splitlines() == [
        "name\trole\tdestinations\tcreated_at\tlogin\tblocked",
        "ann\toperator\torders\t2026-11-21T12:00:00.000Z\tpassword\tno",
    ]
    assert cli("user", "list", "--json").json["items"] == [USER]


def test_a_password_is_reset_and_shown(cli: Cli, bus: FakeBus) -> None:
    bus.on("POST", f"{PLACE}/reset-password", (200, {**USER, "password": "another"}))
    assert cli("user", "reset-password", "ann@example.com", "--json").json["password"] == "another"


def test_a_user_is_blocked_and_let_in_again(cli: Cli, bus: FakeBus) -> None:
    bus.on("PATCH", PLACE, lambda asked: {**USER, **asked.body})
    for command, blocked in (("block", True), ("unblock", False)):
        assert cli("user", command, "ann@example.com", "--json").json["blocked"] is blocked
        assert bus.asked[-1].body == {"blocked": blocked}


def test_a_user_is_removed(cli: Cli, bus: FakeBus) -> None:
    bus.on("DELETE", PLACE, (204, None))
    ran = cli("user", "rm", "ann@example.com")
    assert (ran.code, ran.out) == (0, "removed  ann@example.com\n")
