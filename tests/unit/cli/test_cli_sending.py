"""Sending one message, or lines of them."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from bus.cli.commands import sending
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


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        (b'{"order": 42', "line 1, column 13: the text ends too early"),
        (b'{\n  "order": 42,\n  "gr\xc3\xb6\xc3\x9fe": x\n}', "line 3, column 12: invalid character"),
        (b'{"a": "\xff"}', "line 1, column 8: not UTF-8"),
        (b"[1,]", "line 1, column 4: trailing comma in array"),
        (b"", "line 1, column 1: the text ends too early"),
        (b"[" * 100_000, "line 1, column 1: nested too deeply"),
    ],
)
@pytest.mark.parametrize("content_type", ["application/json", "application/vnd.x+json; charset=utf-8"])
def test_a_body_that_should_be_json_and_is_not_is_refused(
    cli: Cli, bus: FakeBus, body: bytes, fault: str, content_type: str
) -> None:
    ran = cli("send", "orders", "--content-type", content_type, stdin=body)
    assert (ran.code, ran.out, bus.asked) == (1, "", [])
    assert ran.err.startswith(f"error: the body is not JSON: {fault}; nothing was sent (hint: correct it, or give")


def test_lines_that_should_be_json_are_refused_with_their_column(cli: Cli, bus: FakeBus) -> None:
    bus.on("POST", MANY, taking)
    for option in ([], ["--content-type", "application/json"]):
        ran = cli("send", "orders", "--ndjson", *option, stdin=b'1\n{"n" 1}\n')
        assert (ran.code, ran.out) == (1, "1 accepted, 0 duplicate, 1 rejected\n")
        assert ran.err == "line 2: not JSON: column 6: expected ':'\n"


@pytest.mark.parametrize("file", [[], ["-"]])
def test_at_a_terminal_it_says_that_it_reads_standard_input(cli: Cli, bus: FakeBus, file: list[str]) -> None:
    bus.on("POST", ONE, (202, {"id": ID, "duplicate": False}))
    assert cli("send", "orders", *file, stdin=b"{}").err == ""
    said = cli("send", "orders", *file, stdin=b"{}", at_terminal=True).err
    assert said == "reading standard input; end it with Ctrl-D\n"


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
        assert said[0] == "line 2: no destination, in the line or on the command line"
        assert [line[:26] for line in said[1:]] == ["line 3: not a JSON object", "line 4: not a JSON object:"]
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
    assert f"no destination given, and orders.ndjson looks like a file: bus send CODE orders.ndjson{end} (" in ran.err
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
    assert "no destination given" in ran.err
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
    assert ran.err.splitlines()[-1] == "and 30 more rejected lines"
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
    assert ran.err.startswith("error: stopped at line 501: busy; 500 earlier messages were accepted")
    assert len(bus.asked) == 1 + sending.TRIES


def test_on_a_terminal_tables_and_bars_are_drawn(cli: Cli, bus: FakeBus, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "200")
    bus.on("GET", "/api/v1/messages", {"items": [{"id": ID, "status": "dead", "biz_id": "[red]x"}], "next": None})
    bus.on("POST", MANY, taking)
    out = cli("search").out
    assert "\x1b[1;31mdead" in out
    assert "[red]x" in out
    assert "to orders" in cli("send", "orders", "--ndjson", stdin=b"1\n").err
