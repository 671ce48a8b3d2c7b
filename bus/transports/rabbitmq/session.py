"""One open connection to one address, until it is lost."""

from __future__ import annotations

import asyncio
import logging
from typing import Any, Final

import aio_pika
import aiormq
from aio_pika.exceptions import InvalidFrameError
from aiormq.connection import TransportFactory
from yarl import URL

from bus.errors import TransportError, TransportRefused
from bus.sentences import sentence
from bus.transports.rabbitmq.addresses import Address
from bus.transports.rabbitmq.config import ClusterUrl
from bus.transports.rabbitmq.errors import answering

_log = logging.getLogger(__name__)
_GOODBYE: Final = 1.0
_SCHEMES: Final = {False: "amqp", True: "amqps"}


class Channel:
    """A channel, and the object that owns it: the library holds that one weakly, so somebody has to keep it."""

    def __init__(self, owner: aio_pika.abc.AbstractChannel, raw: aiormq.Channel) -> None:
        self._owner = owner
        self.raw = raw

    @property
    def is_closed(self) -> bool:
        """Whether it can be used no more."""
        return self.raw.is_closed or self._owner.is_closed

    async def close(self) -> None:
        """Close it as far as the broker answers; does nothing when it is closed already."""
        if self.is_closed:
            return
        try:
            with answering(sentence("closing a channel")):
                async with asyncio.timeout(_GOODBYE):
                    await self._owner.close()
        except TransportError as error:
            _log.debug("%s", error)


class _Dialer(TransportFactory):
    """Connects to the address that we chose, and keeps the socket within reach."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self.writer: asyncio.StreamWriter | None = None

    async def create(self, url: URL, **kwargs: Any) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        context = await kwargs["ssl_context_provider"].get_context() if url.scheme == _SCHEMES[True] else None
        reader, self.writer = await asyncio.open_connection(
            self._address.ip,
            self._address.port,
            ssl=context,
            server_hostname=self._address.name if context else None,
        )
        return reader, self.writer


class _Connection(aio_pika.Connection):
    """The library's plain connection, dialled by us; it never reconnects by itself."""

    def __init__(self, url: URL, dialer: _Dialer, name: str) -> None:
        super().__init__(url, client_properties={"connection_name": name})
        self.kwargs["transport_factory"] = dialer


class Session:
    """An open connection.

    Attributes
    ----------
    lost
        Set when it can be used no more.
    reason
        Why it was lost.
    """

    def __init__(self, connection: aio_pika.Connection, dialer: _Dialer, address: Address) -> None:
        if connection.transport is None:
            raise RuntimeError("the connection is not open")
        self._connection = connection
        self._raw = connection.transport.connection
        self._dialer = dialer
        self.address = address
        self.lost = asyncio.Event()
        self.reason = ""
        self._closing = self._raw.closing
        self._closing.add_done_callback(self._on_closed)

    @classmethod
    async def open(cls, url: ClusterUrl, address: Address, name: str, *, heartbeat: int, within: float) -> Session:
        """Connect to an address; ``name`` is what the broker's operator sees; both times are in seconds.

        Raises
        ------
        TransportUnavailable, TransportRefused
            Nobody answers there in time, or not to us.
        """
        dialer = _Dialer(address)
        connection = _Connection(_url(url, address, heartbeat), dialer, name)
        opened = False
        try:
            with answering(sentence("connecting to {address}", address=str(address))):
                async with asyncio.timeout(within):
                    await connection.connect()
            opened = True
        except TransportRefused:
            raise
        except Exception as error:
            if isinstance(error.__cause__, InvalidFrameError):
                raise TransportRefused(
                    sentence(
                        "connecting to {address}: RabbitMQ refused user {user} the virtual host {vhost}",
                        address=str(address),
                        user=repr(url.user),
                        vhost=repr(url.vhost),
                    ),
                    hint=sentence("check the virtual host at the end of the cluster's URL, and the user's permissions"),
                ) from error
            raise
        finally:
            if not opened:
                await _abandon(connection, dialer)
        return cls(connection, dialer, address)

    @property
    def frame_max(self) -> int:
        """The largest frame in bytes; a message's properties must fit into one."""
        return int(self._raw.connection_tune.frame_max or 0)

    async def channel(self, *, within: float, confirms: bool = False) -> Channel:
        """Open a channel.

        Raises
        ------
        TransportError
            It cannot be opened, or not in time.
        """
        with answering(sentence("opening a channel to {address}", address=str(self.address))):
            async with asyncio.timeout(within):
                owner = self._connection.channel(publisher_confirms=confirms, on_return_raises=confirms)
                await owner.initialize()
                raw = await owner.get_underlay_channel()
        if not isinstance(raw, aiormq.Channel):
            raise TypeError(f"the client library uses a channel of its own: {type(raw)}")
        return Channel(owner, raw)

    def abort(self, reason: str) -> None:
        """Cut the connection at once, as when nobody answers any more."""
        if not self.lost.is_set():
            self.reason = reason
            self.lost.set()
        if self._dialer.writer is not None:
            self._dialer.writer.transport.abort()

    async def close(self, *, within: float) -> None:
        """Say goodbye while the broker answers, then cut the connection."""
        try:
            with answering(sentence("closing the connection")):
                async with asyncio.timeout(within):
                    await self._connection.close()
        except Exception:  # noqa: BLE001 - whatever it was, the socket is cut below and the reason is known
            self.reason = self.reason or "it did not close in order"
        finally:
            self.abort("closed")
            await _abandon(self._connection, self._dialer)

    def _on_closed(self, closing: asyncio.Future[Any]) -> None:
        error = None if closing.cancelled() else closing.exception()
        if not self.lost.is_set():
            self.reason = str(error) or "the connection was closed"
            self.lost.set()


async def _abandon(connection: aio_pika.Connection, dialer: _Dialer) -> None:
    """Cut what is left of a connection, and tell the library that it is closed, which waits for nobody then."""
    if dialer.writer is not None:
        dialer.writer.transport.abort()
    connection.transport = None
    await connection.close()


def _url(url: ClusterUrl, address: Address, heartbeat: int) -> URL:
    """Return a URL for the library with all settings; the address to connect to is the dialer's."""
    return URL.build(
        scheme=_SCHEMES[url.tls],
        user=url.user,
        password=url.password,
        host=address.name,
        port=address.port,
        path="/" if url.vhost == "/" else f"/{url.vhost}",
        query={**url.options, "heartbeat": str(heartbeat)},
    )
