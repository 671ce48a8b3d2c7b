"""``bus search`` with every condition, and ``bus export``."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.harness.fake_bus import FakeBus
from tests.unit.cli.conftest import Cli

EXPORT = "/api/v1/messages/export"
WHOLE = b'{"id":"1"}\n{"complete":true,"count":1}\n'
GIVEN = [
    *("--ref", "42", "--status-class", "5xx", "--error", "timed out", "--header", "X-Tenant: t1"),
    *("--body-path", "order.id", "--body-value", "7", "--body-text", "sku", "--text", "x"),
]
ASKED = {
    "ref": "42",
    "status_class": "5xx",
    "error": "timed out",
    "header": "X-Tenant: t1",
    "body_path": "order.id",
    "body_value": "7",
    "text": "sku",
    "q": "x",
}
PARTIAL = {"from": "2026-01-31T12:00:00.000Z", "to": None, "complete": False, "reason": "time"}
REST = {"from": None, "to": "2026-01-31T12:00:00.000Z", "complete": True, "reason": None}


def test_a_search_asks_for_every_condition_and_says_what_was_searched(cli: Cli, bus: FakeBus) -> None:
    bus.on(
        "GET",
        "/api/v1/messages",
        {"items": [], "next": "c", "searched": PARTIAL},
        {"items": [{"id": "1"}], "next": None, "searched": REST},
    )
    ran = cli("search", *GIVEN, "--json")
    assert [item["id"] for item in ran.json["items"]] == ["1"]
    assert ran.json["searched"] == {"from": None, "to": None, "complete": True, "reason": None}
    assert bus.asked[0].query == {**ASKED, "limit": "50"}
    assert bus.asked[1].query["cursor"] == "c"


def test_a_search_that_stops_early_says_how_far_it_got(cli: Cli, bus: FakeBus) -> None:
    bus.on("GET", "/api/v1/messages", {"items": [{"id": "1"}], "next": "c", "searched": PARTIAL})
    ran = cli("search", "--limit", "1")
    assert len(ran.out.splitlines()) == 2
    assert "searched back to 2026-01-31T12:00:00.000Z" in ran.err
    bus.on("GET", "/api/v1/messages", {"items": [{"id": "1"}], "next": None, "searched": REST})
    assert cli("search").err == ""


def test_a_search_without_a_result_says_so(cli: Cli, bus: FakeBus) -> None:
    bus.on("GET", "/api/v1/messages", {"items": [], "next": None, "searched": REST})
    assert cli("search").err == "no messages found\n"
    ran = cli("search", "--json")
    assert (ran.json["items"], ran.err) == ([], "")


def test_a_search_says_which_days_are_in_the_archive(cli: Cli, bus: FakeBus) -> None:
    days = [{"partition": f"202601{day}-30d", "lake": "/mnt/lake"} for day in (30, 29)]
    bus.on(
        "GET",
        "/api/v1/messages",
        {"items": [], "next": "c", "searched": {**PARTIAL, "archived": days[:1]}},
        {"items": [], "next": None, "searched": {**REST, "archived": days}},
    )
    ran = cli("search")
    assert "archived days were not searched: 20260129-30d to 20260130-30d" in ran.err
    assert "bus pipeline find ID --lake /mnt/lake" in ran.err


def test_an_export_goes_to_a_file(cli: Cli, bus: FakeBus, tmp_path: Path) -> None:
    bus.on("GET", EXPORT, WHOLE)
    file = tmp_path / "found.ndjson"
    ran = cli("export", *GIVEN, "-o", str(file), "--bodies")
    assert (ran.code, file.read_bytes()) == (0, WHOLE)
    assert ran.out == f"{file}: 1 message, {len(WHOLE)} bytes\n"
    assert bus.asked[0].query == {**ASKED, "format": "ndjson", "bodies": "true"}
    assert list(tmp_path.iterdir()) == [file]


def test_the_name_of_a_file_says_its_format(cli: Cli, bus: FakeBus, tmp_path: Path) -> None:
    bus.on("GET", EXPORT, b"id\r\n")
    file = tmp_path / "found.CSV"
    ran = cli("export", "--from", "15m", "-o", str(file), "--json")
    assert ran.json == {"file": str(file), "bytes": 4, "count": None}
    assert bus.asked[0].query["format"] == "csv"
    assert bus.asked[0].query["from"].endswith("Z")


def test_an_export_goes_to_standard_output(cli: Cli, bus: FakeBus) -> None:
    bus.on("GET", EXPORT, WHOLE)
    assert cli("export").out.encode() == WHOLE
    assert cli("export", "--json").code == 2


@pytest.mark.parametrize("answer", [b"", b'{"id":"1"}\n', b'{"id":"1"}\n{"comp', b"[1]\n"])
def test_a_file_that_is_not_whole_does_not_get_its_name(cli: Cli, bus: FakeBus, tmp_path: Path, answer: bytes) -> None:
    bus.on("GET", EXPORT, answer)
    file = tmp_path / "found.ndjson"
    ran = cli("export", "-o", str(file))
    assert (ran.code, ran.err.count("\n")) == (1, 1)
    assert "the file is incomplete" in ran.err
    assert not file.exists()
    assert (tmp_path / "found.ndjson.part").read_bytes() == answer


def test_a_refusal_is_said(cli: Cli, bus: FakeBus, tmp_path: Path) -> None:
    bus.on("GET", EXPORT, (422, {"title": "x", "status": 422, "detail": "body_path: no path", "field": "body_path"}))
    ran = cli("export", "--body-path", "..")
    assert (ran.code, ran.err) == (1, "error: body_path: no path\n")
    bus.on("GET", EXPORT, WHOLE)
    ran = cli("export", "-o", str(tmp_path / "nowhere" / "file"))
    assert (ran.code, "cannot write" in ran.err) == (1, True)


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
    bus.on("GET", "/api/v1/messages", {"items": [{"id": "1", "biz_id": "a\tb\n"}], "next": None})
    out = cli("search").out
    assert out.splitlines()[0].split("\t")[:3] == ["id", "destination", "status"]
    assert len(out.splitlines()) == 2
    assert bus.asked[0].query == {"limit": "50"}
