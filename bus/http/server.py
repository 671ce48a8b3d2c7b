"""The HTTP server, and the socket that it listens on."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import socket
from collections.abc import Awaitable, Callable, Iterator, Mapping
from functools import partial
from typing import Any, Final, cast

import uvicorn

from bus.errors import ConfigurationError
from bus.http.connection_filter import ConnectionFilter
from bus.http.protocol import HttpProtocol

_KEEP_ALIVE: Final = 75
_BACKLOG: Final = 2048
_DATE_CHANGES: Final = 1.0


class HttpServer(uvicorn.Server):
    """uvicorn without signal handlers of its own: a process stops in order. ``serves`` is set once it answers."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.serves = asyncio.Event()
        self._stopping = asyncio.Event()

    def stop(self) -> None:
        """Take no more connections, and have ``serve`` return once requests in flight are answered."""
        self.should_exit = True
        self._stopping.set()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave the signals alone."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Serve, and tell who waits for it."""
        await super().startup(sockets)
        self.serves.set()

    async def main_loop(self) -> None:
        """Keep the Date of answers right, until ``stop``."""
        while not await self.on_tick(0):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_DATE_CHANGES):
                    await self._stopping.wait()


def configured(
    app: Callable[..., Awaitable[None]],
    protocol: type[HttpProtocol],
    fields: Mapping[str, object],
    drain_timeout: float,
    **sockets: Any,
) -> uvicorn.Config:
    """Return how a server is set up.

    Parameters
    ----------
    fields
        What ``HttpProtocol`` wants its subclasses to have.
    drain_timeout
        For how many seconds requests in flight are waited for when it stops.
    sockets
        What uvicorn is told of WebSockets.
    """
    return uvicorn.Config(
        app,
        loop="uvloop",
        http=cast(
            "type[asyncio.Protocol]", partial(ConnectionFilter, type("TimedProtocol", (protocol,), dict(fields)))
        ),
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=_KEEP_ALIVE,
        timeout_graceful_shutdown=round(drain_timeout),
        **sockets,
    )


def bind(host: str, port: int, *, shares: bool = False, listens: bool = True) -> socket.socket:
    """Return a socket that ``listens``; others of this user may listen on the same port if it ``shares``.

    Raises
    ------
    ConfigurationError
        That is not possible.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if shares:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    try:
        listener.bind((host, port))
        if listens:
            listener.listen(_BACKLOG)
    except OSError as error:
        listener.close()
        reason = "in use" if error.errno == errno.EADDRINUSE else (error.strerror or str(error))
        raise ConfigurationError(
            f"cannot listen on {host}:{port}: {reason}", hint="choose another with --port"
        ) from error
    listener.setblocking(False)
    return listener


def url_of(listener: socket.socket) -> str:
    """Return the URL of a socket that listens."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
