"""Destinations, subscriptions, keys and users."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.harness.fake_bus import FakeBus
from tests.unit.cli.conftest import Cli

DESTINATIONS = "/api/v1/destinations"
ORDERS = f"{DESTINATIONS}/orders"
SHOP = f"{ORDERS}/subscriptions/shop"


def calls(bus: FakeBus) -> list[tuple[str, str]]:
    return [(asked.method, asked.path) for asked in bus.asked]


def test_a_new_destination_is_put_with_what_was_given(cli: Cli, bus: FakeBus) -> None:
    bus.on("PUT", ORDERS, lambda asked: {"code": "orders", **asked.body})
    ran = cli("destination", "set", "orders", "--transport", "direct", "--retention-days", "9", "--paused")
    assert ran.code == 0
    assert bus.asked[-1].body == {"transport": "direct", "retention_days": 9, "paused": True}
    assert "retention_days  9" in ran.out


def test_a_known_destination_keeps_what_was_not_given(cli: Cli, bus: FakeBus) -> None:
    bus.on("GET", ORDERS, {"code": "orders", "retention_days": 9})
    bus.on("PATCH", ORDERS, {"code": "orders", "retention_days": 9, "max_bytes": 5})
    ran = cli("destination", "set", "orders", "--max-bytes", "5", "--json")
    assert calls(bus) == [("GET", ORDERS), ("PATCH", ORDERS)]
    assert bus.asked[-1].body == {"max_bytes": 5}
    assert ran.json["retention_days"] == 9


def test_masking_rules_are_given_one_by_one_and_taken_away_together(cli: Cli, bus: FakeBus) -> None:
    bus.on("GET", ORDERS, {"code": "orders"})
    bus.on("PATCH", ORDERS, lambda asked: {"code": "orders", **asked.body})
    rules = ["body.card.number", "headers.authorization"]
    assert cli("destination", "set", "orders", "--mask", rules[0], "--mask", rules[1], "--json").json["mask"] == rules
    assert bus.asked[-1].body == {"mask": rules}
    assert cli("destination", "set", "orders", "--no-mask").code == 0
    assert bus.asked[-1].body == {"mask": []}
    before = len(bus.asked)
    assert cli("destination", "set", "orders", "--no-mask", "--mask", rules[0]).code == 2
    assert len(bus.asked) == before


def test_a_refused_look_is_not_a_missing_destination(cli: Cli, bus: FakeBus) -> None:
    bus.on("GET", ORDERS, (401, {"detail": "a key is needed", "status": 401}))
    ran = cli("destination", "set", "orders")
    assert (ran.code, calls(bus)) == (1, [("GET", ORDERS)])
    assert "BUS_API_KEY" in ran.err


def test_codes_cannot_leave_their_path(cli: Cli, bus: FakeBus) -> None:
    cli("destination", "show", "../keys?x")
    assert bus.asked[0].path == f"{DESTINATIONS}/..%2Fkeys%3Fx"


def test_list_show_and_rm(cli: Cli, bus: FakeBus) -> None:
    item = {"code": "orders", "transport": "direct", "ordering": "none", "paused": False}
    bus.on("GET", DESTINATIONS, {"items": [item], "next": None})
    bus.on("GET", ORDERS, item)
    bus.on("DELETE", ORDERS, (204, None))
    assert cli("destination", "list").out.splitlines()[1].split("\t") == ["orders", "direct", "none", "-", "-", "no"]
    assert cli("destination", "list", "--json").json["items"] == [item]
    assert cli("destination", "show", "orders", "--json").json == item
    assert cli("destination", "rm", "orders").out == "removed  orders\n"


def test_a_new_subscription_shows_its_secret(cli: Cli, bus: FakeBus) -> None:
    bus.on("PUT", SHOP, lambda asked: {**asked.body, "secret": "whsec_x"})
    ran = cli(
        "subscription", "set", "orders", "shop", "--url", "http://shop/hook", "--max-concurrency", "4",
        "--timeout", "2.5", "--retry", "5s, 30s", "--secret", "auto", "--filter", "body.x", "--key-header", "x-k=a=b",
        "--stuck-after", "1m", "--retry-max-attempts", "3",
    )  # fmt: skip
    assert ran.code == 0
    assert bus.asked[-1].body == {
        "url": "http://shop/hook",
        "max_concurrency": 4,
        "timeout_seconds": 2.5,
        "retry": ["5s", "30s"],
        "retry_max_attempts": 3,
        "secret": "auto",
        "filter": "body.x",
        "headers": {"x-k": "a=b"},
        "stuck_after": "1m",
    }
    assert "whsec_x" in ran.out


def test_a_subscription_keeps_what_was_not_given(cli: Cli, bus: FakeBus) -> None:
    bus.on("GET", SHOP, {"name": "shop"})
    bus.on("PATCH", SHOP, {"name": "shop"})
    cli("subscription", "set", "orders", "shop", "--retry", '{"first":"5s","factor":3,"max":"12h"}')
    assert bus.asked[-1].body == {"retry": {"first": "5s", "factor": 3, "max": "12h"}}


def test_the_bus_itself_has_another_option_there(cli: Cli, bus: FakeBus) -> None:
    ran = cli("subscription", "set", "orders", "shop", "--url", "http://shop", "--bus-url", "http://127.0.0.1:9")
    assert (ran.code, bus.asked) == (1, [])
    assert "127.0.0.1:9" in ran.err


def test_pause_resume_list_show_rm(cli: Cli, bus: FakeBus) -> None:
    bus.on("PATCH", SHOP, lambda asked: {"name": "shop", **asked.body})
    bus.on("DELETE", SHOP, (204, None))
    bus.on("GET", "/api/v1/conditions", {"items": [], "next": None})
    bus.on("GET", "/api/v1/failures", {"items": [], "complete": True})
    bus.on("GET", SHOP, {"name": "shop"})
    bus.on("GET", DESTINATIONS, {"items": [{"code": "orders"}], "next": None})
    bus.on("GET", f"{ORDERS}/subscriptions", {"items": [{"name": "shop", "url": "http://x/\x1b[31m"}], "next": None})
    assert cli("subscription", "pause", "orders", "shop", "--json").json["paused"] is True
    assert cli("subscription", "resume", "orders", "shop", "--json").json["paused"] is False
    assert cli("subscription", "show", "orders", "shop", "--json").json == {"name": "shop", "condition": None}
    every = cli("subscription", "list")
    assert every.out.splitlines()[1].startswith("orders\tshop\t-\t-\t-\t-\t-\thttp://x/")
    assert "\x1b" not in every.out
    assert cli("subscription", "list", "orders", "--json").json["items"][0]["destination"] == "orders"
    assert cli("subscription", "rm", "orders", "shop").out == "removed  orders/shop\n"


CONDITION = {"destination": "orders", "subscription": "shop", "state": "breaker_open", "why": "HTTP 503"}
FIGURES = {"waiting": 7, "oldest": "2026-01-31T12:00:00.000Z", "retrying": 3}


def test_a_subscription_has_its_state_its_queue_and_its_last_error(cli: Cli, bus: FakeBus) -> None:
    errors = [
        {"destination": "orders", "subscription": name, "signature": text, "last_seen": f"2026-01-31T12:00:0{second}Z"}
        | ({"example": "HTTP 503 in 2 s"} if text == "503" else {})
        for name, text, second in [("shop", "503", 2), ("shop", "timed out", 1), ("mail", "404", 3)]
    ]
    bus.on("GET", SHOP, {"name": "shop"})
    bus.on("GET", f"{ORDERS}/subscriptions", {"items": [{"name": "shop"}, {"name": "mail"}], "next": None})
    bus.on("GET", "/api/v1/conditions", {"items": [CONDITION | FIGURES], "next": None})
    bus.on("GET", "/api/v1/failures", {"items": errors, "complete": True})
    wanted = "state,queued,oldest_queued,retrying,last_error"
    _, shop, mail = cli("subscription", "list", "orders", "--columns", wanted).out.splitlines()
    assert shop == "unreachable: HTTP 503\t7\t2026-01-31T12:00:00.000Z\t3\tHTTP 503 in 2 s"
    assert mail == "-\t-\t-\t-\t-"
    shown = dict(line.split("  ", 1) for line in cli("subscription", "show", "orders", "shop").out.splitlines())
    assert {name: value.strip() for name, value in shown.items()} == {
        "name": "shop", "state": "unreachable: HTTP 503", "queued": "7", "oldest_queued": FIGURES["oldest"],
        "retrying": "3", "last_error": "HTTP 503 in 2 s",
    }  # fmt: skip
    condition = cli("subscription", "show", "orders", "shop", "--json").json["condition"]
    assert (condition["state"], condition["last_error"]) == ("breaker_open", "HTTP 503 in 2 s")
    assert not [path for _, path in calls(bus) if path.startswith("/api/v1/messages")]
    del errors[0]["example"]
    assert cli("subscription", "show", "orders", "shop", "--json").json["condition"]["last_error"] == "503"


def test_states_are_listed_while_the_store_is_down(cli: Cli, bus: FakeBus) -> None:
    bus.on("GET", f"{ORDERS}/subscriptions", {"items": [{"name": "shop"}], "next": None})
    bus.on("GET", "/api/v1/conditions", {"items": [CONDITION | FIGURES], "next": None})
    bus.on("GET", "/api/v1/failures", (503, {"detail": "the store is down", "status": 503}))
    ran = cli("subscription", "list", "orders")
    assert (ran.code, ran.err) == (0, "last errors are not known now: the store is down\n")
    assert "orders\tshop\tunreachable: HTTP 503\t7\t" in ran.out


@pytest.mark.parametrize("status", [403, 404, 503])
def test_subscriptions_are_listed_where_their_states_are_not(cli: Cli, bus: FakeBus, status: int) -> None:
    bus.on("GET", f"{ORDERS}/subscriptions", {"items": [{"name": "shop"}], "next": None})
    bus.on("GET", "/api/v1/conditions", (status, {"detail": "there is none", "status": status}))
    ran = cli("subscription", "list", "orders")
    assert (ran.code, ran.err) == (0, "states are not known now: there is none\n")
    assert "orders\tshop\t-" in ran.out


def test_keys_and_users_through_the_api(cli: Cli, bus: FakeBus) -> None:
    bus.on("POST", "/api/v1/keys", (201, {"key": "bus_1", "role": "producer"}))
    bus.on("POST", "/api/v1/users", lambda asked: (201, {**asked.body, "password": "p"}))
    ran = cli("key", "create", "--destination", "a", "--destination", "b")
    assert ran.out == "bus_1\n"
    assert bus.asked[0].body == {"name": "", "role": "producer", "destinations": ["a", "b"]}
    assert cli("user", "add", "ann", "--role", "operator", "--json").json == {
        "name": "ann",
        "role": "operator",
        "destinations": [],
        "password": "p",
    }


def test_a_key_is_not_made_in_what_is_no_data_directory(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "bus.toml"
    file.write_text("port = 1")
    for place, said in ((file, "is not a directory"), (tmp_path, "is not the data directory of a bus")):
        for command in (("key", "create"), ("user", "add", "ann")):
            ran = cli(*command, "--data", str(place))
            assert (ran.code, ran.out) == (1, "")
            assert ran.err.startswith(f"error: --data {place} {said}; nothing was created (hint: ")
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("bus.toml", "port = 1")]


def test_a_new_data_directory_is_named(cli: Cli, tmp_path: Path) -> None:
    data = tmp_path / "data"
    assert f"{data} is a new data directory" in cli("key", "create", "--data", str(data)).err
    assert cli("key", "create", "--data", str(data)).err == ""


def test_keys_and_users_offline(cli: Cli, bus: FakeBus, tmp_path: Path) -> None:
    ran = cli("key", "create", "--role", "admin", "--data", str(tmp_path))
    assert ran.code == 0
    assert ran.out.startswith("bus_")
    user = cli("user", "add", "ann", "--role", "viewer", "--data", str(tmp_path), "--json")
    assert user.json["password"]
    again = cli("user", "add", "ann", "--data", str(tmp_path))
    assert (again.code, again.out) == (1, "")
    assert bus.asked == []


def test_a_key_made_offline_is_in_the_store_that_is_configured(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "bus.toml"
    file.write_text(f'store = "sqlite:///{tmp_path}/elsewhere"')
    data = tmp_path / "data"
    assert cli("key", "create", "--data", str(data), "--config", str(file)).err == ""
    assert (tmp_path / "elsewhere").is_dir()
    monkeypatch.setenv("BUS_STORE", "nonsense")
    ran = cli("user", "add", "ann", "--data", str(data))
    assert ran.code == 1
    assert "allowed are sqlite:///PATH and mongodb://HOST/DATABASE" in ran.err
    assert not data.exists()


def test_a_subscription_takes_batches(cli: Cli, bus: FakeBus) -> None:
    bus.on("PUT", SHOP, lambda asked: asked.body)
    given = ("--url", "http://a/", "--batch", "50", "--batch-format", "json")
    assert cli("subscription", "set", "orders", "shop", *given).code == 0
    assert bus.asked[-1].body == {"url": "http://a/", "batch": 50, "batch_format": "json"}
    assert cli("subscription", "set", "orders", "shop", "--batch", "many").code == 2


def test_statuses_that_end_a_delivery_are_numbers(cli: Cli, bus: FakeBus) -> None:
    bus.on("PUT", SHOP, lambda asked: asked.body)
    assert cli("subscription", "set", "orders", "shop", "--url", "http://a/", "--dead-on", "400, 422").code == 0
    assert bus.asked[-1].body == {"url": "http://a/", "dead_on": [400, 422]}
    assert cli("subscription", "set", "orders", "shop", "--dead-on", "x").code == 2
