"""Input from browsers on a WebSocket: its handshake, and frames."""

from __future__ import annotations

import asyncio
from typing import Final

from bus.http.asgi import Receive, Scope, Send, answer
from tests.fuzz.target import Target, halves
from tests.harness.wire import JumpingLoop, jumping, served

_UPGRADE: Final = b"host: x\r\nupgrade: websocket\r\nconnection: upgrade\r\nsec-websocket-version: 13\r\n"
_KEY: Final = b"sec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
_LINE: Final = b"GET /admin/_nicegui_ws/x HTTP/1.1\r\n"


async def _hold(scope: Scope, receive: Receive, send: Send) -> None:
    """Accept a WebSocket, and read it to its end; answer anything else."""
    if scope["type"] == "http":
        await answer(send, 200, b"", "text/plain")
        return
    await receive()
    await send({"type": "websocket.accept"})
    while (await receive())["type"] != "websocket.disconnect":
        pass


def _heard(*pieces: bytes) -> bytes:
    """Return what a peer hears that sends these; nothing fails at our end, and nothing of it is left."""

    async def talk(loop: JumpingLoop) -> bytes:
        faults: list[object] = []
        loop.set_exception_handler(lambda _, context: faults.append(context))
        wire, state = served(loop, _hold)
        for piece in pieces:
            wire.send(piece)
            await loop.settle()
        wire.hang_up()
        await asyncio.sleep(500.0)
        assert (faults, state.connections, state.tasks) == ([], set(), set())
        return wire.heard

    return jumping(talk)


def handshakes(data: bytes) -> None:
    assert b"HTTP/1.1 500" not in _heard(_LINE + data)


def frames(data: bytes) -> None:
    heard = _heard(_LINE + _UPGRADE + _KEY + b"\r\n", *halves(data))
    assert heard.startswith(b"HTTP/1.1 101 ")


TARGETS: Final = {
    "handshakes": Target(
        handshakes,
        [
            _UPGRADE + _KEY + b"\r\n",
            _UPGRADE + b"sec-websocket-key: short\r\n\r\n",
            _UPGRADE + _KEY + b"sec-websocket-extensions: permessage-deflate; x=1\r\n\r\n",
        ],
    ),
    "frames": Target(
        frames,
        [
            b"\x81\x82abcd" + bytes(one ^ other for one, other in zip(b"hi", b"ab", strict=True)),
            b"\x89\x80abcd\x88\x80abcd",
            b"\x01\x81abcd\x09\x80\x81abcd\x08",
            b"\x82\xff" + bytes(7) + b"\x02abcd\x00\x00",
        ],
    ),
}
