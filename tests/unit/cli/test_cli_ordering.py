"""Keys that are held up."""

from __future__ import annotations

import pytest

from tests.harness.fake_bus import FakeBus
from tests.unit.cli.conftest import Cli

DESTINATION = "/api/v1/destinations/account.changed"
KEYS = f"{DESTINATION}/subscriptions/ledger/keys"
HELD = {
    "key": "account 42",
    "waiting": 3,
    "held_up_by": "019a2f4e-0000-7000-8000-000000000000",
    "status": "dead",
    "reason": "HTTP 500; retries exhausted after 3",
    "since": "2026-01-31T12:00:00.000Z",
    "next_attempt_at": None,
    "attempts": 3,
}
DECIDED = {"key": "account 42", "message_id": HELD["held_up_by"]}


@pytest.fixture(autouse=True)
def ordered_by_key(bus: FakeBus) -> None:
    bus.on("GET", DESTINATION, {"ordering": "key"})


def test_keys_are_shown_page_by_page(cli: Cli, bus: FakeBus) -> None:
    bus.on("GET", KEYS, {"items": [HELD], "next": "account 42"}, {"items": [], "next": None})
    header, row = (line.split("\t") for line in cli("ordering", "show", "account.changed", "ledger").out.splitlines())
    assert header[:5] == ["subscription", "key", "queued", "blocked_by", "status"]
    assert row == [
        *("ledger", "account 42", "3", HELD["held_up_by"], "dead", "3", HELD["since"], "-", HELD["reason"]),
    ]
    assert [asked.query for asked in bus.asked[1:]] == [{"limit": "200"}, {"limit": "200", "cursor": "account 42"}]


def test_without_a_name_those_of_all_subscriptions(cli: Cli, bus: FakeBus) -> None:
    bus.on("GET", f"{DESTINATION}/subscriptions", {"items": [{"name": "ledger"}, {"name": "mail"}], "next": None})
    bus.on("GET", KEYS, {"items": [HELD], "next": None})
    bus.on("GET", KEYS.replace("ledger", "mail"), {"items": [], "next": None})
    found = cli("ordering", "show", "account.changed", "--json").json
    assert found == {"items": [{"subscription": "ledger", **HELD}], "next": None}


def test_nothing_is_told_with_the_reason(cli: Cli, bus: FakeBus) -> None:
    bus.on("GET", KEYS, {"items": [], "next": None})
    bus.on("GET", DESTINATION, {"ordering": "key"}, {"ordering": "none"})
    assert cli("ordering", "show", "account.changed", "ledger").err == "no key is blocked\n"
    said = "account.changed has no ordering; set one with: bus destination set account.changed --ordering key\n"
    assert cli("ordering", "show", "account.changed", "ledger").err == said


def test_a_key_is_resumed_and_skipped(cli: Cli, bus: FakeBus) -> None:
    for action in ("resume", "skip"):
        bus.on("POST", f"{KEYS}/{action}", (202, DECIDED))
    assert (
        f"message_id  {HELD['held_up_by']}" in cli("ordering", "resume", "account.changed", "ledger", "account 42").out
    )
    assert bus.asked[-1].body == {"key": "account 42"}
    skipped = cli("ordering", "skip", "account.changed", "ledger", "account 42", "--reason", "closed", "--json")
    assert skipped.json == DECIDED
    assert bus.asked[-1].body == {"key": "account 42", "reason": "closed"}


def test_a_key_that_nothing_holds_up(cli: Cli, bus: FakeBus) -> None:
    refusal = {"detail": "nothing holds up the key 'x'", "hint": "bus ordering show account.changed ledger"}
    bus.on("POST", f"{KEYS}/skip", (404, refusal))
    ran = cli("ordering", "skip", "account.changed", "ledger", "x")
    assert (ran.code, ran.err) == (1, f"error: {refusal['detail']} (hint: {refusal['hint']})\n")


def test_a_strict_order_has_one_key_that_nobody_names(cli: Cli, bus: FakeBus) -> None:
    bus.on("POST", f"{KEYS}/resume", (200, {"key": "", "message_id": "m1"}))
    assert cli("ordering", "resume", "account.changed", "ledger").code == 0
    assert bus.asked[-1].body == {"key": ""}


def test_help_has_examples(cli: Cli) -> None:
    for command, example in (("show", "ledger"), ("resume", "ledger c-42"), ("skip", "--reason closed")):
        said = cli("ordering", command, "--help").out
        assert f"bus ordering {command} account.changed" in said
        assert example in said
