"""The HTTP server, and the socket that it listens on."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import socket
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

import uvicorn

from bus.bootstrap import Asgi
from bus.errors import ConfigurationError
from bus.http.endpoint import Endpoint
from bus.http.protocol import HttpProtocol
from bus.security.clients import networks_of
from bus.serving.sockets import Sockets
from bus.settings import Settings

if TYPE_CHECKING:
    from bus.http.forwarding import Elsewhere
    from bus.serving.passing import Passed

_KEEP_ALIVE: Final = 75
_BACKLOG: Final = 2048
_DATE_CHANGES: Final = 1.0
_LONGEST_MESSAGE: Final = 2**20  # of a WebSocket


class Server(uvicorn.Server):
    """uvicorn without signal handlers of its own: the roles stop in order. ``serves`` is set once it answers."""

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

    async def adopt(self, passed: Passed) -> None:
        """Serve a connection that another process has accepted, from what it has read."""
        loop, connection = asyncio.get_running_loop(), passed.connection
        connection.setblocking(False)
        try:
            await loop.connect_accepted_socket(partial(self._protocol, passed.read), connection)
        except OSError:  # the peer is gone
            connection.close()

    def _protocol(self, already_read: bytes) -> HttpProtocol:
        config = self.config
        protocol: HttpProtocol = config.http_protocol_class(  # type: ignore[call-arg, assignment]
            config=config, server_state=self.server_state, app_state=self.lifespan.state
        )
        protocol.already_read = already_read
        return protocol

    async def main_loop(self) -> None:
        """Keep the Date of answers right, until ``stop``."""
        while not await self.on_tick(0):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_DATE_CHANGES):
                    await self._stopping.wait()


class Shared(NamedTuple):
    """A port that several processes listen on, and where the requests go that only one of them serves."""

    port: int
    elsewhere: Elsewhere


def config(
    settings: Settings, app: Asgi, endpoint: Endpoint | None = None, shared: Shared | None = None, *, has_pages: bool
) -> uvicorn.Config:
    """Return how the server is set up; ``has_pages`` lets browsers hold WebSockets.

    What ``endpoint`` does not take, ``app`` answers.
    """
    proxies = networks_of(settings.trusted_proxies)
    sockets = Sockets(settings.sockets, settings.sockets_per_address, proxies, has_pages=has_pages)
    fields: dict[str, object] = {"deadline": settings.receive_timeout, "upgrades": sockets, "endpoint": endpoint}
    protocol: type[HttpProtocol] = HttpProtocol
    if shared is not None:
        from bus.http.forwarding import ForwardingProtocol  # noqa: PLC0415 - of several processes only

        protocol = ForwardingProtocol
        fields |= {"shared_port": shared.port, "elsewhere": shared.elsewhere}
    return uvicorn.Config(
        app,
        loop="uvloop",
        http=type("TimedProtocol", (protocol,), fields),
        ws=cast("type[asyncio.Protocol]", partial(_socket, sockets, settings.receive_timeout)),
        ws_max_size=_LONGEST_MESSAGE,
        ws_per_message_deflate=False,  # costs memory for each page that is open, and CPU beside the messages
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=_KEEP_ALIVE,
        timeout_graceful_shutdown=round(settings.drain_timeout),
    )


def _socket(sockets: Sockets, deadline: float, **fields: Any) -> asyncio.Protocol:
    """Return the protocol of one WebSocket."""
    from bus.serving.page_socket import PageSocket  # noqa: PLC0415 - only once a page is open

    return PageSocket(sockets, deadline, **fields)


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
