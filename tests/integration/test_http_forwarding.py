"""A connection is given to the process that serves its request only once all that was asked before is answered."""

from __future__ import annotations

import asyncio
import os
import socket
from typing import Any

import uvicorn
import uvloop
from uvicorn.server import ServerState

from bus.http.forwarding_protocol import ForwardingProtocol
from tests.harness.wire import anybody

HERE = b"GET /v1/x HTTP/1.1\r\nHost: a\r\n\r\n"
ELSEWHERE = b"GET /admin HTTP/1.1\r\nHost: a\r\n\r\n"


class Elsewhere:
    """Serves no pages; ``given`` has what was read of each connection that it took."""

    def __init__(self) -> None:
        self.given: list[tuple[int, bytes]] = []

    def serves(self, target: bytes) -> bool:
        return target.startswith(b"/v1/")

    def pass_on(self, connection: int, read: bytes) -> bool:
        self.given.append((os.dup(connection), read))
        return True


class NoUpgrades:
    def refusal(self, *_: object) -> None:
        return None


async def first(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"5")]})
    await send({"type": "http.response.body", "body": b"first"})


async def _give_while_an_answer_waits() -> tuple[bytes, list[tuple[int, bytes]]]:
    """Have a request read that is served elsewhere, in the turn in which the one before it was answered."""
    listener = socket.create_server(("127.0.0.1", 0))
    elsewhere, made = Elsewhere(), []
    port = listener.getsockname()[1]
    policies = {"callers": anybody(), "upgrades": NoUpgrades()}
    shared = {"deadline": 5, "elsewhere": elsewhere, "shared_port": port, **policies}
    config = uvicorn.Config(first, log_config=None, lifespan="off")
    config.load()
    state = ServerState()

    def make() -> ForwardingProtocol:
        made.append(type("Protocol", (ForwardingProtocol,), shared)(config=config, server_state=state, app_state={}))
        return made[-1]

    server = await asyncio.get_running_loop().create_server(make, sock=listener)
    async with server, asyncio.timeout(10):
        reader, writer = await asyncio.open_connection(*listener.getsockname())
        writer.write(HERE)
        while not made or made[0].cycle is None or not made[0].cycle.response_complete:  # noqa: ASYNC110 - this very turn
            await asyncio.sleep(0)
        made[0].data_received(ELSEWHERE)
        answers = await reader.readuntil(b"first")
        if not elsewhere.given:
            answers += await reader.readuntil(b"\r\n\r\n")
        writer.close()
    return answers, elsewhere.given


def test_an_answer_that_waits_to_be_written_is_not_lost() -> None:
    answers, given = uvloop.run(_give_while_an_answer_waits())
    assert answers.startswith(b"HTTP/1.1 200 ")
    assert b"HTTP/1.1 421 " in answers or [read for _, read in given] == [ELSEWHERE]
    for connection, _ in given:
        os.close(connection)
