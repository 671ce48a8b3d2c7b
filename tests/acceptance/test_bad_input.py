"""What is wrong with a request is said clearly, and costs nobody else a message."""

from __future__ import annotations

import json
import socket
from typing import BinaryIO

import httpx
import pytest

from tests.harness.bus_process import BusProcess
from tests.harness.subscribers import SubscriberProcess
from tests.harness.waiting import wait_until

NDJSON = {"content-type": "application/x-ndjson"}
BROKEN_LINES = [
    b'{"destination":"d","body":{"seq":',
    b"not json at all",
    b"[]",
    b'{"body":{"no":"destination"}}',
    b'{"destination":"d"}',
    b'{"destination":"d","body_base64":"*"}',
    b"\xff\xfe",
]


@pytest.fixture
def ready(bus: BusProcess, subscriber: SubscriberProcess) -> BusProcess:
    """Return a bus whose destination ``d`` has one subscription."""
    bus.admin.destination("d")
    bus.admin.subscription("d", "s", subscriber.url("/s"))
    return bus


def is_problem(answer: httpx.Response, status: int) -> bool:
    """Whether an answer is an RFC 9457 document of this status."""
    assert answer.status_code == status, f"{answer.status_code} {answer.text}"
    assert answer.headers["content-type"].startswith("application/problem+json")
    document = answer.json()
    assert document["status"] == status
    return bool(document.get("title") or document.get("detail"))


def good_line(seq: int) -> bytes:
    return b'{"destination":"d","body":{"seq":%d,"x":1}}' % seq


@pytest.mark.parametrize("broken", BROKEN_LINES)
def test_a_broken_line_costs_the_good_ones_nothing(
    ready: BusProcess, subscriber: SubscriberProcess, broken: bytes
) -> None:
    lines = [good_line(1), good_line(2), broken, good_line(3)]
    answer = ready.admin.call("POST", "/v1/messages", content=b"\n".join(lines) + b"\n", headers=NDJSON)
    assert answer.status_code == 200, answer.text
    results = answer.json()["results"]
    assert [result["status"] for result in results] == ["accepted", "accepted", "rejected", "accepted"]
    assert results[2]["error"]
    assert all(results[place]["id"] for place in (0, 1, 3))
    wait_until(lambda: len(subscriber.calls("/s")) >= 3, within=60, what="the good messages")
    assert sorted(call.seq or 0 for call in subscriber.calls("/s")) == [1, 2, 3]


@pytest.mark.parametrize("broken", BROKEN_LINES[:3])
def test_a_line_that_is_no_message_has_no_id(ready: BusProcess, broken: bytes) -> None:
    answer = ready.admin.call("POST", "/v1/messages", content=good_line(1) + b"\n" + broken, headers=NDJSON)
    assert answer.json()["results"][1]["id"] is None


def test_an_unknown_destination_in_a_batch_is_rejected_alone(ready: BusProcess) -> None:
    content = good_line(1) + b'\n{"destination":"nobody","body":1}\n' + good_line(2)
    results = ready.admin.call("POST", "/v1/messages", content=content, headers=NDJSON).json()["results"]
    assert [result["status"] for result in results] == ["accepted", "rejected", "accepted"]
    assert "nobody" in str(results[1]["error"])


def test_a_body_over_the_limit_is_413(ready: BusProcess) -> None:
    assert is_problem(ready.admin.send("d", b"x" * (1_048_576 + 1)), 413)
    assert ready.admin.send("d", b"x" * 1_048_576).status_code == 202


def test_a_body_that_goes_on_after_its_refusal_is_not_taken_for_a_head(ready: BusProcess) -> None:
    head = b"POST /v1/messages/d HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: %d\r\n\r\n"
    with socket.create_connection(("127.0.0.1", ready.port), timeout=10) as connection:
        answers = connection.makefile("rb")
        connection.sendall(head % 1_500_000)
        assert b" 413 " in read_answer(answers)
        connection.sendall(b"x" * 1_500_000)
        connection.sendall(head % 2 + b"{}")
        assert b" 202 " in read_answer(answers)


def read_answer(answers: BinaryIO) -> bytes:
    """Read one answer and return its first line."""
    first, length = answers.readline(), 0
    while line := answers.readline().strip():
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            length = int(value)
    answers.read(length)
    return first


def test_a_destination_has_its_own_limit(ready: BusProcess) -> None:
    ready.admin.destination("small", max_bytes=10)
    assert is_problem(ready.admin.send("small", b"x" * 11), 413)
    assert ready.admin.send("small", b"x" * 10).status_code == 202


def test_too_many_lines_are_413(ready: BusProcess) -> None:
    content = b"\n".join(good_line(seq) for seq in range(1001))
    assert is_problem(ready.admin.call("POST", "/v1/messages", content=content, headers=NDJSON), 413)


def test_an_unknown_destination_is_404(ready: BusProcess) -> None:
    answer = ready.admin.send("nobody", b"{}")
    assert is_problem(answer, 404)
    assert "nobody" in answer.text


@pytest.mark.parametrize("kind", ["text/plain", "application/json", "multipart/form-data; boundary=x"])
def test_a_batch_of_another_type_is_415(ready: BusProcess, kind: str) -> None:
    answer = ready.admin.call("POST", "/v1/messages", content=good_line(1), headers={"content-type": kind})
    assert is_problem(answer, 415)


@pytest.mark.parametrize(
    "headers",
    [
        {"Bus-Message-Id": "not-a-uuid"},
        {"Bus-Message-Id": "8c5b0d3e-3b1c-4b8e-9a52-0f5e0b6f5a11"},
        {"Bus-Deliver-At": "tomorrow"},
        {"Bus-Sent-At": "yesterday"},
    ],
)
def test_a_header_that_makes_no_sense_is_refused(ready: BusProcess, headers: dict[str, str]) -> None:
    answer = ready.admin.call("POST", "/v1/messages/d", content=b"{}", headers=headers)
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
def test_a_bad_or_denied_url_is_422(ready: BusProcess, url: str) -> None:
    answer = ready.admin.call("PUT", "/api/v1/destinations/d/subscriptions/bad", json={"name": "bad", "url": url})
    assert is_problem(answer, 422)
    assert "url" in answer.text
    listed = ready.admin.call("GET", "/api/v1/destinations/d/subscriptions").json()
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
        ("batch", 10),
        ("headers", {"X": "a\r\nb: c"}),
    ],
)
def test_an_impossible_field_is_422_and_named(
    ready: BusProcess, subscriber: SubscriberProcess, field: str, value: object
) -> None:
    document = {"name": "s", "url": subscriber.url("/s"), field: value}
    answer = ready.admin.call("PUT", "/api/v1/destinations/d/subscriptions/s", json=document)
    assert is_problem(answer, 422)
    assert field in answer.text


def test_orders_that_are_not_built_are_422(ready: BusProcess) -> None:
    answer = ready.admin.call("PUT", "/api/v1/destinations/o", json={"code": "o", "ordering": "key"})
    assert is_problem(answer, 422)
    assert "ordering" in answer.text


def test_malformed_json_for_the_admin_is_400(ready: BusProcess) -> None:
    answer = ready.admin.call(
        "PUT", "/api/v1/destinations/x", content=b'{"code":', headers={"content-type": "application/json"}
    )
    assert is_problem(answer, 400)


def test_a_filter_that_fails_on_a_message_delivers(ready: BusProcess, subscriber: SubscriberProcess) -> None:
    ready.admin.subscription("d", "s", subscriber.url("/s"), filter="length(body.missing) > `1`")
    ready.admin.send("d", json.dumps({"seq": 1, "x": 1}).encode()).raise_for_status()
    wait_until(lambda: subscriber.calls("/s"), within=60, what="the message")
