"""A person has one message sent to a subscriber, and sees what was sent and answered."""

from __future__ import annotations

import base64
from typing import Any

import httpx
import pytest

from bus.domain.message import Message
from bus.ports.poster import Phases
from bus.ports.sampling import SampleResult
from tests.unit.admin.admin_world import BILLING, World, problem, subscribed

PATH = f"{BILLING}/sample"
ANSWERED = SampleResult(
    url="http://127.0.0.1:9000/hook",
    headers=[("host", "127.0.0.1:9000"), ("webhook-signature", "v1,abc"), ("bus-sample", "true")],
    status=201,
    duration=12.3456,
    phases=Phases(None, 1.0, None, 0.5, 2.0, 0.25),
    answer_headers=[("content-type", "text/plain"), ("x-a", "1"), ("x-a", "2")],
    answer=b"thanks",
    answer_bytes=6,
    node="node-1",
)


class Dispatcher:
    """The dispatcher of this process, as far as samples go."""

    def __init__(self, answer: SampleResult = ANSWERED) -> None:
        self.answer = answer
        self.sent: list[tuple[Message, str]] = []

    async def sample(self, message: Message, subscription: str) -> SampleResult:
        self.sent.append((message, subscription))
        return self.answer


@pytest.fixture
async def world() -> World:
    world = await subscribed()
    world.offer(sampling=Dispatcher())
    return world


def sent(world: World) -> list[tuple[Message, str]]:
    assert isinstance(world.introspection.offers.sampling, Dispatcher)
    return world.introspection.offers.sampling.sent


async def test_the_request_and_the_answer_are_shown(world: World, client: httpx.AsyncClient) -> None:
    answer = await client.post(PATH, json={"body": {"order": 42}, "headers": {"x-tenant": "t"}})
    assert answer.status_code == 200, answer.text
    ((message, name),) = sent(world)
    assert (message.body, message.content_type, name) == (b'{"order":42}', "application/json", "billing")
    assert message.headers == {"x-tenant": "t"}
    assert answer.json() == {
        "id": message.id,
        "node": "node-1",
        "request": {
            "method": "POST",
            "url": "http://127.0.0.1:9000/hook",
            "headers": [["host", "127.0.0.1:9000"], ["webhook-signature", "v1,abc"], ["bus-sample", "true"]],
            "body": '{"order":42}',
            "body_base64": base64.b64encode(b'{"order":42}').decode(),
            "bytes": 12,
            "truncated": False,
        },
        "response": {
            "status": 201,
            "headers": [["content-type", "text/plain"], ["x-a", "1"], ["x-a", "2"]],
            "body": "thanks",
            "body_base64": base64.b64encode(b"thanks").decode(),
            "bytes": 6,
            "truncated": False,
        },
        "delivered": True,
        "error": None,
        "failure": None,
        "duration_ms": 12.346,
        "phases": {"connect": 1.0, "send": 0.5, "first_byte": 2.0, "receive": 0.25},
    }
    assert await world.store.trace(message.id) is None


@pytest.mark.parametrize(
    ("asked", "body", "content_type"),
    [
        ({"body": None}, b"null", "application/json"),
        ({"body": "text"}, b'"text"', "application/json"),
        ({"body": [1, 2.5]}, b"[1,2.5]", "application/json"),
        ({"body_base64": "AP8="}, b"\x00\xff", "application/octet-stream"),
        ({"body_base64": "", "content_type": "text/plain"}, b"", "text/plain"),
    ],
)
async def test_any_body_is_sent(world: World, client: httpx.AsyncClient, asked: Any, body: bytes, content_type: str):
    assert (await client.post(PATH, json=asked)).status_code == 200
    ((message, _),) = sent(world)
    assert (message.body, message.content_type) == (body, content_type)


async def test_what_is_not_text_or_cut_is_said(world: World, client: httpx.AsyncClient) -> None:
    world.offer(sampling=Dispatcher(SampleResult(status=500, answer=b"\xff\x00", answer_bytes=9000)))
    found = (await client.post(PATH, json={"body": 1})).json()
    assert found["response"]["body"] is None
    assert base64.b64decode(found["response"]["body_base64"]) == b"\xff\x00"
    assert (found["response"]["bytes"], found["response"]["truncated"]) == (9000, True)
    assert found["delivered"] is False


async def test_without_an_answer_the_reason_is_shown(world: World, client: httpx.AsyncClient) -> None:
    world.offer(sampling=Dispatcher(SampleResult(failure="refused", error="nobody listens")))
    found = (await client.post(PATH, json={"body": 1})).json()
    assert (found["response"], found["failure"], found["error"]) == (None, "refused", "nobody listens")
    assert found["delivered"] is False


@pytest.mark.parametrize(
    ("asked", "field"),
    [
        ({}, "body"),
        ({"body": 1, "body_base64": "AA=="}, "body_base64"),
        ({"body_base64": "?"}, "body_base64"),
        ({"body_base64": "ü"}, "body_base64"),
        ({"body": 1, "headers": {"host": "evil"}}, "headers"),
        ({"body": 1, "headers": {"bus-sample": "false"}}, "headers"),
        ({"body": 1, "headers": {"x": "a\r\nb"}}, "headers"),
        ({"body": 1, "content_type": "a\nb"}, "content_type"),
        ({"body": 1, "content_type": ""}, "content_type"),
        ({"body": 1, "nonsense": 1}, "nonsense"),
    ],
)
async def test_what_cannot_be_sent_is_a_422_and_nothing_is_sent(
    world: World, client: httpx.AsyncClient, asked: Any, field: str
) -> None:
    problem(await client.post(PATH, json=asked), 422, field)
    assert sent(world) == []


async def test_half_a_character_cannot_be_sent(world: World, client: httpx.AsyncClient) -> None:
    headers = {"content-type": "application/json"}
    problem(await client.post(PATH, content=b'{"body": "\\ud800"}', headers=headers), 422, "body")
    assert sent(world) == []


async def test_a_body_over_the_destinations_limit_is_a_413(world: World, client: httpx.AsyncClient) -> None:
    await client.patch("/destinations/orders", json={"max_bytes": 10})
    problem(await client.post(PATH, json={"body": "x" * 9}), 413)
    assert (await client.post(PATH, json={"body": "x" * 8})).status_code == 200


async def test_nobody_to_send_it_is_a_503(world: World, client: httpx.AsyncClient) -> None:
    world.offer(sampling=Dispatcher(SampleResult(refused="no permit became free")))
    answer = await client.post(PATH, json={"body": 1})
    document = problem(answer, 503)
    assert document["detail"] == "no permit became free; nothing was sent to the subscriber"
    assert answer.headers["retry-after"]
    world.context.members._me = world.context.members.me.__class__(
        owner="owner-1", node="n", url="u", roles=("admin",), version="1", started_at=0
    )
    assert "no dispatcher is alive" in problem(await client.post(PATH, json={"body": 1}), 503)["detail"]


async def test_what_is_not_there_is_a_404(client: httpx.AsyncClient) -> None:
    for path in ("/destinations/orders/subscriptions/none/sample", "/destinations/none/subscriptions/x/sample"):
        problem(await client.post(path, json={"body": 1}), 404)


async def test_it_is_in_the_audit_log_without_its_body(world: World, client: httpx.AsyncClient) -> None:
    await client.post(PATH, json={"body": "private", "headers": {"x": "hidden"}})
    await client.post(PATH, json={"body": "private", "nonsense": "hidden"})
    audit = await client.get("/audit", params={"what": PATH})
    refused, done = audit.json()["items"]
    ((message, _),) = sent(world)
    assert {name: change["after"] for name, change in done["changes"].items()} == {
        "id": message.id,
        "bytes": 9,
        "content_type": "application/json",
    }
    assert (done["outcome"], refused["outcome"]) == ("done", "refused")
    assert "private" not in audit.text
    assert "hidden" not in audit.text
