"""Connections that a process of a shared port passes on to the first one, however the requests are cut."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Sequence
from typing import Any, Final

from uvicorn.server import ServerState

from bus.http.asgi import Receive, Scope, Send, answer, read_body, refusing
from bus.serving.server import SharedPort
from bus.serving.server import config as server_config
from bus.settings import Settings
from tests.fuzz.target import Target, halves
from tests.harness.wire import JumpingLoop, Wire, anybody, jumping

_PORT: Final = 8  # that of a wire's server
_LONG: Final = 1000.0
_HERE: Final = b"POST /v1/x HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\n{}"
_THERE: Final = b"POST /admin HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n1\r\n{\r\n1\r\n}\r\n0\r\n\r\n"


class _Channel:
    """Keeps what is passed on."""

    read: bytes | None = None

    def serves(self, target: bytes) -> bool:
        return target.startswith(b"/v1/")

    def pass_on(self, _connection: int, read: bytes) -> bool:
        self.read = read
        return True


async def _application(scope: Scope, receive: Receive, send: Send) -> None:
    async with refusing(scope, receive, send):
        body = await read_body(receive, dict(scope["headers"]), 2**20)
        found = repr((scope["method"], scope["path"], scope["headers"], body)).encode()
        await answer(send, 200, b"%d" % zlib.crc32(found), "text/plain")


def _connected(loop: JumpingLoop, shared: SharedPort | None, already_read: bytes = b"") -> Wire:
    config = server_config(Settings(), _application, anybody(), None, shared, has_pages=False)
    config.load()
    make: Any = config.http_protocol_class
    return Wire(loop, make(config, ServerState(), {}, already_read=already_read))


async def _answers(loop: JumpingLoop, pieces: Sequence[bytes], channel: _Channel | None) -> bytes:
    wire = _connected(loop, SharedPort(_PORT, channel) if channel is not None else None)
    for piece in pieces:
        wire.send(piece)
        await loop.settle()
    wires = [wire]
    if channel is not None and channel.read is not None:
        data = b"".join(pieces)
        wires.append(_connected(loop, None, channel.read))
        await loop.settle()
        wires[1].send(data[len(data) - wire.unread :])
    await asyncio.sleep(_LONG)
    return b"".join(one.heard for one in wires).replace(b"connection: close\r\n", b"")


def passed_on(data: bytes) -> None:
    """What is passed on is answered as on a connection of the first process; what is not, up to where it is refused."""
    pieces, channel = halves(data), _Channel()
    expected = jumping(lambda loop: _answers(loop, pieces, None))
    found = jumping(lambda loop: _answers(loop, pieces, channel))
    assert bool(found) == bool(expected)
    if channel.read is None:
        assert expected.startswith(found.partition(b"HTTP/1.1 421")[0])
    else:
        assert found == expected


TARGETS: Final = {"passed_on": Target(passed_on, [_HERE, _THERE, _THERE + _HERE, _HERE + _THERE, _THERE[:-9]])}
