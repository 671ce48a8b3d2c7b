"""``bus listen`` shows and copies what passes, each once."""

from __future__ import annotations

from typing import Any

import pytest

from bus.security.signatures import Signer
from tests.harness.fake_bus import Asked, FakeBus
from tests.unit.cli.conftest import Cli

AT = "2026-11-26T12:00:0{}.000Z"
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
MESSAGES = "/api/v1/messages"


def item(number: int, **changes: Any) -> dict[str, Any]:
    return {
        "id": f"019a2f4e-0000-7000-8000-00000000000{number}",
        "destination": "orders",
        "biz_id": f"b{number}",
        "source": "",
        "received_at": AT.format(number),
        "sent_at": AT.format(number),
        "bytes": 8,
        "content_type": "application/json",
        "key": "",
        "headers": {"x-a": "b"},
        "traceparent": "",
        **changes,
    }


def page(*items: dict[str, Any], following: str | None = None) -> dict[str, Any]:
    return {"items": list(items), "next": following}


@pytest.fixture
def passing(bus: FakeBus, monkeypatch: pytest.MonkeyPatch) -> FakeBus:
    """A bus through which three messages pass, the first of them seen twice."""
    monkeypatch.setattr("bus.cli.commands.listening._EVERY", 0.0)
    monkeypatch.setattr("bus.cli.commands.listening._AGAIN", 0.0)
    bus.on("GET", "/api/v1/destinations/orders", {"code": "orders"})
    bus.on("GET", MESSAGES, page(item(1)), page(item(2), item(1)), page(), page(item(3), item(2)))
    for number, body in ((1, b'{"n": 1}'), (2, b"\x1b[31mred"), (3, b"\xff\xfe")):
        one = item(number)
        bus.on("GET", f"{MESSAGES}/{one['id']}", {"id": one["id"], "message": one})
        bus.on("GET", f"{MESSAGES}/{one['id']}/body", lambda _, body=body: body)
    return bus


def test_each_is_shown_once_in_the_order_in_which_they_came(cli: Cli, passing: FakeBus) -> None:
    ran = cli("listen", "orders", "--from", AT.format(0), "--count", "3")
    assert ran.code == 0
    assert ran.out.splitlines() == [
        f"{AT.format(1)}  {item(1)['id']}  biz_id=b1  application/json  8 B  x-a: b",
        '  {"n": 1}',
        f"{AT.format(2)}  {item(2)['id']}  biz_id=b2  application/json  8 B  x-a: b",
        "  \N{REPLACEMENT CHARACTER}[31mred",
        f"{AT.format(3)}  {item(3)['id']}  biz_id=b3  application/json  8 B  x-a: b",
        "  (2 B that are not text)",
    ]
    first = next(one for one in passing.asked if one.path == MESSAGES)
    assert first.query == {"destination": "orders", "from": AT.format(0), "limit": "100"}


def test_bodies_are_not_read_where_nobody_asks_for_them(cli: Cli, passing: FakeBus) -> None:
    assert "{" not in cli("listen", "orders", "--no-body", "--count", "3").out
    assert not [one for one in passing.asked if one.path.endswith("/body")]


def test_lines_of_json(cli: Cli, passing: FakeBus) -> None:
    one = cli("listen", "orders", "--json", "--count", "1").json
    assert (one["id"], one["body"]) == (item(1)["id"], '{"n": 1}')


def test_a_copy_is_what_a_subscriber_gets(cli: Cli, passing: FakeBus) -> None:
    got: list[Asked] = []
    passing.on("POST", "/hook", lambda asked: got.append(asked) or (204, None))
    ran = cli("listen", "orders", "--to", f"{passing.url}/hook", "--secret", SECRET, "--count", "1")
    assert "copied: 204 in " in ran.out
    (asked,) = got
    assert asked.content == b'{"n": 1}'
    assert {name: asked.headers[name] for name in ("bus-destination", "bus-biz-id", "bus-attempt", "x-a")} == {
        "bus-destination": "orders",
        "bus-biz-id": "b1",
        "bus-attempt": "1",
        "x-a": "b",
    }
    at = int(asked.headers["webhook-timestamp"])
    assert asked.headers["webhook-signature"] == Signer([SECRET]).sign(item(1)["id"], at, asked.content)


def test_a_copy_that_nobody_takes_ends_nothing(cli: Cli, passing: FakeBus) -> None:
    ran = cli("listen", "orders", "--to", "http://127.0.0.1:9/", "--count", "2")
    assert (ran.code, ran.out.count("copied: no response: ")) == (0, 2)


def test_a_bus_that_is_away_is_waited_for(cli: Cli, passing: FakeBus) -> None:
    passing.on("GET", MESSAGES, (503, {"detail": "away"}), (503, {"detail": "away"}), page(item(1)))
    ran = cli("listen", "orders", "--count", "1")
    assert ran.code == 0
    assert ran.err.count("retrying") == ran.err.count("connected again") == 1


def test_a_bus_that_goes_while_a_message_is_read_is_waited_for(cli: Cli, passing: FakeBus) -> None:
    one = item(1)
    passing.on("GET", f"{MESSAGES}/{one['id']}", (503, {"detail": "away"}), {"id": one["id"], "message": one})
    ran = cli("listen", "orders", "--count", "1")
    assert (ran.code, ran.err.count("retrying")) == (0, 1)
    assert '{"n": 1}' in ran.out


def test_what_comes_too_fast_is_passed_over_and_that_is_said(cli: Cli, passing: FakeBus) -> None:
    passing.on("GET", MESSAGES, *(page(item(1, id=f"019a2f4e-{n}"), following="c") for n in range(5)))
    passing.on("GET", f"{MESSAGES}/019a2f4e-4", {"id": "x", "message": item(1)})
    ran = cli("listen", "orders", "--no-body", "--count", "1")
    assert "the oldest were skipped" in ran.err


def test_a_body_that_is_withheld_is_left_out(cli: Cli, passing: FakeBus) -> None:
    passing.on("GET", f"{MESSAGES}/{item(1)['id']}/body", (403, {"detail": "masked"}))
    ran = cli("listen", "orders", "--count", "1")
    assert (ran.code, len(ran.out.splitlines())) == (0, 1)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--secret", SECRET], "--to"),
        (["--to", "127.0.0.1:9"], "not an http"),
        (["--to", "http://x", "--no-body"], "--to needs bodies"),
        (["--to", "http://x", "--secret", "no"], "--secret"),
        (["--from", "soon"], "--from"),
    ],
)
def test_what_cannot_be_meant_is_wrong_usage(cli: Cli, passing: FakeBus, arguments: list[str], told: str) -> None:
    ran = cli("listen", "orders", *arguments)
    assert ran.code == 2
    assert told in ran.err


def test_a_destination_that_is_not_there(cli: Cli, bus: FakeBus) -> None:
    bus.on("GET", "/api/v1/destinations", {"items": [{"code": "orders"}]})
    ran = cli("listen", "ordres")
    assert (ran.code, "orders" in ran.err) == (1, True)
