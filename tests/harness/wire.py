"""A connection without a network, on a loop whose time jumps: what a protocol writes, and when it closes."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from uvicorn.server import ServerState

from bus.network.descriptors import Descriptors
from bus.security.callers import Callers, Share
from bus.serving.server import config as server_config
from bus.settings import Settings

Found = TypeVar("Found")
_MOST_TURNS = 100_000


class JumpingLoop(asyncio.SelectorEventLoop):
    """Once there is nothing left to do, it is the time of the next timer."""

    def __init__(self) -> None:
        super().__init__()
        self._elapsed = 0.0

    def time(self) -> float:
        return self._elapsed

    def _run_once(self) -> None:
        if not self._ready:  # type: ignore[attr-defined]
            due = [timer.when() for timer in self._scheduled if not timer.cancelled()]  # type: ignore[attr-defined]
            self._elapsed = max(self._elapsed, min(due, default=self._elapsed))
        super()._run_once()  # type: ignore[misc]

    async def settle(self) -> None:
        """Let everything run as far as it comes without time moving."""
        for _ in range(_MOST_TURNS):
            await asyncio.sleep(0)
            if not self._ready:  # type: ignore[attr-defined]
                return
        raise AssertionError("the event loop never comes to rest")


def jumping(make: Callable[[JumpingLoop], Coroutine[Any, Any, Found]]) -> Found:
    """Run what is made of such a loop on it."""
    loop = JumpingLoop()
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        return runner.run(make(loop))


class Wire(asyncio.Transport):
    """The end of a connection that a protocol has; ``send`` and ``stall`` are what its peer does.

    Attributes
    ----------
    heard
        What the peer got.
    closed_at
        When the connection was closed, None while it was not.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, protocol: asyncio.Protocol) -> None:
        super().__init__()
        self._loop = loop
        self._protocol = protocol
        self._coming: deque[bytes] = deque()
        self._is_paused = False
        self.heard = b""
        self.closed_at: float | None = None
        protocol.connection_made(self)

    @property
    def unread(self) -> int:
        """Bytes that the protocol has not read yet."""
        return sum(map(len, self._coming))

    def send(self, *pieces: bytes) -> None:
        """Send pieces, each of which is one that the protocol reads."""
        self._coming.extend(pieces)
        self._read()

    def stall(self) -> None:
        """Read no answers from now on."""
        self._protocol.pause_writing()

    def go_on(self) -> None:
        """Read answers again."""
        self._protocol.resume_writing()

    def finish(self) -> None:
        """Send nothing more, and read on."""
        if self.closed_at is None and not self._protocol.eof_received():
            self._lose(None)

    def hang_up(self) -> None:
        """Be gone."""
        self._lose(ConnectionResetError())

    def _read(self) -> None:
        while self._coming and not self._is_paused and self.closed_at is None:
            self._protocol.data_received(self._coming.popleft())

    def _lose(self, error: Exception | None) -> None:
        if self.closed_at is None:
            self.closed_at = self._loop.time()
            self._loop.call_soon(lambda: self._protocol.connection_lost(error))  # of the protocol that it has by then

    # What the protocol does.

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return {"peername": self.getpeername(), "sockname": self.getsockname(), "socket": self}.get(name, default)

    def getpeername(self) -> tuple[str, int]:
        return "127.0.0.1", 9

    def getsockname(self) -> tuple[str, int]:
        return "127.0.0.1", 8

    def fileno(self) -> int:
        return -1

    def get_write_buffer_size(self) -> int:
        return 0

    def pause_reading(self) -> None:
        self._is_paused = True

    def resume_reading(self) -> None:
        self._is_paused = False
        self._loop.call_soon(self._read)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        assert self.closed_at is None
        self.heard += data

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def write_eof(self) -> None:
        pass

    def is_closing(self) -> bool:
        return self.closed_at is not None

    def close(self) -> None:
        self._lose(None)

    def abort(self) -> None:
        self._lose(None)

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        assert isinstance(protocol, asyncio.Protocol)
        self._protocol = protocol


def anybody() -> Callers:
    """Return a policy under which everybody is known."""
    return Callers(Share(1.0, 1_000_000), Descriptors(1_000_000, time.monotonic), lambda _: True)


def served(loop: JumpingLoop, application: Any, **fields: Any) -> tuple[Wire, ServerState]:
    """Return a connection to a server of an application for everybody, and what the server holds.

    ``fields`` are settings.
    """
    config = server_config(Settings(**fields), application, anybody(), has_pages=True)
    config.load()
    state = ServerState()
    return Wire(loop, config.http_protocol_class(config, state, {})), state  # type: ignore[call-arg]
