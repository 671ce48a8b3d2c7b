"""Hostile and merely unusual responses."""

from __future__ import annotations

import asyncio
import itertools
import socket
import struct
import time

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bus.ports.poster import PostFailure, PostResult
from bus.posters.answer import Answer, AnswerLimits, BadAnswer
from bus.posters.connection import Limits
from tests.integration.poster.peers import OK

_EARLY = 30


@pytest.mark.parametrize(
    ("answer", "status", "response", "kept"),
    [
        (OK, 200, b"ok", True),
        (b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nok", 200, b"ok", False),
        (OK + b"garbage", 200, b"ok", False),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 999999\r\n\r\n" + b"z" * 100_000, 200, b"z" * 16_384, False),
    ],
    ids=["kept", "closed", "garbage", "large"],
)
async def test_answers(hostile, send, poster, answer_with, answer, status, response, kept):
    port = await hostile.start(answer_with(answer))
    for n in range(2):
        result = await send(port)
        assert (result.status, result.failure, result.response, result.indeterminate) == (status, None, response, False)
        assert poster.opened == (1 if kept else n + 1)
        assert poster.idle == (1 if kept else 0)


@pytest.mark.parametrize(
    "answer", [b"garbage\r\n\r\n", b"HTTP/1.1 200 OK\r\nx: " + b"a" * 200_000], ids=["garbage", "large"]
)
async def test_not_an_answer(hostile, send, poster, answer_with, answer):
    result = await send(await hostile.start(answer_with(answer)))
    assert (result.status, result.failure, result.indeterminate) == (None, PostFailure.PROTOCOL, True)
    assert result.error
    assert poster.idle == 0


async def test_close_delimited(hostile, send, poster, answer_with):
    result = await send(await hostile.start(answer_with(b"HTTP/1.1 200 OK\r\n\r\nuntil the end", then_close=True)))
    assert (result.status, result.response, result.is_whole) == (200, b"until the end", True)
    assert poster.idle == 0


async def test_close_before_the_head_is_whole(hostile, send, answer_with):
    result = await send(await hostile.start(answer_with(b"HTTP/1.1 200 OK\r\n", then_close=True)))
    assert (result.status, result.failure, result.indeterminate) == (None, PostFailure.RESET, True)


async def test_a_status_counts_though_its_body_is_cut_off(hostile, send, poster, answer_with):
    port = await hostile.start(answer_with(b"HTTP/1.1 503 No\r\ncontent-length: 5\r\n\r\nbu", then_close=True))
    for n in range(2):
        result = await send(port)
        assert (result.status, result.failure, result.indeterminate) == (503, None, False)
        assert (result.response, result.error, result.is_whole) == (b"bu", "", False)
        assert (poster.opened, poster.idle) == (n + 1, 0)


async def test_a_status_counts_though_its_chunks_are_broken(hostile, send, poster, answer_with):
    answer = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nabXX"
    result = await send(await hostile.start(answer_with(answer)))
    assert (result.status, result.failure, result.response) == (200, None, b"ab")
    assert poster.connections == poster.idle == 0


async def test_a_status_counts_though_its_body_is_reset(hostile, send, request_of):
    async def script(reader, writer, number):
        await request_of(reader)
        writer.write(b"HTTP/1.1 429 No\r\nretry-after: 9\r\ncontent-length: 50\r\n\r\nslow")
        await writer.drain()
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.transport.abort()

    result = await send(await hostile.start(script))
    assert (result.status, result.failure, result.retry_after) == (429, None, "9")


async def test_an_answer_counts_though_the_body_is_not_read(send):
    def answer_early(listener: socket.socket) -> None:
        for _ in range(_EARLY):
            with listener.accept()[0] as peer:
                peer.recv(1024)
                peer.sendall(b"HTTP/1.1 413 No\r\nconnection: close\r\ncontent-length: 2\r\n\r\nno")

    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(10)
        answering = asyncio.create_task(asyncio.to_thread(answer_early, listener))
        for _ in range(_EARLY):
            result = await send(listener.getsockname()[1], body=bytes(4_000_000))
            assert (result.status, result.failure, result.response) == (413, None, b"no")
        await answering


@pytest.mark.parametrize(
    "field",
    [b"x: a" + b" " * 30_000 + b"b", b"x: a\r\n" + b" \r\n" * 9_000 + b"y: b", b"retry-after:" + b" " * 30_000 + b"7"],
    ids=["within", "folded", "before"],
)
def test_a_head_full_of_spaces_costs_time_in_proportion(field):
    answer = Answer(AnswerLimits(fields=20_000))
    begun = time.process_time()
    answer.feed(b"HTTP/1.1 503 No\r\n" + field + b"\r\ncontent-length: 0\r\n\r\n")
    assert (answer.status, answer.retry_after) == (503, "7" if b"retry" in field else None)
    for_spaces = time.process_time() - begun
    begun = time.process_time()
    for _ in range(5000):
        Answer(AnswerLimits()).feed(OK)
    assert for_spaces < time.process_time() - begun


async def test_limits_can_be_set(hostile, make_poster, send, answer_with):
    poster = make_poster(answer_limits=AnswerLimits(head=300, fields=4, body=10, kept=3))
    port = await hostile.start(answer_with(b"HTTP/1.1 200 OK\r\ncontent-length: 12\r\n\r\nabcdefghijkl"))
    result = await send(port, by=poster)
    assert (result.status, result.response, poster.idle) == (200, b"abc", 0)


async def test_a_slow_trickle_ends_at_the_deadline_and_its_status_counts(hostile, send, poster, request_of):
    async def script(reader, writer, number):
        await request_of(reader)
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n")
        while not writer.is_closing():
            writer.write(b"x")
            await writer.drain()
            await asyncio.sleep(0.01)

    begun = time.monotonic()
    result = await send(await hostile.start(script), timeout=0.5)
    assert (result.status, result.failure, result.indeterminate) == (200, None, False)
    assert set(result.response) == set(b"x")
    assert 0.4 < time.monotonic() - begun < 15
    assert result.phases.receive > result.phases.first_byte
    assert poster.idle == 0


async def test_a_head_that_trickles_ends_at_the_deadline(hostile, send, request_of):
    async def script(reader, writer, number):
        await request_of(reader)
        writer.write(b"HTTP/1.1 200 OK\r\n")
        while not writer.is_closing():
            writer.write(b"x: y\r\n")
            await writer.drain()
            await asyncio.sleep(0.05)

    result = await send(await hostile.start(script), timeout=0.5)
    assert (result.status, result.failure, result.indeterminate) == (None, PostFailure.TIMEOUT, True)
    assert "reading the response" in result.error


async def test_the_first_byte_has_a_limit(hostile, make_poster, send, request_of):
    async def script(reader, writer, number):
        await request_of(reader)
        await reader.read()

    begun = time.monotonic()
    result = await send(await hostile.start(script), by=make_poster(limits=Limits(first_byte=0.05)), timeout=30.0)
    assert result.failure is PostFailure.TIMEOUT
    assert "waiting for the response" in result.error
    assert time.monotonic() - begun < 15


@pytest.mark.parametrize(("head", "status"), [(b"HTTP/1.1 200 OK\r\n", None), (b"HTTP/1.1 200 OK\r\n\r\n", 200)])
async def test_receiving_has_a_limit(hostile, make_poster, send, request_of, head, status):
    async def script(reader, writer, number):
        await request_of(reader)
        writer.write(head)
        await reader.read()

    begun = time.monotonic()
    result = await send(await hostile.start(script), by=make_poster(limits=Limits(receive=0.05)), timeout=30.0)
    assert (result.status, result.failure) == (status, None if status else PostFailure.TIMEOUT)
    assert time.monotonic() - begun < 15


async def test_answer_in_single_bytes(hostile, send, poster, request_of):
    async def script(reader, writer, number):
        for _ in range(2):
            await request_of(reader)
            for byte in b"HTTP/1.1 503 No\r\nretry-after: 7\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n":
                writer.write(bytes([byte]))
                await asyncio.sleep(0)
        await reader.read()

    port = await hostile.start(script)
    for _ in range(2):
        result = await send(port)
        assert (result.status, result.response, result.retry_after) == (503, b"ok", "7")
    assert (poster.opened, poster.reused) == (1, 1)


_PIECES = st.sampled_from(
    [
        b"HTTP/1.1 ",
        b"200 OK",
        b"100 C",
        b"\r\n",
        b"\r\n\r\n",
        b"content-length: ",
        b"3",
        b"transfer-encoding: chunked",
        b"0\r\n\r\n",
        b"connection: close",
        b"x: y",
        b"\n",
        b"\x00",
        b"\xff",
        b":",
        b"204 No",
    ]
)
_ANSWERS = st.one_of(st.binary(max_size=300), st.lists(_PIECES, max_size=20).map(b"".join))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(pieces=st.lists(_ANSWERS, max_size=3), close=st.booleans())
async def test_any_bytes_give_a_result(hostile, send, request_of, pieces, close):
    async def script(reader, writer, number):
        await request_of(reader)
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
        if not close:
            await reader.read()

    begun = time.monotonic()
    result = await send(await hostile.start(script), timeout=0.05)
    assert isinstance(result, PostResult)
    assert (result.status is None) != (result.failure is None)
    assert time.monotonic() - begun < 15


def read(chunks: list[bytes]) -> tuple:
    """Feed an `Answer` without a socket, as a connection does."""
    answer = Answer(AnswerLimits(head=100, fields=6, body=20, kept=8))
    for chunk in chunks:
        try:
            if answer.feed(chunk):
                break
        except BadAnswer:
            return ("bad", answer.status, answer.body)
    return answer.complete, answer.status, answer.body, answer.retry_after


_HEADS = st.sampled_from(
    [b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 503 No\r\nretry-after: 3\r\n", b"HTTP/1.1 100 C\r\n\r\nHTTP/1.1 429\r\n"]
)
_BODIES = st.sampled_from(
    [
        b"\r\nuntil the end",
        b"content-length: 5\r\n\r\nhello",
        b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    ]
)


@given(head=_HEADS, body=_BODIES, cuts=st.lists(st.integers(0, 120), max_size=8))
def test_answers_read_the_same_however_they_are_cut(head, body, cuts):
    whole = head + body
    edges = [0, *sorted(min(cut, len(whole)) for cut in cuts), len(whole)]
    assert read([whole[a:b] for a, b in itertools.pairwise(edges)]) == read([whole])


@given(chunks=st.lists(_ANSWERS, max_size=6))
def test_any_bytes_are_read_within_the_limits(chunks):
    read(chunks)
