"""Errors of a request are named clearly, and cost others no message."""

from __future__ import annotations

import socket
from typing import NamedTuple

import httpx
import pytest

from tests.harness.bus_process import BusProcess
from tests.harness.subscribers import SubscriberProcess
from tests.harness.waiting import wait_until

BROKEN_LINES = [
    b'{"destination":"d","body":{"seq":',
    b"not json at all",
    b"[]",
    b'{"body":{"no":"destination"}}',
    b'{"destination":"d"}',
    b'{"destination":"d","body_base64":"*"}',
    b"\xff\xfe",
]


class Ready(NamedTuple):
    """A bus that others use as well, and a destination of one's own with the subscription ``s`` at ``path``."""

    bus: BusProcess
    subscriber: SubscriberProcess
    code: str

    @property
    def path(self) -> str:
        return f"/{self.code}"

    @property
    def url(self) -> str:
        return self.subscriber.url(self.path)

    def line(self, seq: int) -> bytes:
        return b'{"destination":"%s","body":{"seq":%d,"x":1}}' % (self.code.encode(), seq)

    def send(self, body: bytes) -> httpx.Response:
        return self.bus.admin.send(self.code, body)

    def batch(self, *lines: bytes, kind: str = "application/x-ndjson") -> httpx.Response:
        headers = {"content-type": kind}
        return self.bus.admin.call("POST", "/v1/messages", content=b"\n".join(lines), headers=headers)

    def put(self, name: str, **fields: object) -> httpx.Response:
        document = {"name": name, "url": self.url, **fields}
        path = f"/api/v1/destinations/{self.code}/subscriptions/{name}"
        return self.bus.admin.call("PUT", path, json=document)


@pytest.fixture
def ready(shared_bus: BusProcess, shared_subscriber: SubscriberProcess, code: str) -> Ready:
    found = Ready(shared_bus, shared_subscriber, code)
    shared_bus.admin.destination(code)
    shared_bus.admin.subscription(code, "s", found.url)
    return found


def is_problem(answer: httpx.Response, status: int) -> bool:
    """Whether an answer is an RFC 9457 document of this status."""
    assert answer.status_code == status, f"{answer.status_code} {answer.text}"
    assert answer.headers["content-type"].startswith("application/problem+json")
    document = answer.json()
    assert document["status"] == status
    return bool(document.get("title") or document.get("detail"))


@pytest.mark.parametrize("broken", BROKEN_LINES)
def test_a_broken_line_costs_the_good_ones_nothing(ready: Ready, broken: bytes) -> None:
    answer = ready.batch(
        ready.line(1), ready.line(2), broken.replace(b'"d"', f'"{ready.code}"'.encode()), ready.line(3)
    )
    assert answer.status_code == 200, answer.text
    results = answer.json()["results"]
    assert [result["status"] for result in results] == ["accepted", "accepted", "rejected", "accepted"]
    assert results[2]["error"]
    assert all(results[place]["id"] for place in (0, 1, 3))
    calls = ready.subscriber.calls
    wait_until(lambda: len(calls(ready.path)) >= 3, within=60, what="the good messages")
    assert sorted(call.seq or 0 for call in calls(ready.path)) == [1, 2, 3]


@pytest.mark.parametrize("broken", BROKEN_LINES[:3])
def test_a_line_that_is_no_message_has_no_id(ready: Ready, broken: bytes) -> None:
    assert ready.batch(ready.line(1), broken).json()["results"][1]["id"] is None


def test_an_unknown_destination_in_a_batch_is_rejected_alone(ready: Ready) -> None:
    results = ready.batch(ready.line(1), b'{"destination":"nobody","body":1}', ready.line(2)).json()["results"]
    assert [result["status"] for result in results] == ["accepted", "rejected", "accepted"]
    assert "nobody" in str(results[1]["error"])


def test_a_body_over_the_limit_is_413(ready: Ready) -> None:
    assert is_problem(ready.send(b"x" * (1_048_576 + 1)), 413)
    assert ready.send(b"x" * 1_048_576).status_code == 202


def test_what_goes_on_after_the_refusal_of_a_long_body_is_not_taken_for_a_head(ready: Ready) -> None:
    head = f"POST /v1/messages/{ready.code} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: ".encode()
    with socket.create_connection(("127.0.0.1", ready.bus.port), timeout=10) as connection:
        connection.sendall(head + b"1500000\r\n\r\n" + (head + b"2\r\n\r\n{}") * 100)
        text = connection.makefile("rb").read()
    assert b" 413 " in text.splitlines()[0]
    assert b"connection: close" in text
    assert text.count(b"HTTP/1.1") == 1


def test_a_destination_has_its_own_limit(ready: Ready) -> None:
    ready.bus.admin.destination(ready.code, max_bytes=10)
    assert is_problem(ready.send(b"x" * 11), 413)
    assert ready.send(b"x" * 10).status_code == 202


def test_too_many_lines_are_413(ready: Ready) -> None:
    assert is_problem(ready.batch(*map(ready.line, range(1001))), 413)


def test_an_unknown_destination_is_404(ready: Ready) -> None:
    answer = ready.bus.admin.send("nobody", b"{}")
    assert is_problem(answer, 404)
    assert "nobody" in answer.text


@pytest.mark.parametrize("kind", ["text/plain", "application/json", "multipart/form-data; boundary=x"])
def test_a_batch_of_another_type_is_415(ready: Ready, kind: str) -> None:
    assert is_problem(ready.batch(ready.line(1), kind=kind), 415)


@pytest.mark.parametrize(
    "headers",
    [
        {"Bus-Message-Id": "not-a-uuid"},
        {"Bus-Message-Id": "8c5b0d3e-3b1c-4b8e-9a52-0f5e0b6f5a11"},
        {"Bus-Deliver-At": "tomorrow"},
        {"Bus-Sent-At": "yesterday"},
    ],
)
def test_a_header_that_makes_no_sense_is_refused(ready: Ready, headers: dict[str, str]) -> None:
    answer = ready.bus.admin.call("POST", f"/v1/messages/{ready.code}", content=b"{}", headers=headers)
    assert answer.status_code in {400, 422}, answer.text
    (name,) = headers
    assert name.lower().removeprefix("bus-").replace("-", "_") in answer.text.lower().replace("-", "_")


@pytest.mark.parametrize(
    "url",
    [
        "http://user:secret@127.0.0.1:9000/hook",
        "ftp://127.0.0.1/hook",
        "file:///etc/passwd",
        "javascript:alert(1)",
        "not a url",
        "http://",
        "",
        "http://127.0.0.1:99999/",
        "http://169.254.169.254/latest/meta-data",
        "http://[::ffff:169.254.169.254]/",
        "http://10.0.0.1/hook",
        "http://192.168.1.1/hook",
        "http://[fe80::1]/hook",
        "http://0.0.0.0/hook",
        "http://2852039166/latest/meta-data",
    ],
)
def test_a_bad_or_denied_url_is_422(ready: Ready, url: str) -> None:
    answer = ready.put("bad", url=url)
    assert is_problem(answer, 422)
    assert "url" in answer.text
    listed = ready.bus.admin.call("GET", f"/api/v1/destinations/{ready.code}/subscriptions").json()
    assert [item["name"] for item in listed["items"]] == ["s"]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("colour", "blue"),
        ("max_concurrency", 0),
        ("timeout_seconds", -1),
        ("retry", ["soon"]),
        ("retry", []),
        ("filter", "body.["),
        ("secret", "not-a-secret"),
        ("batch", 1000),
        ("headers", {"X": "a\r\nb: c"}),
    ],
)
def test_an_impossible_field_is_422_and_named(ready: Ready, field: str, value: object) -> None:
    answer = ready.put("s", **{field: value})
    assert is_problem(answer, 422)
    assert field in answer.text


def test_orders_that_are_not_built_are_422(ready: Ready) -> None:
    answer = ready.bus.admin.call("PUT", "/api/v1/destinations/o", json={"code": "o", "ordering": "strict"})
    assert is_problem(answer, 422)
    assert "ordering" in answer.text


def test_malformed_json_for_the_admin_is_400(ready: Ready) -> None:
    answer = ready.bus.admin.call(
        "PUT", "/api/v1/destinations/x", content=b'{"code":', headers={"content-type": "application/json"}
    )
    assert is_problem(answer, 400)


def test_a_filter_that_fails_on_a_message_delivers(ready: Ready) -> None:
    ready.put("s", filter="length(body.missing) > `1`").raise_for_status()
    ready.send(b'{"seq": 1, "x": 1}').raise_for_status()
    wait_until(lambda: ready.subscriber.calls(ready.path), within=60, what="the message")
