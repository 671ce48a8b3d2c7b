"""Invalid, slow and oversized HTTP gets a problem document, and costs others nothing."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import httpx
import pytest

from tests.harness.bus_process import BusProcess
from tests.harness.http import PLAIN
from tests.harness.raw_http import Answer, answers, asked, connected, read_all
from tests.harness.waiting import wait_until

DEADLINE = 1.0
HOST = b"host: 127.0.0.1\r\n"
CLOSE = b"connection: close\r\n"
SEND = b"POST /v1/messages/d HTTP/1.1\r\n" + HOST
HEALTH = b"GET /healthz HTTP/1.1\r\n" + HOST + b"\r\n"
LONG = 70_000


@pytest.fixture(scope="module")
def bus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BusProcess]:
    data: Path = tmp_path_factory.mktemp("http") / "data"
    with BusProcess(data, env={"BUS_RECEIVE_TIMEOUT": str(DEADLINE)}) as process:
        process.admin.destination("d")
        yield process
        assert process.admin.call("GET", "/healthz").status_code == 200
        assert "Traceback" not in process.child.log.read_text()


@pytest.mark.parametrize(
    "request_",
    [b"GARBAGE\r\n\r\n", SEND + b"transfer-encoding: chunked\r\n\r\n2\r\nabXX"],
    ids=["head", "body"],
)
def test_what_is_no_http_is_a_400(bus: BusProcess, request_: bytes) -> None:
    (answer,) = asked(bus, request_)
    answer.problem(400)
    assert answer.headers["connection"] == "close"


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (HEALTH[:-2] + HOST + b"\r\n", 400),
        (SEND + b"transfer-encoding: gzip, chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n", 501),
    ],
    ids=["hosts", "codings"],
)
def test_a_head_that_can_be_understood_in_two_ways_is_refused(bus: BusProcess, request_: bytes, status: int) -> None:
    (answer,) = asked(bus, request_)
    answer.problem(status)


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (HEALTH[:-2] + b"x: " + b"a" * LONG + b"\r\n\r\n", 431),
        (b"GET /" + b"a" * LONG, 414),
        (SEND + b"content-length: 2\r\nbus-key: " + b"k" * LONG + b"\r\n\r\n{}", 431),
    ],
    ids=["value", "unfinished target", "message"],
)
def test_a_head_over_64_kib_is_refused(bus: BusProcess, head: bytes, status: int) -> None:
    (answer,) = asked(bus, head)
    answer.problem(status)


def test_a_head_of_60_kib_is_served(bus: BusProcess) -> None:
    headers = {f"x-{number}": "y" * 990 for number in range(60)}
    assert bus.admin.call("GET", "/healthz", headers=headers).status_code == 200


@pytest.mark.parametrize(
    "part",
    [
        SEND + b"content-length: 10\r\n\r\nabc",
        SEND + b"content-length: 10\r\n\r\n",
        SEND + b"transfer-encoding: chunked\r\n\r\n3\r\nabc\r\n",
        SEND,
        b"P",
    ],
)
def test_a_request_that_does_not_arrive_is_a_408(bus: BusProcess, part: bytes) -> None:
    begun = time.monotonic()
    (answer,) = asked(bus, part)
    answer.problem(408)
    assert answer.headers["connection"] == "close"
    assert DEADLINE * 0.9 < time.monotonic() - begun < DEADLINE + 30


def test_a_second_request_that_does_not_arrive_is_a_408(bus: BusProcess) -> None:
    with connected(bus) as peer:
        peer.sendall(HEALTH)
        assert b"200 OK" in peer.recv(65_536)
        peer.sendall(SEND + b"content-length: 10\r\n\r\nabc")
        (answer,) = answers(read_all(peer))
    answer.problem(408)


@pytest.mark.parametrize("nothing", [b"", b"\r\n" * 3])
def test_a_connection_without_a_request_is_closed_without_a_word(bus: BusProcess, nothing: bytes) -> None:
    assert asked(bus, nothing) == []


def test_line_breaks_do_not_keep_a_connection(bus: BusProcess) -> None:
    begun = time.monotonic()
    with connected(bus) as peer:
        peer.settimeout(DEADLINE / 5)
        while time.monotonic() < begun + DEADLINE + 30:
            try:
                peer.sendall(b"\r\n")
                if not peer.recv(1):
                    break
            except TimeoutError:
                continue
            except OSError:
                break
    assert time.monotonic() - begun < DEADLINE + 29


def test_an_idle_connection_after_a_request_is_kept(bus: BusProcess) -> None:
    with connected(bus) as peer:
        for _ in range(2):
            peer.sendall(HEALTH)
            assert b"200 OK" in peer.recv(65_536)
            time.sleep(DEADLINE * 1.3)


def test_a_body_over_the_limit_is_answered_once(bus: BusProcess) -> None:
    chunk = b"10000\r\n" + b"x" * 65_536 + b"\r\n"
    with connected(bus) as peer:
        peer.sendall(SEND + b"transfer-encoding: chunked\r\n\r\n")
        with suppress(OSError):
            for _ in range(40):
                peer.sendall(chunk)
            peer.sendall(b"0\r\n\r\n" + HEALTH)
        (one,) = answers(peer.recv(65_536))
    one.problem(413)


def test_a_request_that_offers_an_upgrade_is_served(bus: BusProcess) -> None:
    offer = b"connection: upgrade, http2-settings\r\nupgrade: h2c\r\nhttp2-settings: AAMAAABkAAQAoAAAAAIAAAAA\r\n"
    with connected(bus) as peer:
        peer.sendall(SEND + offer + b"content-length: 2\r\n\r\n{}")
        (answer,) = answers(peer.recv(65_536))
    assert answer.status == 202
    message_id = json.loads(answer.content)["id"]
    path = f"/api/v1/messages/{message_id}"
    wait_until(lambda: bus.admin.call("GET", path).is_success, within=10, what="it is stored")
    assert bus.admin.body(message_id) == b"{}"


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/metrics"])
def test_what_is_read_only_says_so(bus: BusProcess, path: str) -> None:
    for method in ("POST", "PUT", "DELETE", "OPTIONS"):
        answer = bus.admin.call(method, path)
        assert Answer(answer.status_code, dict(answer.headers), answer.content).problem(405)
        assert re.split(r",\s*", answer.headers["allow"]) == ["GET", "HEAD"]
    head = bus.admin.call("HEAD", path)
    assert (head.status_code, head.content) == (200, b"")


@pytest.mark.parametrize("path", ["/metrics", "/readyz", "/api/v1/destinations", "/v1/messages/d", "/nowhere"])
def test_without_keys_a_foreign_host_is_refused(bus: BusProcess, path: str) -> None:
    method = "POST" if path.startswith("/v1") else "GET"
    answer = httpx.request(method, bus.url + path, headers={"host": "evil.example"}, **PLAIN)
    assert Answer(answer.status_code, dict(answer.headers), answer.content).problem(403)
    assert httpx.get(bus.url + "/healthz", headers={"host": "evil.example"}, **PLAIN).status_code == 200


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/v1/messages/orders"),
        ("POST", "/v1/messages"),
        ("POST", "/v1/events"),
        ("PUT", "/api/v1/destinations/orders"),
        ("POST", "/api/v1/resends"),
        ("POST", "/api/v1/alarm-trials"),
    ],
)
def test_without_keys_a_page_of_another_site_changes_nothing(bus: BusProcess, method: str, path: str) -> None:
    page = {"origin": "https://evil.example", "content-type": "text/plain"}  # as fetch() in mode no-cors sends it
    for headers in (page, page | {"sec-fetch-site": "cross-site"}):
        answer = httpx.request(method, bus.url + path, content=b"{}", headers=headers, **PLAIN)
        assert (answer.status_code, answer.json()["detail"]) == (403, "a page of another site may not do this")
    link = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}
    assert httpx.get(bus.url + "/admin/", headers=link, **PLAIN).status_code == 200
