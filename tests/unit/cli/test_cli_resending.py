"""Resending messages, and following what becomes of them."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest

from bus.cli import jobs, outcomes
from tests.harness.fake_bus import FakeBus
from tests.unit.cli.conftest import Cli

ID = "019a0000-0000-7000-8000-000000000001"


@pytest.fixture
def fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "POLL_SECONDS", 0)
    monkeypatch.setattr(outcomes, "POLL_SECONDS", 0)


def deliveries(*states: str) -> dict[str, Any]:
    return {"deliveries": [{"subscription": f"s{n}", "status": state, "reason": ""} for n, state in enumerate(states)]}


@pytest.mark.usefixtures("fast")
def test_some_messages_are_resent_and_watched(cli: Cli, bus: FakeBus) -> None:
    path = f"/api/v1/messages/{ID}"
    bus.on("POST", f"{path}/resend", (202, {"id": "j", "subscriptions": ["s0", "s1"]}))
    bus.on(
        "GET",
        path,
        deliveries("resend", "resend"),
        deliveries("delivered", "resend"),
        deliveries("delivered", "retrying"),
    )
    ran = cli("resend", ID, "gone", "--json")
    assert ran.code == 1
    assert ran.json["counts"] == {"missing": 1, "delivered": 1, "failed": 1}
    assert ran.err == "error: 1 of 2 messages were not resent; first: there is no /api/v1/messages/gone/resend\n"
    assert bus.asked[0].body == {"subscriptions": None}


@pytest.mark.parametrize(
    ("status", "outcome"), [(404, "missing"), (409, "pending")], ids=["it is not there", "it is on its way"]
)
@pytest.mark.parametrize("options", [(), ("--json",)])
def test_a_message_that_cannot_be_resent_is_an_error(
    cli: Cli, bus: FakeBus, status: int, outcome: str, options: tuple[str, ...]
) -> None:
    bus.on("POST", f"/api/v1/messages/{ID}/resend", (status, {"detail": "it cannot", "hint": "check the id"}))
    ran = cli("resend", ID, *options)
    assert (ran.code, ran.err) == (1, "error: it cannot (hint: check the id)\n")
    if options:
        assert ran.json["counts"] == {outcome: 1}
        assert ran.json["items"] == [{"id": ID, "subscription": "", "outcome": outcome, "reason": "it cannot"}]
    else:
        assert f"1 {outcome}" in ran.out


def test_without_access_nothing_is_resent(cli: Cli, bus: FakeBus) -> None:
    bus.on("POST", f"/api/v1/messages/{ID}/resend", (403, {"detail": "no"}))
    ran = cli("resend", ID, "other")
    assert (ran.code, ran.out, len(bus.asked)) == (1, "", 1)
    assert ran.err.startswith("error: no (hint: ")


@pytest.mark.usefixtures("fast")
def test_a_message_is_edited_and_followed(cli: Cli, bus: FakeBus, tmp_path: Path) -> None:
    file = tmp_path / "order.json"
    file.write_bytes(b'{"order":  7}\n')
    bus.on("POST", f"/api/v1/messages/{ID}/edit", (202, {"id": "new", "edited_from": ID, "subscriptions": ["s0"]}))
    bus.on("GET", "/api/v1/messages/new", deliveries("resend"), deliveries("delivered"))
    ran = cli("resend", ID, "--edit", str(file), "--reason", "mended", "--subscription", "s0", "--reorder")
    assert (ran.code, ran.out.splitlines()[0]) == (0, f"new replaces {ID}")
    assert ran.out.splitlines()[1:] == ["id\tsubscription\toutcome\treason", "new\ts0\tdelivered\t", "1 delivered"]
    assert base64.b64decode(bus.asked[0].body.get("body_base64")) == b'{"order":  7}\n'
    rest = {name: value for name, value in bus.asked[0].body.items() if name != "body_base64"}
    assert rest == {"reason": "mended", "subscriptions": ["s0"], "reorder": True}
    bus.on("GET", "/api/v1/messages/new", deliveries("retrying"))
    ran = cli("resend", ID, "--edit", "-", "--reason", "mended", "--json", stdin=b"x")
    assert (ran.code, ran.json["id"], ran.json["edited_from"], ran.json["counts"]) == (1, "new", ID, {"failed": 1})


@pytest.mark.parametrize(
    "arguments",
    [
        (ID, "--edit", "-"),
        (ID, "other", "--edit", "-", "--reason", "r"),
        ("--edit", "-", "--reason", "r", "--destination", "orders", "--from", "1h", "--to", "0s"),
        (ID, "--edit", "-", "--reason", "r", "--status", "dead"),
        ("--pause", "j", "--edit", "-", "--reason", "r"),
    ],
)
def test_an_edit_is_of_one_message_and_has_a_reason(cli: Cli, bus: FakeBus, arguments: tuple[str, ...]) -> None:
    ran = cli("resend", *arguments)
    assert (ran.code, ran.out, bus.asked) == (2, "", [])


@pytest.mark.usefixtures("fast")
def test_a_good_resend_is_0(cli: Cli, bus: FakeBus) -> None:
    path = f"/api/v1/messages/{ID}"
    bus.on("POST", f"{path}/resend", (202, {"id": "j", "subscriptions": ["s0"]}))
    bus.on("GET", path, deliveries("delivered"))
    ran = cli("resend", ID, "--subscription", "s0")
    assert (ran.code, ran.out.splitlines()[-1]) == (0, "1 delivered")
    assert bus.asked[0].body == {"subscriptions": ["s0"]}


@pytest.mark.parametrize(("wait", "code"), [("0", 0), ("0.01", 1)])
@pytest.mark.usefixtures("fast")
def test_waiting_has_an_end(cli: Cli, bus: FakeBus, wait: str, code: int) -> None:
    path = f"/api/v1/messages/{ID}"
    bus.on("POST", f"{path}/resend", (202, {"id": "j", "subscriptions": ["s0"]}))
    bus.on("GET", path, deliveries("resend"))
    ran = cli("resend", ID, "--wait", wait)
    assert (ran.code, ran.out.splitlines()[-1]) == (code, "1 waiting")


def job(state: str, **counts: int) -> dict[str, Any]:
    every = dict.fromkeys(("selected", "waiting", "delivered", "failed", "skipped", "missing"), 0)
    return {"id": "j", "state": state, "counts": every | counts}


WINDOW = ("--destination", "orders", "--from", "2h", "--to", "2026-01-31T12:00:00Z")


@pytest.mark.usefixtures("fast")
def test_a_bulk_resend_is_followed_to_its_end(cli: Cli, bus: FakeBus) -> None:
    bus.on("POST", "/api/v1/resends", (202, {"id": "j"}))
    states = [job("selecting"), job("sending", selected=3, waiting=2), job("done", selected=3, delivered=3)]
    bus.on("GET", "/api/v1/resends/j", *states)
    ran = cli("resend", *WINDOW, "--status", "dead", "--subscription", "shop", "--rate", "5", "--reason", "r")
    assert ran.code == 0
    assert ran.out == "3 selected, 0 waiting, 3 delivered, 0 failed, 0 skipped, 0 missing\n"
    body = bus.asked[0].body
    assert (body["rate"], body["dry_run"], body["reason"]) == (5, False, "r")
    assert body["filter"]["to"] == "2026-01-31T12:00:00.000Z"
    assert {name: body["filter"][name] for name in ("destination", "status", "subscription")} == {
        "destination": "orders",
        "status": "dead",
        "subscription": "shop",
    }


@pytest.mark.usefixtures("fast")
def test_a_bulk_resend_with_failures_is_1(cli: Cli, bus: FakeBus) -> None:
    bus.on("POST", "/api/v1/resends", (202, {"id": "j"}))
    bus.on("GET", "/api/v1/resends/j", job("done", selected=3, delivered=2, failed=1))
    ran = cli("resend", *WINDOW, "--json")
    assert ran.code == 1
    assert ran.json["counts"]["failed"] == 1


def test_a_dry_run_changes_nothing(cli: Cli, bus: FakeBus) -> None:
    bus.on("POST", "/api/v1/resends", {"count": 7, "sample": [{"id": ID}]})
    ran = cli("resend", *WINDOW, "--dry-run")
    assert ran.code == 0
    assert ran.out.splitlines()[-1] == "7 deliveries would be resent"
    assert bus.asked[0].body["dry_run"] is True
    assert cli("resend", *WINDOW, "--dry-run", "--json").json["count"] == 7
