"""The rest of a request that is answered before it is whole, and the bytes behind a body."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Iterator, Sequence

import pytest
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from bus.http.asgi import Receive, Scope, Send, answer, read_body
from bus.http.heads import LONGEST_HEAD
from bus.http.protocol import HttpProtocol
from tests.harness.wire import JumpingLoop, Wire, jumping, served

DEADLINE = 30.0
PIECE = b"x" * 16_384
GET = b"GET /next HTTP/1.1\r\nhost: x\r\n\r\n"
CHUNKED = b"host: x\r\ntransfer-encoding: chunked\r\n"


def refused(fields: bytes) -> bytes:
    return b"POST /refused HTTP/1.1\r\nhost: x\r\n" + fields + b"\r\n"


class Application:
    """Answers ``/refused`` at its head, and all else with the headers it has once the body is whole."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] == "/refused":
            await answer(send, 401, b"{}", "application/json")
            return
        body = await read_body(receive, dict(scope["headers"]), 2**20)
        await answer(send, 200, b"%r %d" % (sorted(dict(scope["headers"])), len(body)), "text/plain")


def heard(pieces: Sequence[bytes], *, pause: float = 0.0) -> Wire:
    """Send pieces with pauses; return the wire after a long time."""

    async def talk(loop: JumpingLoop) -> Wire:
        wire, state = served(loop, Application(), receive_timeout=DEADLINE)
        for piece in pieces:
            wire.send(piece)
            await loop.settle()
            if pause:
                await asyncio.sleep(pause)
        await asyncio.sleep(500.0)
        assert not state.connections
        return wire

    return jumping(talk)


def endless(head: bytes, piece: bytes) -> Iterator[bytes]:
    yield head
    yield from [piece] * 100


@pytest.mark.parametrize(
    ("head", "piece"),
    [
        (refused(b"content-length: 99999999\r\n"), PIECE),
        (refused(b"transfer-encoding: chunked\r\n"), b"4000\r\n" + PIECE + b"\r\n"),
        (refused(b"connection: close\r\ncontent-length: 99999999\r\n"), PIECE),
        (b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: x\r\n\r\n", PIECE),
    ],
    ids=["length", "chunked", "last", "not understood"],
)
def test_after_an_answer_little_is_read_and_the_connection_is_closed(head: bytes, piece: bytes) -> None:
    wire = heard(list(endless(head, piece)))
    assert wire.heard.startswith(b"HTTP/1.1 40")
    assert b"connection: close" in wire.heard
    assert wire.unread >= 100 * len(piece) - 65_536 - len(piece)
    assert wire.closed_at == 1.0


FIELD = b"x: " + PIECE[:8000] + b"\r\n"


@pytest.mark.parametrize(
    "pieces",
    [
        [b"POST /refused HTTP/1.1\r\nhost: x\r\ncontent-length: 99999999\r\n\r\n" + PIECE],
        [b"POST /waiting HTTP/1.1\r\nhost: x\r\ncontent-length: 99999999\r\n\r\n" + PIECE],
        [b"POST /refused HTTP/1.1\r\n" + CHUNKED + b"\r\n0\r\n", *[FIELD] * 10],
        [b"POST /waiting HTTP/1.1\r\n", *[FIELD] * 5],
    ],
)
def test_a_closed_connection_keeps_no_part_of_its_requests(pieces: list[bytes]) -> None:
    """It is part of a reference cycle, so it stays in memory until the garbage collector runs, which is rare."""
    gc.collect()
    gc.disable()
    try:
        heard(pieces)
        found = gc.get_objects()
        protocols = [one for one in found if isinstance(one, HttpProtocol)]
        kept = sum(len(value) for one in protocols for _, value in one.headers)
        kept += sum(len(one.body) for one in found if isinstance(one, RequestResponseCycle))
    finally:
        gc.enable()
    assert protocols, "nothing was looked at"
    assert kept < 100


@pytest.mark.parametrize("behind", [b"\r\n", b"\n\r\n\r", b"\r\n" * 100])
def test_empty_lines_behind_a_request_are_ignored(behind: bytes) -> None:
    for pieces in ([GET + behind], [GET, behind], [GET, *(bytes([byte]) for byte in behind)]):
        wire = heard(pieces)
        assert wire.closed_at == pytest.approx(75, abs=1)
        assert wire.heard.count(b"HTTP/1.1 200") == 1
    assert heard([GET, behind, GET]).heard.count(b"HTTP/1.1 200") == 2


HEAD = b"HEAD /x HTTP/1.1\r\nhost: x\r\n"


@pytest.mark.parametrize(
    "request_",
    [
        b"HEAD /\x00 HTTP/1.1\r\nhost: x\r\n\r\n",
        b"HEAD /x HTTP/1.1\r\nho\x00st: x\r\n\r\n",
        HEAD + b"x\x00y: z\r\n\r\n",
        HEAD + b"transfer-encoding: chunked\r\n\r\nzz\r\n",
        HEAD + b"transfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\na: b\r\nx\x00y: z\r\n\r\n",
    ],
)
def test_a_damaged_head_request_is_answered_without_content_wherever_its_pieces_end(request_: bytes) -> None:
    answers = {heard([request_[:at], request_[at:]]).heard for at in range(1, len(request_))}
    assert len(answers) == 1
    assert answers.pop().endswith(b"\r\n\r\n")


def test_a_peer_that_sends_the_rest_slowly_has_a_second() -> None:
    wire = heard([refused(b"content-length: 1000\r\n"), *[b"x"] * 50], pause=0.1)
    assert wire.closed_at == pytest.approx(1.0)


def test_a_request_that_is_whole_in_time_costs_its_connection_nothing() -> None:
    wire = heard([refused(b"content-length: 60000\r\n"), b"x" * 30_000, b"x" * 30_000, GET], pause=0.4)
    assert [answer[:3] for answer in wire.heard.split(b"HTTP/1.1 ")[1:]] == [b"401", b"200"]
    assert wire.closed_at is not None
    assert wire.closed_at > 10


def test_a_connection_is_closed_that_is_idle_after_such_a_request() -> None:
    wire = heard([refused(b"content-length: 2\r\n"), b"xx"])
    assert wire.closed_at == 75.0


@pytest.mark.parametrize("path", [b"/", b"/refused"])
@pytest.mark.parametrize(
    "trailers",
    [
        [b"x: " + b"v" * LONGEST_HEAD + b"\r\n\r\n"],
        [b"x%d: %s\r\n" % (number, b"v" * 1000) for number in range(1000)],
        [b"x: ", *[b"v" * 1000] * 1000],
        [b"0;", *[b"v" * 1000] * 1000],
    ],
    ids=["one", "many", "one without an end", "an extension without an end"],
)
def test_trailers_have_the_limit_of_a_head(path: bytes, trailers: list[bytes]) -> None:
    whole = [] if trailers[0] == b"0;" else [b"0\r\n"]
    wire = heard([b"POST " + path + b" HTTP/1.1\r\n" + CHUNKED + b"\r\n2\r\n{}\r\n", *whole, *trailers])
    assert wire.heard.startswith(b"HTTP/1.1 431" if path == b"/" else b"HTTP/1.1 401")
    assert wire.closed_at == 1.0
    if len(trailers) > 1:
        assert wire.unread > 1000 * 1000 - 3 * LONGEST_HEAD


def test_a_head_that_begins_behind_a_request_has_its_limit() -> None:
    part = b"v" * (LONGEST_HEAD * 9 // 10)
    wire = heard([GET + b"GET /long HTTP/1.1\r\nhost: x\r\nx: " + part, part + b"\r\n\r\n"])
    assert (wire.heard.count(b"HTTP/1.1 200"), wire.heard.count(b"HTTP/1.1 431")) == (1, 1)


def test_many_small_chunks_are_no_trailers() -> None:
    chunks = [b"1\r\n", b"x\r\n"] * 20_000
    wire = heard([b"POST / HTTP/1.1\r\n" + CHUNKED + b"\r\n", *chunks, b"0\r\n\r\n"])
    assert wire.heard.endswith(b" 20000")
