"""Shares of an address for connections without a valid key, beside requests to the application."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
import uvicorn

from bus.http.asgi import Receive, Scope, Send, answer, read_body
from bus.network.descriptors import Descriptors
from bus.security.callers import Callers, Share
from bus.serving.server import config as server_config
from bus.settings import Settings
from tests.harness.wire import JumpingLoop, Wire, jumping

LIMIT = 128 + 2 * 16
"""Open files that leave 16 connections."""
DEADLINE = 30.0
SOCKET = (
    b"GET /admin/_nicegui_ws/x HTTP/1.1\r\nhost: x\r\nupgrade: websocket\r\nconnection: upgrade\r\n"
    b"sec-websocket-version: 13\r\nsec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
)
KEYED = SOCKET[:-2] + b"key: x\r\n\r\n"
ELSEWHERE = SOCKET.replace(b"/admin", b"/v1")
BROKEN = b"GET / HTTP/1.1\r\nhost x\r\n\r\n"
LONG = b"GET / HTTP/1.1\r\nhost: x\r\nlong: " + b"x" * 70_000
LATE = b"GET / HTTP/1.1\r\nhost:"


async def application(scope: Scope, receive: Receive, send: Send) -> None:
    """Accept each WebSocket, and hold it; answer everything else."""
    if scope["type"] == "http":
        if scope["method"] == "POST":
            await read_body(receive, dict(scope["headers"]), 2**20)
        await answer(send, 200, b"", "text/plain")
        return
    await receive()
    await send({"type": "websocket.accept"})
    while (await receive())["type"] != "websocket.disconnect":
        pass


class Door:
    """A server; its callers have a share of ten requests and five connections, and a key if they show one."""

    def __init__(self, loop: JumpingLoop, connections: int = 5) -> None:
        self.loop = loop
        descriptors = Descriptors(LIMIT, lambda: 0.0)
        self.callers = Callers(Share(10.0, connections), descriptors, lambda headers: b"key" in dict(headers))
        self.config = server_config(Settings(receive_timeout=DEADLINE), application, self.callers, has_pages=True)
        self.config.load()
        self.state = uvicorn.server.ServerState()

    async def connected(self, *pieces: bytes) -> Wire:
        """Return a new connection that has sent this."""
        wire = Wire(self.loop, self.config.http_protocol_class(self.config, self.state, {}))  # type: ignore[call-arg]
        for piece in pieces:
            wire.send(piece)
            await self.loop.settle()
        return wire


def heard(*each: bytes, count: int, rest: float = 0.0) -> list[bytes]:
    """Make connections at once that send each of these in turn; return what they heard first, sorted."""

    async def talk(loop: JumpingLoop) -> list[bytes]:
        door = Door(loop, connections=1000)
        door.callers._descriptors.most = 1000
        wires = [await door.connected(each[number % len(each)]) for number in range(count)]
        await asyncio.sleep(rest)
        return sorted(wire.heard[9:12] for wire in wires)

    return jumping(talk)


@pytest.mark.parametrize(("sent", "status"), [(SOCKET, b"101"), (ELSEWHERE, b"404"), (BROKEN, b"400"), (LONG, b"431")])
def test_handshakes_and_what_is_refused_before_an_application_take_from_the_share(sent: bytes, status: bytes) -> None:
    """Ten at once and those that would wait a second; what is over the share is closed without an answer."""
    assert heard(sent, count=40) == [b""] * 20 + [status] * 20


def test_what_is_late_takes_from_the_share() -> None:
    assert heard(LATE, count=40, rest=DEADLINE + 0.5) == [b""] * 20 + [b"408"] * 20


def test_a_handshake_with_a_key_takes_nothing() -> None:
    assert heard(KEYED, count=40) == [b"101"] * 40


def test_what_shows_a_key_and_is_not_understood_takes_nothing() -> None:
    assert heard(b"GET / HTTP/1.1\r\nkey: x\r\nhost: x\r\nhost: y\r\n\r\n", count=40) == [b"400"] * 40


def test_what_a_connection_with_a_key_does_wrong_takes_nothing() -> None:
    async def talk(loop: JumpingLoop) -> set[bytes]:
        door = Door(loop, connections=1000)
        door.callers._descriptors.most = 1000
        wires = [await door.connected(b"GET / HTTP/1.1\r\nhost: x\r\nkey: x\r\n\r\n", BROKEN) for _ in range(40)]
        return {wire.heard.split(b"HTTP/1.1 ")[2][:3] for wire in wires}

    assert jumping(talk) == {b"400"}


def read_within(*pieces: bytes) -> float:
    """Send pieces on connections of one address, one after the other; return the seconds until all are read."""

    async def talk(loop: JumpingLoop) -> float:
        door = Door(loop)
        first, second = await door.connected(), await door.connected()
        for number, piece in enumerate(pieces):
            (first, second)[number % 2].send(piece)
        while first.unread or second.unread:  # noqa: ASYNC110 - a wire has no event
            await asyncio.sleep(0.01)
        assert first.closed_at is None
        return round(loop.time(), 1)

    return jumping(talk)


def test_bytes_of_an_address_over_its_share_are_read_later() -> None:
    """Ten requests a second are 40,960 bytes: the first are read at once, and each further second as many."""
    heads = [b"GET / HTTP/1.1\r\nhost: x\r\n"] * 2
    assert read_within(*heads, *[b"x: " + b"x" * 4000 + b"\r\n"] * 9) == 0.0
    assert 1.0 < read_within(*heads, *[b"x: " + b"x" * 4000 + b"\r\n"] * 28) < 3.0


def test_a_body_that_the_application_reads_is_among_the_bytes_of_its_address() -> None:
    heads = [b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 200000\r\n\r\n"] * 2
    assert 6.0 < read_within(*heads, *[b"x" * 40_000] * 10) < 10.0


def test_many_connections_read_no_more_than_their_address_may_send() -> None:
    async def talk(loop: JumpingLoop) -> int:
        door = Door(loop, connections=1000)
        door.callers._descriptors.most = 1000
        wires = [await door.connected() for _ in range(15)]
        for wire in wires:
            wire.send(b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 900000\r\n\r\n", *[b"x" * 20_000] * 45)
        await asyncio.sleep(20)
        return sum(900_000 - wire.unread for wire in wires)

    assert jumping(talk) < 40_960 * 21 + 15 * 20_000


def test_a_first_head_in_two_pieces_waits_for_no_share() -> None:
    async def talk(loop: JumpingLoop) -> tuple[float, bytes]:
        door = Door(loop)
        await door.connected(b"GET / HTTP/1.1\r\nhost: x\r\nlong: " + b"x" * 60_000)
        wire = await door.connected(b"POST / HTTP/1.1\r\nhost: x\r\nkey: x\r\n", b"content-length: 2\r\n\r\n{}")
        return loop.time(), wire.heard[9:12]

    assert jumping(talk) == (0.0, b"200")


def test_a_connection_that_ends_while_it_waits_leaves_nothing_behind() -> None:
    async def talk(loop: JumpingLoop) -> list[asyncio.TimerHandle]:
        door = Door(loop)
        for _ in range(3):
            wire = await door.connected(b"GET / HTTP/1.1\r\nhost: x\r\nlong: " + b"x" * 60_000)
            wire.hang_up()
            await loop.settle()
        return [timer for timer in loop._scheduled if not timer.cancelled()]  # type: ignore[attr-defined]

    assert jumping(talk) == []


def test_a_socket_stays_open() -> None:
    async def talk(loop: JumpingLoop) -> list[float | None]:
        door = Door(loop)
        door.config.ws_ping_interval = None
        request = b"GET / HTTP/1.1\r\nhost: x\r\n\r\n"
        wires = [await door.connected(*pieces) for pieces in ([SOCKET], [request, SOCKET[:40], SOCKET[40:]])]
        await asyncio.sleep(300)
        return [wire.closed_at for wire in wires]

    assert jumping(talk) == [None, None]


def test_a_handshake_within_the_grace_of_a_stop_is_done() -> None:
    async def talk(loop: JumpingLoop) -> bytes:
        door = Door(loop)
        wire = await door.connected()
        (protocol,) = door.state.connections
        protocol.shutdown()
        wire.send(SOCKET)
        await loop.settle()
        return wire.heard[9:12]

    assert jumping(talk) == b"101"


def test_bytes_of_a_connection_with_a_key_are_read_at_once() -> None:
    heads = [b"POST / HTTP/1.1\r\nhost: x\r\nkey: x\r\ncontent-length: 900000\r\n\r\n"] * 2
    assert read_within(*heads, *[b"x" * 40_000] * 18) == 0.0


def test_a_refusal_over_the_share_of_bytes_is_read_to_its_end() -> None:
    async def talk(loop: JumpingLoop) -> list[int]:
        door = Door(loop)
        wires = [await door.connected(LONG, b"x" * 1000) for _ in range(4)]
        return [wire.unread for wire in wires]

    assert jumping(talk) == [0] * 4


def opened(sent: bytes, make: Callable[[Door], None] = lambda _: None) -> tuple[list[bool], int]:
    """Open seven sockets and close four; return which were open before, and how many connections then count."""

    async def talk(loop: JumpingLoop) -> tuple[list[bool], int]:
        door = Door(loop)
        wires = []
        for _ in range(7):
            wires.append(await door.connected(sent))
            await asyncio.sleep(0.1)
        are_open = [wire.closed_at is None for wire in wires]
        for wire in wires[-4:]:
            wire.hang_up()
        await loop.settle()
        return are_open, len(door.callers._connected)

    return jumping(talk)


def test_a_socket_without_a_key_is_one_of_the_connections_of_its_address() -> None:
    are_open, left = opened(SOCKET)
    assert sum(are_open) == 5
    assert left == 1
    assert opened(KEYED) == ([True] * 7, 3)


def test_sockets_are_among_the_connections_that_there_are_descriptors_for() -> None:
    async def talk(loop: JumpingLoop) -> int:
        door = Door(loop)
        wires = [await door.connected(KEYED) for _ in range(30)]
        return sum(wire.closed_at is None for wire in wires)

    assert jumping(talk) == 16


GET = b"GET / HTTP/1.1\r\nhost: x\r\n\r\n"
WITH_KEY = GET[:-2] + b"Key: x\r\n\r\n"


def test_a_flood_of_connections_closes_none_of_those_before() -> None:
    async def talk(loop: JumpingLoop) -> tuple[list[float | None], int]:
        door = Door(loop)
        wires = [await door.connected() for _ in range(9)]
        await asyncio.sleep(DEADLINE / 2)
        return [wire.closed_at for wire in wires], len(door.state.connections)

    assert jumping(talk) == ([None] * 5 + [0.0, 0.0, 0.0, 1.0], 5)


@pytest.mark.parametrize(
    ("pieces", "status"), [([WITH_KEY], b"200"), ([GET], b""), ([WITH_KEY[:25], WITH_KEY[25:]], b""), ([b"\0"], b"")]
)
def test_over_the_share_of_connections_a_key_in_the_first_piece_is_served(pieces: list[bytes], status: bytes) -> None:
    async def talk(loop: JumpingLoop) -> tuple[bytes, int]:
        door = Door(loop)
        for _ in range(6):
            await door.connected()
        wire = await door.connected(*pieces)
        assert (wire.closed_at is None) is bool(status)
        return wire.heard[9:12], len(door.callers._waiting)

    assert jumping(talk) == (status, 0)


def test_no_parser_is_made_for_a_connection_that_its_peer_has_reset() -> None:
    class Gone(Wire):
        def getpeername(self) -> None:  # type: ignore[override]
            return None

    async def talk(loop: JumpingLoop) -> tuple[float | None, int]:
        door = Door(loop)
        wire = Gone(loop, door.config.http_protocol_class(door.config, door.state, {}))  # type: ignore[call-arg]
        return wire.closed_at, len(door.state.connections)

    assert jumping(talk) == (0.0, 0)


def test_connections_with_a_key_may_be_opened_one_after_another() -> None:
    async def talk(loop: JumpingLoop) -> set[bytes]:
        door = Door(loop)
        heard = set()
        for _ in range(40):
            wire = await door.connected(WITH_KEY)
            heard.add(wire.heard[9:12])
            wire.hang_up()
        return heard

    assert jumping(talk) == {b"200"}
