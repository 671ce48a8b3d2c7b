"""The hot routes over ASGI: statuses, problem documents, limits, keys."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from bus.domain.identity import new_id
from bus.domain.times import DAY
from bus.errors import SpoolClosed, SpoolFailed, SpoolFull
from bus.http.messages import BATCH_BYTES, BATCH_LINES
from tests.harness.gated_spool import once
from tests.unit.receiver.receiver_world import World

NDJSON = {"content-type": "application/x-ndjson"}


@pytest.fixture
async def world() -> World:
    world = World()
    await world.destination("orders", "billing")
    return world


@pytest.fixture
async def client(world: World) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(world.app)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        yield client


def problem(answer: httpx.Response, status: int) -> dict[str, Any]:
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    document = answer.json()
    assert document["status"] == status
    assert document["title"]
    assert document["detail"]
    return document


def lines(*found: dict | bytes | str) -> bytes:
    return b"\n".join(
        one if isinstance(one, bytes) else one.encode() if isinstance(one, str) else json.dumps(one).encode()
        for one in found
    )


async def test_a_message_is_accepted(world: World, client: httpx.AsyncClient) -> None:
    answer = await client.post("/v1/messages/orders", content=b"\x00\xff", headers={"Bus-Biz-Id": "42"})
    assert answer.status_code == 202
    (stored,) = world.stored
    assert answer.json() == {"id": stored.id, "duplicate": False}
    assert (stored.body, stored.biz_id, stored.content_type) == (b"\x00\xff", "42", "application/octet-stream")
    again = await client.post("/v1/messages/orders", content=b"", headers={"Bus-Message-Id": stored.id})
    assert again.json() == {"id": stored.id, "duplicate": True}
    assert len(world.stored) == 1


async def test_an_empty_body_is_a_message(world: World, client: httpx.AsyncClient) -> None:
    assert (await client.post("/v1/messages/orders")).status_code == 202
    assert world.stored[0].body == b""


async def test_a_body_may_come_in_pieces(world: World, client: httpx.AsyncClient) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        for number in range(10):
            yield b"%d" % number

    assert (await client.post("/v1/messages/orders", content=pieces())).status_code == 202
    assert world.stored[0].body == b"0123456789"


@pytest.mark.parametrize(
    ("path", "status"),
    [
        *(("/v1/messages/nowhere", 404), ("/v1/messages/or%20ders", 404), ("/v1/messages/orders/x", 404)),
        *(("/v1/messages/.orders", 404), ("/v1/messages/%6f%72ders", 202), ("/v1/messages/order%2573", 404)),
    ],
)
async def test_the_path_names_the_destination(client: httpx.AsyncClient, path: str, status: int) -> None:
    answer = await client.post(path)
    if status == 404:
        assert problem(answer, 404)["field"] == "destination"
    else:
        assert answer.status_code == status


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "HEAD", "PATCH", "OPTIONS"])
@pytest.mark.parametrize("path", ["/v1/messages", "/v1/messages/orders"])
async def test_only_post_is_answered(client: httpx.AsyncClient, method: str, path: str) -> None:
    answer = await client.request(method, path)
    assert answer.status_code == 405
    assert answer.headers["allow"] == "POST"


async def test_a_body_over_the_limit_is_a_413_and_nothing_is_stored(world: World, client: httpx.AsyncClient) -> None:
    await world.destination("small", max_bytes=10)

    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(3):
            yield b"12345"

    for content in (b"x" * 11, pieces()):
        assert problem(await client.post("/v1/messages/small", content=content), 413)["field"] == "body"
    assert (await client.post("/v1/messages/small", content=b"x" * 10)).status_code == 202
    assert len(world.stored) == 1


async def test_a_declared_length_over_the_limit_is_refused_unread(world: World) -> None:
    sent: list[dict] = []

    async def never():
        raise AssertionError("the body was read")

    async def send(event) -> None:
        sent.append(event)

    scope = {
        "type": "http",
        "method": "POST",
        "path": "/v1/messages/orders",
        "headers": [(b"host", b"localhost"), (b"content-length", b"99999999")],
    }
    await world.app(scope, never, send)
    assert sent[0]["status"] == 413


async def test_a_client_that_goes_away_stores_nothing(world: World) -> None:
    events = [{"type": "http.request", "body": b"half", "more_body": True}, {"type": "http.disconnect"}]
    sent: list[dict] = []

    async def receive():
        return events.pop(0)

    async def send(event) -> None:
        sent.append(event)

    scope = {"type": "http", "method": "POST", "path": "/v1/messages/orders", "headers": [(b"host", b"localhost")]}
    await world.app(scope, receive, send)
    assert sent[0]["status"] == 400
    assert world.stored == []


async def test_a_compressed_body_is_refused(client: httpx.AsyncClient) -> None:
    problem(await client.post("/v1/messages/orders", content=b"x", headers={"content-encoding": "gzip"}), 415)
    answer = await client.post("/v1/messages/orders", content=b"x", headers={"content-encoding": "identity"})
    assert answer.status_code == 202


async def test_an_impossible_header_is_a_422_that_names_it(client: httpx.AsyncClient) -> None:
    for name, value in (("bus-message-id", "x"), ("bus-deliver-at", "soon"), ("bus-sent-at", "x")):
        assert problem(await client.post("/v1/messages/orders", headers={name: value}), 422)["field"] == name
    late = new_id(1)
    assert (
        problem(await client.post("/v1/messages/orders", headers={"bus-message-id": late}), 422)["field"] == "id_time"
    )


async def test_another_body_under_one_key_is_a_409(client: httpx.AsyncClient) -> None:
    headers = {"idempotency-key": "once"}
    assert (await client.post("/v1/messages/orders", content=b"1", headers=headers)).status_code == 202
    problem(await client.post("/v1/messages/orders", content=b"2", headers=headers), 409)


@pytest.mark.parametrize(
    ("error", "status", "wait"),
    [(SpoolFull("full"), 507, None), (SpoolFailed("EIO"), 503, "1"), (SpoolClosed("closed"), 503, "1")],
)
@pytest.mark.parametrize("path", ["/v1/messages", "/v1/messages/orders"])
async def test_a_disk_that_refuses_is_told_and_nothing_is_remembered(
    world: World, client: httpx.AsyncClient, path: str, error: Exception, status: int, wait: str | None
) -> None:
    known = new_id(world.clock.now())
    headers = NDJSON if path == "/v1/messages" else {"bus-message-id": known}
    content = lines({"destination": "orders", "body": 1, "id": known}) if path == "/v1/messages" else b"1"
    world.spool.refuse = once(error)
    answer = await client.post(path, content=content, headers=headers)
    problem(answer, status)
    assert answer.headers.get("retry-after") == wait
    answer = await client.post(path, content=content, headers=headers)
    assert answer.json().get("results", [answer.json()])[0]["id"] == known
    assert b"duplicate" not in answer.content or answer.json().get("duplicate") is False
    assert len(world.stored) == 1


async def test_a_batch_is_answered_in_order_with_refusals_in_the_middle(
    world: World, client: httpx.AsyncClient
) -> None:
    known, late = new_id(world.clock.now()), new_id(1)
    content = lines(
        {"destination": "orders", "body": {"a": 1}, "id": known},
        b"{broken",
        {"destination": "orders", "body": 1, "deliver_at": "x"},
        b"  ",
        {"destination": "nowhere", "body": 1},
        {"destination": "orders", "body": 1, "id": late},
        {"destination": "orders", "body_base64": base64.b64encode(b"\xff").decode()},
        {"destination": "orders", "body": {"a": 1}, "id": known},
        {"destination": "orders", "body": 2, "id": known},
        b"\xff\xfe",
    )
    answer = await client.post("/v1/messages", content=content + b"\n\n", headers=NDJSON)
    assert answer.status_code == 200
    results = answer.json()["results"]
    assert [result["status"] for result in results] == [
        *("accepted", "rejected", "rejected", "rejected", "rejected", "accepted", "duplicate", "rejected", "rejected")
    ]
    assert results[0] == {"id": known, "status": "accepted"}
    assert results[6] == {"id": known, "status": "duplicate"}
    rejected = [result for result in results if result["status"] == "rejected"]
    assert [result["id"] for result in rejected] == [None, None, None, late, known, None]
    assert [result["error"]["status"] for result in results if "error" in result] == [422, 422, 404, 422, 409, 422]
    assert [one.body for one in world.stored] == [b'{"a": 1}', b"\xff"]


async def test_a_batch_that_is_all_broken_is_still_answered(client: httpx.AsyncClient) -> None:
    answer = await client.post("/v1/messages/", content=b"x\ny", headers=NDJSON)
    assert [result["id"] for result in answer.json()["results"]] == [None, None]
    answer = await client.post("/v1/messages", content=b"", headers=NDJSON)
    assert answer.json() == {"results": []}


async def test_a_batch_has_so_many_lines_and_bytes(world: World, client: httpx.AsyncClient) -> None:
    one = lines({"destination": "orders", "body": 1})
    answer = await client.post("/v1/messages", content=b"\n".join([one] * BATCH_LINES), headers=NDJSON)
    assert len(answer.json()["results"]) == BATCH_LINES
    problem(await client.post("/v1/messages", content=b"\n".join([one] * (BATCH_LINES + 1)), headers=NDJSON), 413)
    problem(await client.post("/v1/messages", content=b" " * (BATCH_BYTES + 1), headers=NDJSON), 413)
    assert len(world.stored) == BATCH_LINES


async def test_a_line_over_its_destinations_limit_is_rejected_alone(world: World, client: httpx.AsyncClient) -> None:
    await world.destination("small", max_bytes=10)
    content = lines({"destination": "small", "body": "x" * 20}, {"destination": "small", "body": "x"})
    results = (await client.post("/v1/messages", content=content, headers=NDJSON)).json()["results"]
    assert [result["status"] for result in results] == ["rejected", "accepted"]
    assert results[0]["error"]["status"] == 413


@pytest.mark.parametrize("content_type", ["application/json", "", "text/plain", "application/x-ndjsonx"])
async def test_a_batch_of_another_type_is_a_415(client: httpx.AsyncClient, content_type: str) -> None:
    problem(await client.post("/v1/messages", content=b"{}", headers={"content-type": content_type}), 415)


async def test_a_type_with_parameters_is_the_same_type(client: httpx.AsyncClient) -> None:
    headers = {"content-type": "Application/X-NDJSON; charset=utf-8"}
    assert (await client.post("/v1/messages", content=b"", headers=headers)).status_code == 200


async def test_keys_decide_who_may_send_where(world: World, client: httpx.AsyncClient) -> None:
    await world.destination("mails")
    key = await world.keyring.create_key(roles=("producer",), destinations=("orders",))
    viewer = await world.keyring.create_key(roles=("viewer",))
    refused = await client.post("/v1/messages/orders")
    problem(refused, 401)
    assert refused.headers["www-authenticate"] == "Bearer"
    problem(await client.post("/v1/messages", headers=NDJSON), 401)
    problem(await client.post("/v1/messages/orders", headers={"authorization": "Bearer nonsense"}), 401)
    problem(await client.post("/v1/messages/orders", headers={"authorization": f"Bearer {viewer}"}), 403)
    headers = {"authorization": f"Bearer {key}"}
    assert (await client.post("/v1/messages/orders", headers=headers)).status_code == 202
    problem(await client.post("/v1/messages/mails", headers=headers), 403)
    content = lines({"destination": "mails", "body": 1}, {"destination": "orders", "body": 1})
    results = (await client.post("/v1/messages", content=content, headers={**NDJSON, **headers})).json()["results"]
    assert [result["status"] for result in results] == ["rejected", "accepted"]
    assert results[0]["error"]["status"] == 403
    assert [one.destination for one in world.stored] == ["orders", "orders"]


async def test_an_open_bus_refuses_a_foreign_host(client: httpx.AsyncClient) -> None:
    problem(await client.post("/v1/messages/orders", headers={"host": "evil.example"}), 403)


async def test_what_is_refused_for_good_is_told_by_source_for_a_day(world: World, client: httpx.AsyncClient) -> None:
    await world.destination("others")
    key = await world.keyring.create_key(roles=("producer",), destinations=("orders", "nowhere"))
    stale = {"destination": "orders", "source": "shop", "id": new_id(0), "body": 1}
    refused = {"destination": "nowhere", "source": "shop", "body": 1}
    forbidden = {"destination": "others", "source": "shop", "body": 1}
    batch = lines({"destination": "orders", "source": "shop", "body": 1}, stale, refused, refused, forbidden, b"{")
    headers = {**NDJSON, "authorization": f"Bearer {key}"}
    await client.post("/v1/messages", content=batch, headers=headers)
    (told,) = world.rejections.told()
    assert (told.source, told.destination, told.status, told.count) == ("shop", "nowhere", 404, 2)
    assert told.since == world.clock.now()
    await world.clock.advance(DAY // 1000 + 1)
    assert world.rejections.told() == []
    for number in range(150):
        await client.post("/v1/messages", content=lines(refused | {"source": f"s{number}"}), headers=headers)
    assert [told.source for told in world.rejections.told()] == [f"s{number}" for number in range(50, 150)]
