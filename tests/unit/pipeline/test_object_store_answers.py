"""Responses that a sound S3 server does not give, or seldom, and their effect on a lake."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from bus.errors import ConfigurationError
from pipeline.lake.storage import Storage

LIST = b"""<?xml version="1.0" encoding="UTF-8"?>
<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Name>bucket</Name><Prefix></Prefix>
<KeyCount>0</KeyCount><MaxKeys>1000</MaxKeys><IsTruncated>false</IsTruncated></ListBucketResult>"""


class Store(ThreadingHTTPServer):
    """Has a bucket without objects, and answers puts with the codes that it is given, then well."""

    puts: list[int]
    asked: int = 0


class Handler(BaseHTTPRequestHandler):
    server: Store

    def do_HEAD(self) -> None:
        self._answer(200 if self.path == "/bucket" else 404)

    def do_GET(self) -> None:
        self._answer(200, LIST)

    def do_PUT(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        self.server.asked += 1
        self._answer(self.server.puts.pop(0) if self.server.puts else 200)

    def _answer(self, code: int, body: bytes = b"") -> None:
        self.send_response(code)
        self.send_header("etag", '"1"')
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    with Store(("127.0.0.1", 0), Handler) as made:
        made.puts = []
        for name, value in {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{made.server_port}",
            "AWS_ACCESS_KEY_ID": "key",
            "AWS_SECRET_ACCESS_KEY": "secret",
        }.items():
            monkeypatch.setenv(name, value)
        thread = threading.Thread(target=made.serve_forever, args=(0.05,))
        thread.start()
        yield made
        made.shutdown()
        thread.join(10)


def test_one_that_ignores_conditions_is_refused(store: Store) -> None:
    with pytest.raises(ConfigurationError, match="ignores conditions"):
        Storage("s3a://bucket/lake").check()


def test_whoever_may_only_read_is_let_through(store: Store) -> None:
    store.puts = [403]
    Storage("s3a://bucket/lake").check()
    assert store.asked == 1


def test_a_name_that_is_just_being_removed_is_put_again(store: Store) -> None:
    store.puts = [409, 409]
    assert Storage("s3a://bucket/lake").create("_manifests/line/a.json", b"{}")
    assert store.asked == 3


def test_what_was_refused_is_told_in_a_line(store: Store) -> None:
    store.puts = [403]
    with pytest.raises(PermissionError) as refused:
        Storage("s3a://bucket/lake").write("_manifests/line/a.json", b"{}")
    assert "\n" not in str(refused.value)
    assert "Debug" not in str(refused.value)
