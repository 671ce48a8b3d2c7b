"""Clusters that answer rubbish, or that are the proxy itself: the others are answered for, and it stays up."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import pytest

from tests.harness.http import PLAIN
from tests.harness.lookup_proxy import LookupProxy, routes

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
    """Answers every question alike."""

    daemon_threads = True
    answer: tuple[int, bytes]

    @property
    def place(self) -> str:
        return f"127.0.0.1:{self.server_address[1]}"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

    def do_GET(self) -> None:
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
def serving(status: int = 200, content: bytes = GOOD) -> Iterator[Server]:
    with Server(("127.0.0.1", 0), _Handler) as server:
        server.answer = (status, content)
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture(scope="module")
def proxy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LookupProxy]:
    """In front of a cluster for each kind of rubbish, each with a topic of its name, and of one that is well."""
    with ExitStack() as stack:
        servers = {kind: stack.enter_context(serving(*answer)) for kind, answer in GARBAGE.items()}
        good = stack.enter_context(serving())
        told = {kind: [server.place] for kind, server in servers.items()} | {"good": [good.place]}
        topics = [{name(kind): {"#C": [kind, "good"], "#P": kind}} for kind in GARBAGE]
        yield stack.enter_context(LookupProxy(tmp_path_factory.mktemp("proxy"), told, topics))


def name(kind: str) -> str:
    return kind.replace(" ", "-")


@pytest.mark.parametrize("kind", GARBAGE)
def test_a_cluster_that_answers_rubbish_is_left_out(proxy: LookupProxy, kind: str) -> None:
    answer = proxy.get(f"/lookup?topic={name(kind)}")
    assert answer.status_code == 200
    assert answer.json()["producers"] == json.loads(GOOD)["producers"]
    assert answer.headers["bus-lookup-missing"] == kind
    checks = httpx.get(f"{proxy.bus.url}/readyz", **PLAIN).json()["checks"]
    detail = next(check["detail"] for check in checks if check["name"] == "lookup")
    assert f"cluster {kind}: " in detail or "1 more" in detail  # ten are named
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
