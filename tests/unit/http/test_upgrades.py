"""A request that offers another protocol is served as if it did not, with its body."""

from __future__ import annotations

import asyncio

import pytest

from bus.http.asgi import Receive, Scope, Send, answer, read_body
from tests.harness.wire import JumpingLoop, jumping, served

OFFER = b"host: x\r\nconnection: Upgrade, HTTP2-Settings\r\nupgrade: h2c\r\nhttp2-settings: AAMAAABk\r\n"
POST = b"POST /first HTTP/1.1\r\n" + OFFER
NEXT = b"GET /next HTTP/1.1\r\nhost: x\r\n\r\n"


class Application:
    """Tells the path and the body of each request."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = await read_body(receive, dict(scope["headers"]), 2**20)
        await answer(send, 200, b"<%b %b>" % (scope["path"].encode(), body), "text/plain")


def heard(*pieces: bytes) -> list[bytes]:
    """Return the bodies of the answers."""

    async def talk(loop: JumpingLoop) -> bytes:
        wire, _ = served(loop, Application(), receive_timeout=5.0)
        for piece in pieces:
            wire.send(piece)
            await loop.settle()
        await asyncio.sleep(100.0)
        return wire.heard

    return [part.partition(b">")[0] for part in jumping(talk).split(b"<")[1:]]


@pytest.mark.parametrize(
    "pieces",
    [
        [POST + b"content-length: 2\r\n\r\n{}"],
        [POST + b"content-length: 2\r\n\r\n", b"{", b"}"],
        [POST[:50], POST[50:] + b"content-length: 2\r\n", b"\r\n{}"],
        [POST + b"transfer-encoding: chunked\r\n\r\n1\r\n{\r\n", b"1\r\n}\r\n0\r\n\r\n"],
    ],
    ids=["whole", "in pieces", "head in pieces", "chunked"],
)
def test_its_body_is_read_and_what_comes_behind_it(pieces: list[bytes]) -> None:
    assert heard(*pieces, NEXT) == [b"/first {}", b"/next "]
    assert heard(NEXT + pieces[0], *pieces[1:]) == [b"/next ", b"/first {}"]
    assert heard(*pieces[:-1], pieces[-1] + NEXT) == [b"/first {}", b"/next "]


@pytest.mark.parametrize("count", [2, 5])
def test_several_in_one_piece_have_the_bodies_that_were_sent(count: int) -> None:
    requests = [POST + b"content-length: 2\r\n\r\n%02d" % number for number in range(count)]
    assert heard(b"".join(requests)) == [b"/first %02d" % number for number in range(count)]
