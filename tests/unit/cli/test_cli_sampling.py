"""``bus subscription sample`` and ``rotate-secret``."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest

from tests.harness.fake_bus import FakeBus
from tests.unit.cli.conftest import Cli

SHOP = "/api/v1/destinations/orders/subscriptions/shop"


def body(text: str | None, size: int, *, truncated: bool = False) -> dict[str, Any]:
    return {"body": text, "body_base64": "", "bytes": size, "truncated": truncated}


REQUEST = {
    "method": "POST",
    "url": "http://shop/hook",
    "headers": [["webhook-id", "m-1"], ["bus-sample", "true"]],
    **body('{"n": 1}', 8),
}
ANSWER = {"status": 200, "headers": [["server", "x\x1b[31m"]], **body("a\nb", 900, truncated=True)}
SAMPLE = {
    "id": "m-1",
    "node": "n",
    "request": REQUEST,
    "response": ANSWER,
    "delivered": True,
    "error": None,
    "failure": None,
    "duration_ms": 12.5,
    "phases": {"connect": 1.0, "first_byte": 9.0},
}


@pytest.mark.parametrize(
    ("content", "content_type"), [(b'{"n": 1}', "application/json"), (b"\xff", "application/octet-stream")]
)
def test_a_sample_has_the_bytes_of_a_file(
    cli: Cli, bus: FakeBus, tmp_path: Path, content: bytes, content_type: str
) -> None:
    bus.on("POST", f"{SHOP}/sample", SAMPLE)
    file = tmp_path / "order"
    file.write_bytes(content)
    assert cli("subscription", "sample", "orders", "shop", str(file), "--header", "x-a=b", "--json").json == SAMPLE
    assert bus.asked[0].body == {
        "body_base64": base64.b64encode(content).decode(),
        "content_type": content_type,
        "headers": {"x-a": "b"},
    }


def test_a_sample_shows_request_and_answer(cli: Cli, bus: FakeBus) -> None:
    bus.on("POST", f"{SHOP}/sample", SAMPLE)
    ran = cli("subscription", "sample", "orders", "shop", "--content-type", "text/x", stdin=b"1")
    assert (ran.code, bus.asked[0].body["content_type"]) == (0, "text/x")
    assert ran.out.splitlines() == [
        "POST http://shop/hook",
        "  webhook-id: m-1",
        "  bus-sample: true",
        '  | {"n": 1}',
        "200  12.5 ms  connect=1.0 first_byte=9.0",
        "  server: x\N{REPLACEMENT CHARACTER}[31m",
        "  | a",
        "  | b",
        "  | ... 900 bytes in total",
        "accepted",
    ]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"response": None, "error": "connection refused"}, "not accepted: connection refused"),
        ({"response": {**ANSWER, "status": 503, **body(None, 7)}}, "not accepted: 503"),
    ],
)
def test_a_sample_that_is_not_taken_is_1(cli: Cli, bus: FakeBus, changes: dict[str, Any], said: str) -> None:
    bus.on("POST", f"{SHOP}/sample", {**SAMPLE, "delivered": False, **changes})
    ran = cli("subscription", "sample", "orders", "shop", stdin=b"1")
    assert (ran.code, ran.out.splitlines()[-1]) == (1, said)
    assert ("7 bytes, not text" in ran.out) == (changes["response"] is not None)


def test_a_new_secret_is_shown_once(cli: Cli, bus: FakeBus) -> None:
    bus.on("POST", f"{SHOP}/rotate-secret", {"name": "shop", "secret": "whsec_new"})
    assert "whsec_new" in cli("subscription", "rotate-secret", "orders", "shop").out
    assert cli("subscription", "rotate-secret", "orders", "shop", "--overlap", "1h", "--json").json["name"] == "shop"
    assert [asked.body for asked in bus.asked] == [{"overlap": "24h"}, {"overlap": "1h"}]
