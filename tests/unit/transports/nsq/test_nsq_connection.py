"""One connection against a peer that follows a script."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from bus.transports.nsq import Compression, NsqConfig
from bus.transports.nsq.config import Address
from bus.transports.nsq.connection import Connection, connect
from bus.transports.nsq.errors import ConnectionLost, ErrorFrame, NotNsq, PermissionRefused
from bus.transports.nsq.protocol import commands
from bus.transports.nsq.protocol.compression import Deflate, Snappy
from bus.transports.nsq.protocol.frames import HEARTBEAT
from tests.unit.transports.nsq.scripted_peer import Script, frame, identified, next_line, peer

SOON = NsqConfig(timeout=3.0, heartbeat=0.8)


@asynccontextmanager
async def opened(address: Address, config: NsqConfig = SOON) -> AsyncIterator[Connection]:
    connection = await connect(address, config)
    try:
        yield connection
    finally:
        await connection.close()


def greeting(*answers: bytes, features: bytes = b"{}") -> Script:
    """Agree, say what is given, and wait for the end."""

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await identified(reader)
        writer.write(frame(features))
        for answer in answers:
            assert await next_line(reader)
            writer.write(answer)
        await reader.read()

    return script


async def test_answers_come_in_the_order_of_the_questions() -> None:
    async with peer(greeting(frame(b"one"), frame(b"two"), frame(b"three"))) as address, opened(address) as connection:
        answers = [connection.ask(b"X\n") for _ in range(3)]
        assert await asyncio.gather(*answers) == [b"one", b"two", b"three"]


async def test_an_error_belongs_to_the_oldest_question_and_a_cancelled_one_keeps_its_place() -> None:
    script = greeting(frame(b"E_BAD_TOPIC no", 1), frame(b"two"), frame(b"three"))
    async with peer(script) as address, opened(address) as connection:
        failing, cancelled, good = (connection.ask(b"X\n") for _ in range(3))
        cancelled.cancel()
        with pytest.raises(ErrorFrame, match="E_BAD_TOPIC no"):
            await failing
        assert await good == b"three"
        assert connection.alive


@pytest.mark.parametrize("code", [b"E_FIN_FAILED", b"E_REQ_FAILED", b"E_TOUCH_FAILED"])
async def test_an_error_of_a_command_without_answer_belongs_to_no_question(code: bytes) -> None:
    async with peer(greeting(frame(code + b" x", 1) + frame(b"OK"))) as address, opened(address) as connection:
        assert await connection.ask(b"X\n") == b"OK"


async def test_whose_message_was_refused_is_told() -> None:
    names = [b"0123456789abcdef", b"fedcba9876543210"]
    errors = [
        b"E_FIN_FAILED FIN %b failed ID not in flight" % names[0],
        b"E_REQ_FAILED REQ %b failed client does not own message" % names[1],
        b"E_TOUCH_FAILED TOUCH 1111111111111111 failed ID not in flight",
        b"E_FIN_FAILED",
    ]
    refused: list[bytes] = []
    script = greeting(b"".join(frame(error, 1) for error in errors) + frame(b"OK"))
    async with peer(script) as address, opened(address) as connection:
        connection.refused = refused.append
        await connection.ask(b"X\n")
    assert refused == names


async def test_an_error_that_nobody_asked_for_ends_the_connection_with_its_words() -> None:
    async with peer(greeting(frame(b"E_INVALID RDY count", 1))) as address, opened(address) as connection:
        connection.send(commands.rdy(99))
        assert str(await connection.lost()) == "E_INVALID RDY count"
        with pytest.raises(ConnectionLost, match="E_INVALID RDY count"):
            await connection.ask(b"X\n")


async def test_a_heartbeat_is_answered_also_in_the_midst_of_others() -> None:
    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await identified(reader)
        writer.write(frame(b"{}"))
        assert await reader.readline() == commands.NOP
        assert await reader.readline() == b"X\n"
        writer.write(frame(b"_heartbeat_") + frame(b"OK"))
        assert await reader.readline() == commands.NOP
        writer.write(frame(b"done"))
        await reader.read()

    async with peer(script) as address, opened(address) as connection:
        first, second = connection.ask(b"X\n"), connection.ask(b"")
        assert (await first, await second) == (b"OK", b"done")


async def test_a_silent_peer_is_given_up_and_one_with_heartbeats_is_not() -> None:
    async def beating(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await identified(reader)
        writer.write(frame(b"{}"))
        while await reader.readline():
            await asyncio.sleep(0.05)
            writer.write(frame(b"_heartbeat_"))

    async with peer(greeting()) as silent, opened(silent) as connection:
        asked = connection.ask(b"X\n")
        assert "has been silent for" in str(await connection.lost())
        with pytest.raises(ConnectionLost, match="silent"):
            await asked
    async with peer(beating) as address, opened(address) as connection:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(3.0):
                await connection.lost()
        assert connection.alive


@pytest.mark.parametrize(
    ("said", "fault", "why"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", NotNsq, "not NSQ's protocol"),
        (frame(b"OK"), NotNsq, "does not negotiate features"),
        (frame(b"E_BAD_BODY IDENTIFY msg timeout (1) is invalid", 1), PermissionRefused, "msg timeout"),
        (frame(b'{"auth_required": true}'), PermissionRefused, "asks for a secret"),
        (b"", ConnectionLost, "closed it"),
    ],
)
async def test_a_handshake_that_fails_says_why(said: bytes, fault: type[Exception], why: str) -> None:
    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await identified(reader)
        writer.write(said)

    async with peer(script) as address:
        with pytest.raises(fault, match=why):
            await connect(address, SOON)


async def test_a_peer_that_never_answers_is_given_up() -> None:
    async def script(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        await reader.read()

    async with peer(script) as address:
        with pytest.raises(ConnectionLost, match=r"does not answer within 3 s"):
            await connect(address, SOON)
    with pytest.raises(ConnectionLost, match="cannot reach"):
        await connect(address, SOON)


@pytest.mark.parametrize("size", [1, 3, 1000])
@pytest.mark.parametrize(("name", "codec"), [("snappy", Snappy), ("deflate", Deflate)])
async def test_compression_begins_in_the_midst_of_what_arrives(name: str, codec: type, size: int) -> None:
    """nsqd compresses right after its answer, so both may arrive together, however they are cut."""

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await identified(reader)
        theirs = codec()
        said = frame(b'{"%s": true}' % name.encode()) + theirs.encode(frame(b"OK")) + theirs.encode(frame(HEARTBEAT))
        for begin in range(0, len(said), size):
            writer.write(said[begin : begin + size])
            await asyncio.sleep(0)
        mine, heard = codec(), b""
        while not heard.endswith(b"X\n"):
            heard += mine.decode(await reader.readexactly(1))
        writer.write(theirs.encode(frame(b"late")))
        await reader.read()

    config = SOON._replace(compression=Compression(name))
    async with peer(script) as address, opened(address, config) as connection:
        assert await connection.ask(b"X\n") == b"late"


async def test_an_answer_before_its_question_ends_the_connection() -> None:
    """nsqd never does that, so the answers of such a peer may belong to anything."""

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await identified(reader)
        writer.write(frame(b"{}") + frame(b"OK"))
        await reader.read()

    async with peer(script) as address, opened(address) as connection:
        fault = await connection.lost()
        assert isinstance(fault, NotNsq)
        assert "an answer to nothing" in str(fault)
        with pytest.raises(ConnectionLost, match="an answer to nothing"):
            await connection.ask(b"X\n")


async def test_messages_that_arrive_together_are_handed_over_together() -> None:
    def message(n: int) -> bytes:
        return frame(struct.pack(">qH", n, 1) + b"%016d" % n, 2)

    async with peer(greeting(frame(b"OK") + message(1) + message(2))) as address, opened(address) as connection:
        arrived: list[list[bytes]] = []
        connection.deliver = arrived.append
        assert await connection.ask(commands.sub("orders", "billing")) == b"OK"
        assert [[payload[10:] for payload in batch] for batch in arrived] == [[b"%016d" % 1, b"%016d" % 2]]


async def test_closing_says_what_was_to_be_said() -> None:
    heard: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await identified(reader)
        writer.write(frame(b"{}"))
        heard.set_result(await reader.read())

    async with peer(script) as address:
        connection = await connect(address, SOON)
        connection.send(commands.fin(b"0123456789abcdef"))
        await connection.close()
        assert (await heard).endswith(b"FIN 0123456789abcdef\n")
        assert not connection.alive
        connection.send(b"nothing\n")
        await connection.close()


async def test_closing_that_is_cancelled_leaves_no_connection_to_a_peer_that_does_not_read() -> None:
    done = asyncio.Event()

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await identified(reader)
        writer.write(frame(b"{}"))
        await done.wait()

    async with peer(script) as address:
        connection = await connect(address, SOON._replace(heartbeat=60.0))
        connection.send(bytes(64 * 2**20))
        closing = asyncio.create_task(connection.close())
        for _ in range(10):
            await asyncio.sleep(0)
        assert not closing.done()
        closing.cancel()
        async with asyncio.timeout(2.0):  # sooner than it would give up by itself
            assert "was closed here" in str(await connection.lost())
        done.set()
