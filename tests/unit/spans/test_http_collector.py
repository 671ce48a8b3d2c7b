"""OTLP over HTTP: what an answer means for the spans, and which settings are no collector."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from bus.backups.settings_file import settings_file
from bus.bootstrap.opening import check_settings
from bus.errors import ConfigurationError
from bus.settings import Settings
from bus.spans.collector import HttpCollector, parse_headers

BODY = b"\x0a\x00"


class Server:
    """Answers each request with a status, or never."""

    def __init__(self, status: int | None, body: bytes = b"") -> None:
        self._status = status
        self._body = body
        self.requests: list[bytes] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while head := await reader.readuntil(b"\r\n\r\n"):
                self.requests.append(head + await reader.readexactly(len(BODY)))
                if self._status is None:
                    continue
                head = b"HTTP/1.1 %d x\r\ncontent-length: %d\r\n\r\n" % (self._status, len(self._body))
                writer.write(head + self._body)
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()


@asynccontextmanager
async def collecting(server: Server, within: float = 10.0) -> AsyncIterator[HttpCollector]:
    before = asyncio.all_tasks()
    async with await asyncio.start_server(server.serve, "127.0.0.1", 0) as listening:
        port = listening.sockets[0].getsockname()[1]
        collector = HttpCollector(f"http://127.0.0.1:{port}/", {"api-key": "k"}, within=within)
        try:
            yield collector
        finally:
            await collector.close()
            listening.close()
            while left := asyncio.all_tasks() - before:  # also one that has accepted and not begun to serve
                await asyncio.wait(left, timeout=10)


async def test_a_request_goes_to_its_path_over_a_connection_that_is_kept() -> None:
    server = Server(200)
    async with collecting(server) as collector:
        for _ in range(2):
            taken = await collector.take(BODY)
            assert (taken.trouble, taken.rejected) == ("", 0)
    for request in server.requests:
        assert request.startswith(b"POST /v1/traces HTTP/1.1\r\n")
        assert b"\r\ncontent-type: application/x-protobuf\r\n" in request.lower()
        assert b"\r\napi-key: k\r\n" in request.lower()
        assert request.endswith(BODY)


async def test_what_it_left_out_is_told() -> None:
    answer = ExportTraceServiceResponse()
    answer.partial_success.rejected_spans = 300
    async with collecting(Server(200, answer.SerializeToString())) as collector:
        assert (await collector.take(BODY)).rejected == 300


@pytest.mark.parametrize(
    ("status", "may_repeat"),
    [(429, True), (502, True), (503, True), (504, True), (400, False), (404, False), (301, False)],
)
async def test_an_answer_says_whether_to_send_it_again(status: int, *, may_repeat: bool) -> None:
    async with collecting(Server(status)) as collector:
        taken = await collector.take(BODY)
    assert str(status) in str(taken.trouble)
    assert taken.may_repeat is may_repeat


async def test_one_that_hangs_or_is_away_is_tried_again() -> None:
    async with collecting(Server(None), within=0.1) as collector:
        taken = await collector.take(BODY)
        assert taken.may_repeat
        assert "0.1 s" in str(taken.trouble)
    away = HttpCollector("http://127.0.0.1:9", {})
    taken = await away.take(BODY)
    assert taken.may_repeat
    assert taken.trouble
    await away.close()


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", {}),
        ("Api-Key=a%20b", {"api-key": "a b"}),
        (" a = 1 , authorization=Bearer%20x=y ,", {"a": "1", "authorization": "Bearer x=y"}),
    ],
)
def test_headers_are_as_opentelemetry_has_them(text: str, found: dict[str, str]) -> None:
    assert parse_headers(text) == found


def test_what_it_wants_to_be_shown_is_in_no_file_of_a_backup() -> None:
    settings = Settings(otel_endpoint="http://a:4318", otel_headers="api-key=secret")
    assert b"secret" not in settings_file(settings, with_secrets=False).replace(b"with-secrets", b"")
    assert b"api-key=secret" in settings_file(settings, with_secrets=True)


@pytest.mark.parametrize(
    "settings",
    [
        *(
            {"otel_endpoint": url}
            for url in ("127.0.0.1:4318", "grpc://a:4317", "http://", "http://a:0", "http://[a", "http://u:p@a")
        ),
        *({"otel_endpoint": "http://a:4318", "otel_headers": text} for text in ("a", "=b", "a=%0a", "a=%C3%A9")),
    ],
)
def test_what_is_no_collector_stops_the_start(settings: dict[str, str]) -> None:
    with pytest.raises(ConfigurationError, match=r"otel_(endpoint|headers)"):
        check_settings(Settings(**settings))
