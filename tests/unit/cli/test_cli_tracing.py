"""The life of a message, found by any id."""

from __future__ import annotations

import pytest

from tests.harness.fake_bus import FakeBus
from tests.unit.cli.conftest import Cli

ID = "019a0000-0000-7000-8000-000000000001"
TRACE = {
    "id": ID,
    "destination": "orders",
    "biz_id": "42",
    "source": "shop",
    "status": "retrying",
    "sent_at": "2026-01-31T12:00:00.000Z",
    "received_at": "2026-01-31T12:00:00.100Z",
    "completed_at": None,
    "bytes": 14,
    "message": {"key": "k"},
    "deliveries": [
        {
            "subscription": "billing",
            "url": "http://b/",
            "status": "retrying",
            "reason": "500",
            "due_at": "2026-01-31T12:01:00.000Z",
            "attempts": [
                {
                    "n": 1,
                    "by": "road",
                    "started_at": "2026-01-31T12:00:01.000Z",
                    "duration_ms": 3.5,
                    "phases": {"connect": 1.0},
                    "status_code": 500,
                    "error": None,
                    "response": "oh\n\x1b[31mno",
                },
                {"n": 2, "started_at": "2026-01-31T12:00:09.000Z", "duration_ms": 1, "error": "refused"},
            ],
        },
        {"subscription": "mail", "url": "http://m/", "status": "skipped", "reason": "filter", "attempts": []},
    ],
}


def test_a_trace_is_a_timeline(cli: Cli, bus: FakeBus) -> None:
    bus.on("GET", f"/api/v1/messages/{ID}", TRACE)
    out = cli("trace", ID).out
    assert out.splitlines()[0] == f"retrying  {ID}  to  orders"
    assert "2026-01-31T12:00:00.000Z  sent  by shop  biz_id=42" in out
    assert "retrying  billing  http://b/  500 due 2026-01-31T12:01:00.000Z" in out
    assert "2026-01-31T12:00:01.000Z  #1  500  3.5 ms  connect=1.0  by transport" in out
    assert "#2  refused  1 ms" in out
    assert "skipped  mail  http://m/  filter" in out
    assert "\x1b" not in out
    assert cli("trace", ID, "--json").json == TRACE


def test_a_trace_says_what_holds_a_delivery(cli: Cli, bus: FakeBus) -> None:
    first, *rest = TRACE["deliveries"]
    what = "the rate of the subscription holds it: 1 a second"
    deliveries = [{**first, "held": {"cause": "rate", "what": what, "what_text": None}}, {**rest[0], "held": None}]
    bus.on("GET", f"/api/v1/messages/{ID}", {**TRACE, "deliveries": deliveries})
    assert f"now: {what}\n" in cli("trace", ID).out
    due = {"cause": "retry", "what": "the next attempt is due at then", "what_text": None}
    bus.on("GET", f"/api/v1/messages/{ID}", {**TRACE, "deliveries": [{**first, "held": due}, *rest]})
    assert "now:" not in cli("trace", ID).out, "it is said as the due time"


def test_a_trace_names_what_people_did(cli: Cli, bus: FakeBus) -> None:
    link = {"id": "other", "by": "ann", "reason": "mended", "at": "2026-01-31T12:00:09.000Z"}
    first, *rest = TRACE["deliveries"]
    deliveries = [{**first, "resends": [{"generation": 1, "job": None, **link}]}, *rest]
    unknown = {"id": "older", "by": None, "reason": None, "at": None}
    bus.on(
        "GET", f"/api/v1/messages/{ID}", {**TRACE, "deliveries": deliveries, "edits": [link], "edited_from": unknown}
    )
    out = cli("trace", ID).out
    assert "2026-01-31T12:00:09.000Z  resent  by ann: mended" in out
    assert "2026-01-31T12:00:09.000Z  edited, new message  other  by ann: mended" in out
    assert "edited copy of  older\n" in out


def test_a_trace_without_anybody(cli: Cli, bus: FakeBus) -> None:
    bare = {"id": ID, "destination": "orders", "status": "skipped", "reason": "no subscription", "deliveries": []}
    bus.on("GET", f"/api/v1/messages/{ID}", {**bare, "completed_at": "2026-01-31T12:00:00.100Z"})
    out = cli("trace", ID).out
    assert "no subscription" in out
    assert "completed" in out


def test_a_message_that_is_not_there(cli: Cli, bus: FakeBus) -> None:
    bus.on("GET", "/api/v1/messages", {"items": [], "next": None})
    ran = cli("trace", "nope")
    assert (ran.code, ran.err) == (1, "error: there is no /api/v1/messages/nope\n")
    assert cli("trace", " '' ").code == 2


@pytest.mark.parametrize("given", ["order-42", " order-42\n", "'order-42'", '"order-42" ', "`order-42`"])
def test_a_trace_is_found_by_any_id(cli: Cli, bus: FakeBus, given: str) -> None:
    bus.on("GET", "/api/v1/messages", {"items": [{"id": ID}], "next": None})
    bus.on("GET", f"/api/v1/messages/{ID}", TRACE)
    assert cli("trace", given, "--json").json == TRACE
    assert [(asked.path, asked.query) for asked in bus.asked] == [
        ("/api/v1/messages/order-42", {}),
        ("/api/v1/messages", {"ref": "order-42", "limit": "50"}),
        (f"/api/v1/messages/{ID}", {}),
    ]
    bus.asked.clear()
    assert cli("trace", f" {ID}", "--json").json == TRACE
    assert [asked.path for asked in bus.asked] == [f"/api/v1/messages/{ID}"]


def test_the_body_of_a_message_is_written_as_it_is(cli: Cli, bus: FakeBus) -> None:
    bus.on("GET", f"/api/v1/messages/{ID}", TRACE)
    bus.on("GET", f"/api/v1/messages/{ID}/body", b'{"n":  1}\n')
    assert cli("trace", ID, "--body").out == '{"n":  1}\n'


def test_of_several_messages_one_is_to_be_chosen(cli: Cli, bus: FakeBus) -> None:
    items = [{"id": f"{ID[:-1]}{n}", "received_at": f"2026-01-31T12:00:0{n}.000Z"} for n in (2, 1)]
    bus.on("GET", "/api/v1/messages", {"items": items, "next": None})
    ran = cli("trace", "42", "--columns", "id,received_at")
    assert [line.split("\t") for line in ran.out.splitlines()[1:]] == [list(item.values()) for item in items]
    assert (ran.code, ran.err) == (1, "2 messages match 42; choose one: bus trace ID\n")
    bus.on("GET", "/api/v1/messages", {"items": items, "next": "c"})
    ran = cli("trace", "42", "--json")
    assert (ran.code, ran.json["items"], ran.err[:19]) == (1, items, "2 or more messages ")
