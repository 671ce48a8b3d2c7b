"""Sending, finding and resending messages."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from bus.cli import outcomes
from bus.cli.commands import resending, sending
from tests.harness.fake_bus import Asked, FakeBus
from tests.unit.cli.conftest import Cli

ONE = "/v1/messages/orders"
MANY = "/v1/messages"
ID = "019a0000-0000-7000-8000-000000000001"


def taking(asked: Asked) -> dict[str, Any]:
    lines = [json.loads(line) for line in asked.content.split(b"\n")]
    return {"results": [{"id": line["id"], "status": "accepted"} for line in lines]}


def lines_of(bus: FakeBus) -> list[list[dict[str, Any]]]:
    return [[json.loads(line) for line in asked.content.split(b"\n")] for asked in bus.asked]


@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        (b'{"order": 42}\n', "application/json"),
        (b"hello", "text/plain; charset=utf-8"),
        (b"\x00\xff", "application/octet-stream"),
        (b"", "text/plain; charset=utf-8"),
    ],
)
def test_one_message_goes_as_it_is(cli: Cli, bus: FakeBus, body: bytes, content_type: str) -> None:
    bus.on("POST", ONE, (202, {"id": ID, "duplicate": False}))
    ran = cli("send", "orders", stdin=body)
    assert (ran.code, ran.out) == (0, f"{ID}\n")
    assert bus.asked[0].content == body
    assert bus.asked[0].headers["content-type"] == content_type


def test_a_file_with_everything(cli: Cli, bus: FakeBus, tmp_path: Path) -> None:
    file = tmp_path / "message"
    file.write_bytes(b"{}")
    bus.on("POST", ONE, (202, {"id": ID, "duplicate": True}))
    ran = cli(
        "send", "orders", str(file), "--biz-id", "42", "--key", "k", "--content-type", "text/x", "--header", "x-a=b=c",
        "--routing-key", "eu.de", "--deliver-at", "2030-01-01T00:00:00Z", "--source", "me", "--json",
    )  # fmt: skip
    assert ran.json == {"id": ID, "duplicate": True}
    headers = bus.asked[0].headers
    wanted = {
        "content-type": "text/x",
        "bus-biz-id": "42",
        "bus-key": "k",
        "bus-routing-key": "eu.de",
        "bus-source": "me",
        "bus-deliver-at": "2030-01-01T00:00:00Z",
        "bus-header-x-a": "b=c",
    }
    assert {name: headers[name] for name in wanted} == wanted


@pytest.mark.parametrize("code", ["../x", "a b"])
def test_an_impossible_destination_is_not_even_asked(cli: Cli, bus: FakeBus, code: str) -> None:
    assert cli("send", code, stdin=b"{}").code == 1
    assert bus.asked == []


def test_a_file_that_is_not_there(cli: Cli, tmp_path: Path) -> None:
    ran = cli("send", "orders", str(tmp_path / "none"))
    assert (ran.code, ran.err.count("\n")) == (1, 1)
    assert "No such file" in ran.err


def test_lines_go_in_batches_with_their_exact_json(cli: Cli, bus: FakeBus) -> None:
    bus.on("POST", MANY, taking)
    stdin = b"\n".join(b'{"n":  %d}' % n for n in range(1201)) + b"\n"
    ran = cli("send", "orders", "--ndjson", "--biz-id", "x", "--routing-key", "eu", stdin=stdin)
    assert (ran.code, ran.out) == (0, "1201 accepted, 0 duplicate, 0 rejected\n")
    assert [len(lines) for lines in lines_of(bus)] == [500, 500, 201]
    assert b'"body":{"n":  7}' in bus.asked[0].content
    assert {name: lines_of(bus)[0][0][name] for name in ("biz_id", "routing_key")} == {
        "biz_id": "x",
        "routing_key": "eu",
    }
    assert len({line["id"] for lines in lines_of(bus) for line in lines}) == 1201


def test_lines_of_another_type_go_as_bytes(cli: Cli, bus: FakeBus) -> None:
    bus.on("POST", MANY, taking)
    cli("send", "orders", "--ndjson", "--content-type", "text/csv", stdin=b" a,b \nc\r\n")
    found = [base64.b64decode(line["body_base64"]) for line in lines_of(bus)[0]]
    assert found == [b" a,b ", b"c"]


def test_broken_and_refused_lines_are_named_and_the_others_sent(cli: Cli, bus: FakeBus) -> None:
    def answer(asked: Asked) -> dict[str, Any]:
        found = taking(asked)
        error = {"title": "Too large", "status": 413, "detail": "too large"}
        found["results"][1] = {"id": None, "status": "rejected", "error": error}
        found["results"][2]["status"] = "duplicate"
        return found

    bus.on("POST", MANY, answer)
    ran = cli("send", "orders", "--ndjson", stdin=b'{"n":1}\n{broken\n\n{"n":4}\n{"n":5}\n')
    assert (ran.code, ran.out) == (1, "1 accepted, 1 duplicate, 2 rejected\n")
    assert ran.err.splitlines()[0].startswith("line 2: not JSON")
    assert ran.err.splitlines()[1] == "line 4: too large"
    as_json = cli("send", "orders", "--ndjson", "--json", stdin=b'{"n":1}\n{broken\n\n{"n":4}\n{"n":5}\n').json
    assert as_json["rejected"] == 2
    assert [item["line"] for item in as_json["refused"]] == [2, 4]


def test_an_envelope_has_the_fields_of_a_message(cli: Cli, bus: FakeBus, tmp_path: Path) -> None:
    bus.on("POST", MANY, taking)
    whole = {
        "destination": "invoices",
        "id": ID,
        "body": None,
        "key": "k-1",
        "headers": {"x-a": "b"},
        "sent_at": "2026-01-31T12:00:00.000Z",
        "source": "shop",
        "idempotency_key": "once",
    }
    file = tmp_path / "messages.ndjson"
    file.write_bytes(b'{"body": {"n":  1}, "key": null}\n\n' + json.dumps(whole).encode())
    ran = cli("send", "orders", str(file), "--envelope", "--key", "k-0", "--biz-id", "42", "--header", "x-a=0")
    assert (ran.code, ran.out, ran.err) == (0, "2 accepted, 0 duplicate, 0 rejected\n", "")
    first, second = lines_of(bus)[0]
    assert b'"body":{"n":  1}' in bus.asked[0].content
    assert first.pop("id") != first.pop("sent_at")
    assert first == {
        "destination": "orders",
        "source": "bus-cli",
        "key": "k-0",
        "biz_id": "42",
        "headers": {"x-a": "0"},
        "body": {"n": 1},
    }
    assert second == {**whole, "biz_id": "42"}


def test_envelopes_go_without_a_destination_of_their_own(cli: Cli, bus: FakeBus, tmp_path: Path) -> None:
    bus.on("POST", MANY, taking)
    file = tmp_path / "messages"
    file.write_bytes(b'{"destination":"orders","body":1}\n{"body":2}\n[3]\n{broken\n')
    for ran in (cli("send", "--envelope", str(file)), cli("send", "--envelope", stdin=file.read_bytes())):
        assert (ran.code, ran.out) == (1, "1 accepted, 0 duplicate, 3 rejected\n")
        said = ran.err.splitlines()
        assert said[0] == "line 2: it has no destination, and the command line names none"
        assert [line[:26] for line in said[1:]] == ["line 3: not a JSON object:", "line 4: not a JSON object:"]
    assert cli("send", "--envelope", "--ndjson", str(file)).code == 2


@pytest.mark.parametrize("option", [[], ["--ndjson"]])
def test_a_file_in_the_place_of_the_destination_is_refused(
    cli: Cli, bus: FakeBus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, option: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "orders.ndjson").write_bytes(b"{}\n")
    ran = cli("send", "orders.ndjson", *option)
    assert (ran.code, ran.out, bus.asked) == (2, "", [])
    end = " --ndjson" if option else ""
    assert cli("send", "orders.json", *option).code == 2, "though it is not there"
    (tmp_path / "orders").write_bytes(b"{}\n")
    assert cli("send", str(tmp_path / "orders"), *option).code == 2
    assert (
        f"orders.ndjson looks like a file, and no destination is named: bus send CODE orders.ndjson{end} (" in ran.err
    )
    bus.on("POST", MANY, taking)
    bus.on("POST", "/v1/messages/orders.ndjson", {"id": ID})
    assert cli("send", "orders.ndjson", "-", *option, stdin=b"1").code == 0


def test_a_file_of_any_name_is_no_destination_without_lines(
    cli: Cli, bus: FakeBus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "orders").write_bytes(b"{}\n")
    ran = cli("send", "--ndjson", "orders")
    assert (ran.code, ran.out) == (2, "")
    assert "no destination is named" in ran.err
    bus.on("POST", MANY, taking)
    assert cli("send", "orders", "--ndjson", stdin=b"1\n").code == 0
    assert cli("send", "invoices", "--ndjson").out == "0 accepted, 0 duplicate, 0 rejected\n"


def test_lines_to_a_destination_that_is_not_there_bring_the_one_that_is_like_it(cli: Cli, bus: FakeBus) -> None:
    error = {"title": "Not found", "status": 404, "detail": "there is no destination 'ordres'"}
    bus.on("POST", MANY, {"results": [{"id": ID, "status": "rejected", "error": error}] * 2})
    bus.on("GET", "/api/v1/destinations", {"items": [{"code": "orders"}], "next": None})
    ran = cli("send", "ordres", "--ndjson", stdin=b"1\n2\n")
    assert (ran.code, ran.out) == (1, "0 accepted, 0 duplicate, 2 rejected\n")
    assert ran.err.splitlines()[2:] == ["there is no destination ordres: did you mean orders?"]


def test_many_refused_lines_are_summed_up(cli: Cli) -> None:
    ran = cli("send", "orders", "--ndjson", stdin=b"x\n" * 50)
    assert ran.err.splitlines()[-1] == "and 30 more lines"
    assert len(ran.err.splitlines()) == 21


def test_a_batch_without_an_answer_is_repeated_under_the_same_ids(
    cli: Cli, bus: FakeBus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sending, "_PAUSE", 0)
    bus.on("POST", MANY, (503, {"detail": "busy", "status": 503}), (429, b""), taking)
    ran = cli("send", "orders", "--ndjson", stdin=b"1\n2\n")
    assert (ran.code, ran.out) == (0, "2 accepted, 0 duplicate, 0 rejected\n")
    assert bus.asked[0].content == bus.asked[1].content == bus.asked[2].content


def test_a_bus_that_stays_away_stops_with_the_line(cli: Cli, bus: FakeBus, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sending, "_PAUSE", 0)
    failing: list[Any] = [(503, {"detail": "busy", "status": 503})]
    bus.on("POST", MANY, taking, *failing)
    ran = cli("send", "orders", "--ndjson", stdin=b"1\n" * 600)
    assert ran.code == 1
    assert ran.err.startswith("error: stopped at line 501: busy; 500 messages before it were accepted")
    assert len(bus.asked) == 1 + sending.TRIES


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
    assert "2026-01-31T12:00:09.000Z  edited, the new one is  other  by ann: mended" in out
    assert "made of  older\n" in out


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
    assert (ran.code, ran.err) == (1, "2 messages are called 42: choose one, bus trace ID\n")
    bus.on("GET", "/api/v1/messages", {"items": items, "next": "c"})
    ran = cli("trace", "42", "--json")
    assert (ran.code, ran.json["items"], ran.err[:19]) == (1, items, "2 messages at least")


def test_search_asks_for_what_was_given_and_pages_on(cli: Cli, bus: FakeBus) -> None:
    page = {"items": [{"id": str(n), "status": "dead"} for n in range(500)], "next": "c"}
    bus.on("GET", "/api/v1/messages", page, {"items": [{"id": "last"}], "next": None})
    ran = cli(
        "search", "--destination", "orders", "--biz-id", "42", "--status", "dead", "--source", "s", "--q", "x",
        "--subscription", "shop", "--from", "2026-01-31T13:00:00+01:00", "--to", "15m", "--limit", "700", "--json",
    )  # fmt: skip
    assert len(ran.json["items"]) == 501
    assert ran.json["next"] is None
    first, second = (asked.query for asked in bus.asked)
    assert first["from"] == "2026-01-31T12:00:00.000Z"
    assert first["to"].endswith("Z")
    assert {name: first[name] for name in ("destination", "biz_id", "status", "source", "q", "subscription")} == {
        "destination": "orders",
        "biz_id": "42",
        "status": "dead",
        "source": "s",
        "q": "x",
        "subscription": "shop",
    }
    assert (first["limit"], second["limit"], second["cursor"]) == ("500", "200", "c")


def test_search_prints_a_line_each(cli: Cli, bus: FakeBus) -> None:
    bus.on("GET", "/api/v1/messages", {"items": [{"id": ID, "biz_id": "a\tb\n"}], "next": None})
    out = cli("search").out
    assert out.splitlines()[0].split("\t")[:3] == ["id", "destination", "status"]
    assert len(out.splitlines()) == 2
    assert bus.asked[0].query == {"limit": "50"}


@pytest.fixture
def fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resending, "POLL_SECONDS", 0)
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
    assert ran.err == "error: 1 of 2 messages were not resent: there is no /api/v1/messages/gone/resend\n"
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
    assert (ran.code, ran.out.splitlines()[0]) == (0, f"new was made of {ID}")
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


def test_on_a_terminal_tables_and_bars_are_drawn(cli: Cli, bus: FakeBus, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "200")
    bus.on("GET", "/api/v1/messages", {"items": [{"id": ID, "status": "dead", "biz_id": "[red]x"}], "next": None})
    bus.on("POST", MANY, taking)
    out = cli("search").out
    assert "\x1b[1;31mdead" in out
    assert "[red]x" in out
    assert "to orders" in cli("send", "orders", "--ndjson", stdin=b"1\n").err
