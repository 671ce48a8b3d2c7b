"""The HTTP server of a bus's process."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from bus.bootstrap import Asgi
from bus.http.endpoint import Endpoint
from bus.http.protocol import HttpProtocol
from bus.http.server import HttpServer, configured
from bus.security.callers import Callers
from bus.security.clients import networks_of
from bus.serving.sockets import Sockets
from bus.settings import Settings

if TYPE_CHECKING:
    import uvicorn

    from bus.http.forwarding_protocol import PeerForwarder
    from bus.serving.connection_passer import PassedConnection

_LONGEST_MESSAGE: Final = 2**20  # of a WebSocket


class Server(HttpServer):
    """A server that also serves connections which another process of the port has accepted."""

    async def adopt(self, passed: PassedConnection) -> None:
        """Serve a connection that another process has accepted, from what it has read."""
        loop, connection = asyncio.get_running_loop(), passed.connection
        connection.setblocking(False)
        try:
            # If a stop cancelled this half-way, ``connection_lost`` would never be called for the protocol.
            await asyncio.shield(loop.connect_accepted_socket(partial(self._filter, passed.read), connection))
        except OSError:  # the peer is gone
            connection.close()

    def _filter(self, already_read: bytes) -> asyncio.Protocol:
        make: Callable[..., asyncio.Protocol] = self.config.http_protocol_class
        return make(self.config, self.server_state, self.lifespan.state, already_read=already_read)


class SharedPort(NamedTuple):
    """A port that several processes listen on, and where the requests go that only one of them serves."""

    port: int
    elsewhere: PeerForwarder


def config(
    settings: Settings,
    app: Asgi,
    callers: Callers,
    endpoint: Endpoint | None = None,
    shared: SharedPort | None = None,
    *,
    has_pages: bool,
) -> uvicorn.Config:
    """Return how the server is set up; ``has_pages`` lets browsers hold WebSockets.

    What ``endpoint`` does not take, ``app`` answers.
    """
    proxies = networks_of(settings.trusted_proxies)
    sockets = Sockets(settings.sockets, settings.sockets_per_address, proxies, has_pages=has_pages)
    fields: dict[str, object] = {
        "deadline": settings.receive_timeout,
        "callers": callers,
        "upgrades": sockets,
        "endpoint": endpoint,
    }
    protocol: type[HttpProtocol] = HttpProtocol
    if shared is not None:
        from bus.http.forwarding_protocol import ForwardingProtocol  # noqa: PLC0415 - of several processes only

        protocol = ForwardingProtocol
        fields |= {"shared_port": shared.port, "elsewhere": shared.elsewhere}
    return configured(
        callers.limited(app),
        protocol,
        fields,
        settings.drain_timeout,
        ws=cast("type[asyncio.Protocol]", partial(_socket, sockets, settings.receive_timeout)),
        ws_max_size=_LONGEST_MESSAGE,
        ws_per_message_deflate=False,  # costs memory for each page that is open, and CPU beside the messages
    )


def _socket(sockets: Sockets, deadline: float, **fields: Any) -> asyncio.Protocol:
    """Return the protocol of one WebSocket."""
    from bus.serving.page_socket import PageSocket  # noqa: PLC0415 - only once a page is open

    return PageSocket(sockets, deadline, **fields)
