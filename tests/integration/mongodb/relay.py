"""Between a client and a server: sees what is asked, and can keep the answers or end the connections."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from urllib.parse import urlsplit

from tests.harness.waiting import until

_CHUNK = 1 << 16


class Relay:
    """Passes bytes on between its own address and a server's.

    Attributes
    ----------
    url
        Its own address, with user and database of the server's URL, to which it is the only member.
    """

    def __init__(self, server: str, port: int) -> None:
        parts = urlsplit(server)
        user = "".join(parts.netloc.rpartition("@")[:2])
        self.url = parts._replace(netloc=f"{user}127.0.0.1:{port}", query="directConnection=true").geturl()
        self._target = (parts.hostname, parts.port)
        self._asked = b""
        self._word = b""
        self._answering = asyncio.Event()
        self._answering.set()
        self._open: set[asyncio.StreamWriter] = set()

    def keep_answers(self, word: bytes = b"") -> None:
        """Let the server hear everything, and the client nothing from the next question on that has a word in it."""
        self._asked = b""
        self._word = word
        if not word:
            self._answering.clear()

    def end(self) -> None:
        """End all connections; what was kept is lost, and new ones are as at the beginning."""
        for writer in self._open:
            writer.transport.abort()
        self._word = b""
        self._answering.set()

    async def asked(self, *words: bytes) -> None:
        """Wait until each of the words was asked since the answers are kept."""
        await until(
            lambda: all(word in self._asked for word in words), what=f"{words} asked", state=lambda: self._asked
        )

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection."""
        from_server, to_server = await asyncio.open_connection(*self._target)
        self._open |= {writer, to_server}
        try:
            async with asyncio.TaskGroup() as both:
                both.create_task(self._pass_questions(reader, to_server))
                both.create_task(self._pass_answers(from_server, writer))
        finally:
            self._open -= {writer, to_server}
            for each in (writer, to_server):
                each.transport.abort()

    async def _pass_questions(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            while data := await reader.read(_CHUNK):
                if self._word and self._word in data:
                    self._answering.clear()
                if not self._answering.is_set():
                    self._asked += data
                writer.write(data)
        writer.transport.abort()

    async def _pass_answers(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            while data := await reader.read(_CHUNK):
                await self._answering.wait()
                writer.write(data)
        writer.transport.abort()


@asynccontextmanager
async def relaying(server: str) -> AsyncIterator[Relay]:
    """Stand before the server of a URL."""
    relays: list[Relay] = []
    tasks: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        await relays[0].serve(reader, writer)

    listening = await asyncio.start_server(serve, "127.0.0.1", 0)
    relays.append(Relay(server, listening.sockets[0].getsockname()[1]))
    try:
        yield relays[0]
    finally:
        listening.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
