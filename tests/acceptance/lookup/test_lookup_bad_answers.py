"""Clusters that answer rubbish, or that are the proxy itself: the others are answered for, and it stays up."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import pytest

from tests.harness.http import PLAIN
from tests.harness.lookup_proxy import LookupProxy, routes
from tests.harness.waiting import wait_until

GOOD = json.dumps({"channels": ["c"], "producers": [{"broadcast_address": "10.0.0.1", "tcp_port": 4150}]}).encode()
GARBAGE = {
    "half a JSON": (200, GOOD[:40]),
    "a page": (200, b"<html>It works!</html>"),
    "no text": (200, b"\xff\xfe\x00"),
    "another shape": (200, b'{"producers": [1, 2]}'),
    "a list": (200, b"[]"),
    "deep": (200, b"[" * 100_000),
    "too much": (200, b" " * (17 * 2**20)),
    "a failure": (500, b"panic"),
    "nothing": (200, b""),
    "a refusal without words": (404, b"nginx"),
    "elsewhere": (302, b""),
}


class Server(ThreadingHTTPServer):
    """Answers every question alike, as it is told."""

    daemon_threads = True
    answer: tuple[int, bytes] = (200, GOOD)
    delay = 0.0

    @property
    def place(self) -> str:
        return f"127.0.0.1:{self.server_address[1]}"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

    def do_GET(self) -> None:
        time.sleep(self.server.delay)
        status, content = self.server.answer
        if self.path == "/listlookup":
            status, content = 404, b'{"message": "NOT_FOUND"}'
        elif self.path == "/ping":
            status, content = 200, b"OK"
        self.send_response(status)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def serving() -> Iterator[Server]:
    with Server(("127.0.0.1", 0), _Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture(scope="module")
def servers() -> Iterator[tuple[Server, Server]]:
    with serving() as one, serving() as other:
        yield one, other


@pytest.fixture(scope="module")
def proxy(servers: tuple[Server, Server], tmp_path_factory: pytest.TempPathFactory) -> Iterator[LookupProxy]:
    told = {"odd": [servers[0].place], "good": [servers[1].place]}
    topics = routes(default={"#C": ["odd", "good"], "#P": "odd"})
    with LookupProxy(tmp_path_factory.mktemp("proxy"), told, topics) as made:
        yield made


@pytest.mark.parametrize("kind", GARBAGE)
def test_a_cluster_that_answers_rubbish_is_left_out(
    servers: tuple[Server, Server], proxy: LookupProxy, kind: str
) -> None:
    odd, _ = servers
    odd.answer = (200, GOOD)
    topic = f"t-{list(GARBAGE).index(kind)}"
    wait_until(
        lambda: "bus-lookup-missing" not in proxy.get(f"/lookup?topic=well-{topic}").headers,
        within=30,
        what="the cluster is asked",
    )
    odd.answer = GARBAGE[kind]
    answer = proxy.get(f"/lookup?topic={topic}")
    assert answer.status_code == 200
    assert answer.json()["producers"] == json.loads(GOOD)["producers"]
    assert answer.headers["bus-lookup-missing"] == "odd"
    checks = httpx.get(f"{proxy.bus.url}/readyz", **PLAIN).json()["checks"]
    detail = next(check["detail"] for check in checks if check["name"] == "lookup")
    assert "cluster odd" in detail
    assert odd.place in detail
    assert "Traceback" not in proxy.bus.child.output()


def test_a_proxy_that_is_told_to_ask_itself_says_so_and_lives(tmp_path: Path) -> None:
    with serving() as good:
        topics = routes(default={"#C": ["itself", "good"], "#P": "itself"})
        proxy = LookupProxy(tmp_path, {"itself": ["127.0.0.1:1"], "good": [good.place]}, topics)
        proxy.clusters["itself"] = [proxy.address]
        proxy.write(topics)
        with proxy:
            answer = proxy.get("/lookup?topic=orders")
            assert answer.json()["producers"] == json.loads(GOOD)["producers"]
            assert answer.headers["bus-lookup-missing"] == "itself"
            checks = httpx.get(f"{proxy.bus.url}/readyz", **PLAIN).json()["checks"]
            detail = next(check["detail"] for check in checks if check["name"] == "lookup")
            assert "is asked by itself" in detail
            for path in ("/lookup?topic=x&access=w", "/debug?cluster=itself", "/nodes"):
                assert proxy.get(path).status_code in (200, 503)


def test_two_proxies_that_ask_each_other_end_it(tmp_path: Path) -> None:
    topics = routes(default={"#C": ["other"], "#P": "other"})
    one = LookupProxy(tmp_path / "one", {"other": ["127.0.0.1:1"]}, topics)
    other = LookupProxy(tmp_path / "other", {"other": [one.address]}, topics)
    one.clusters["other"] = [other.address]
    one.write(topics)
    with one, other:
        answers = [proxy.get("/lookup?topic=orders", within=5).status_code for proxy in (one, other, one, other)]
        assert set(answers) == {503}
        assert one.get("/healthz").status_code == other.get("/healthz").status_code == 200
