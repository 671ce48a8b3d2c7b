"""Between a client and a server: meets one question, keeps it or its answer, and hangs up on the client alone."""

from __future__ import annotations

import asyncio
import enum
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Final

from tests.harness.process import free_port

_CHUNK: Final = 1 << 16
_XID: Final = slice(4, 8)  # of an answer: which question it is for


class Fate(enum.Enum):
    """What becomes of the question that is met, and of its answer."""

    QUESTION_KEPT = "the server does not hear it"
    ANSWER_KEPT = "the server does it, and the client does not hear so"
    ANSWER_SPOILED = "the client gets an answer to another question"


class Relay:
    """Passes bytes on between its own address and a server's, until it meets a question.

    Attributes
    ----------
    address
        Its own, with the path of the server's.
    met
        Set once the question has come.
    """

    def __init__(self, server: str, port: int) -> None:
        place, slash, path = server.partition("/")
        self.address = f"127.0.0.1:{port}{slash}{path}"
        self.met = asyncio.Event()
        self._target = place.rsplit(":", 1)
        self._word, self._fate = b"", Fate.QUESTION_KEPT
        self._kept: tuple[asyncio.StreamWriter, bytes] | None = None
        self._answered = asyncio.Event()
        self._clients: set[asyncio.StreamWriter] = set()
        self._servers: set[asyncio.StreamWriter] = set()

    def meet(self, word: bytes, fate: Fate) -> None:
        """Do this with the next question that has a word in it."""
        self._word, self._fate = word, fate
        self.met.clear()

    def hang_up(self) -> None:
        """End what there is with clients; the server does not notice, and new connections are as at the beginning."""
        self._word = b""
        for client in self._clients:
            client.transport.abort()
        self._clients.clear()

    async def pass_on(self) -> None:
        """Let the server have the question that was kept; returns when it has done with it."""
        if self._kept is None:
            raise AssertionError("no question was kept")
        server, question = self._kept
        server.write(question)
        await asyncio.wait_for(self._answered.wait(), 60)

    async def serve(self, reader: asyncio.StreamReader, client: asyncio.StreamWriter) -> None:
        """Serve one connection."""
        from_server, server = await asyncio.open_connection(*self._target)
        self._clients.add(client)
        self._servers.add(server)
        await asyncio.gather(self._ask(reader, server), self._answer(from_server, client))

    def end(self) -> None:
        """End all connections."""
        self.hang_up()
        for server in self._servers:
            server.transport.abort()

    async def _ask(self, reader: asyncio.StreamReader, server: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            while data := await reader.read(_CHUNK):
                is_it = bool(self._word) and self._word in data and not self.met.is_set()
                if is_it:
                    self.met.set()
                if is_it and self._fate is Fate.QUESTION_KEPT:
                    self._kept = server, data
                else:
                    server.write(data)
        if self._kept is None:
            server.transport.abort()

    async def _answer(self, reader: asyncio.StreamReader, client: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            while data := await reader.read(_CHUNK):
                if client not in self._clients:
                    break
                answer = self._changed(data) if self.met.is_set() and self._word else data
                client.write(answer)
        self._answered.set()
        client.transport.abort()

    def _changed(self, answer: bytes) -> bytes:
        if self._fate is not Fate.ANSWER_SPOILED:
            return b""
        self._word = b""
        return answer[: _XID.start] + bytes(4) + answer[_XID.stop :]


@asynccontextmanager
async def relaying(server: str) -> AsyncIterator[Relay]:
    """Yield a relay in front of a server's address."""
    port = free_port()
    relay = Relay(server, port)
    async with await asyncio.start_server(relay.serve, "127.0.0.1", port):
        try:
            yield relay
        finally:
            relay.end()
