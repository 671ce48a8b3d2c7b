"""One open connection to one address, until it is lost."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Sequence
from typing import Any, Final, TypeVar

import aio_pika
import aiormq
from aio_pika.exceptions import InvalidFrameError
from aiormq.connection import TransportFactory
from yarl import URL

from bus.call_watch import CallWatch
from bus.error_texts import error_text
from bus.errors import TransportError, TransportRefused
from bus.localized_text import LocalizedText, localized
from bus.transports.rabbitmq.addresses import Address
from bus.transports.rabbitmq.config import ClusterUrl
from bus.transports.rabbitmq.errors import answering

_log = logging.getLogger(__name__)
Value = TypeVar("Value")
_GOODBYE: Final = 1.0
_SCHEMES: Final = {False: "amqp", True: "amqps"}


class Channel:
    """A channel, and the object that owns it: the library holds that one weakly, so it has to be kept here."""

    def __init__(self, owner: aio_pika.abc.AbstractChannel, raw: aiormq.Channel, session: Session) -> None:
        self._owner = owner
        self.raw = raw
        self.session = session

    @property
    def is_closed(self) -> bool:
        """Whether it can be used no more."""
        return self.raw.is_closed or self._owner.is_closed

    async def close(self) -> None:
        """Close it as far as the broker answers; does nothing when it is closed already."""
        if self.is_closed:
            return

        async def close() -> None:
            await self._owner.close()

        try:
            await self.session.call(localized("closing a channel"), close(), within=_GOODBYE)
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

    def cut(self) -> None:
        """Cut the connection, if there is one."""
        if self.writer is not None:
            self.writer.transport.abort()


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

    def __init__(
        self, connection: aio_pika.Connection, dialer: _Dialer, address: Address, call_watch: CallWatch
    ) -> None:
        if connection.transport is None:
            raise RuntimeError("the connection is not open")
        self._connection = connection
        self._raw = connection.transport.connection
        self._dialer = dialer
        self._call_watch = call_watch
        self.address = address
        self.lost = asyncio.Event()
        self.reason = ""
        self._closing = self._raw.closing
        self._closing.add_done_callback(self._on_closed)

    @classmethod
    async def open(
        cls, url: ClusterUrl, address: Address, name: str, call_watch: CallWatch, *, heartbeat: int, within: float
    ) -> Session:
        """Connect to an address; the broker's operator sees ``name``; both times are in seconds.

        Raises
        ------
        TransportUnavailable, TransportRefused
            No broker answers there in time, or it refuses us.
        """
        dialer = _Dialer(address)
        connection = _Connection(_url(url, address, heartbeat), dialer, name)
        opened = False
        try:
            with answering(localized("connecting to {address}", address=str(address))):
                await call_watch.call(connection.connect(), within=within, client=dialer, cut=dialer.cut)
            opened = True
        except TransportRefused:
            raise
        except Exception as error:
            if isinstance(error.__cause__, InvalidFrameError):
                raise TransportRefused(
                    localized(
                        "connecting to {address}: RabbitMQ refused user {user} the virtual host {vhost}",
                        address=str(address),
                        user=repr(url.user),
                        vhost=repr(url.vhost),
                    ),
                    hint=localized(
                        "check the virtual host at the end of the cluster's URL, and the user's permissions"
                    ),
                ) from error
            raise
        finally:
            if not opened:
                await _abandon(connection, dialer)
        return cls(connection, dialer, address, call_watch)

    @property
    def frame_max(self) -> int:
        """The largest frame in bytes; a message's properties must fit into one."""
        return int(self._raw.connection_tune.frame_max or 0)

    async def call(self, doing: LocalizedText, work: Coroutine[Any, Any, Value], *, within: float) -> Value:
        """Return the result of a call of the library within so many seconds.

        A call that does not end then, although it was cancelled, costs the connection.

        Raises
        ------
        TransportError
            The broker refuses, or does not answer in time.
        """
        with answering(doing):
            return await self._call_watch.call(work, within=within, client=self, cut=self._cut, kind=doing.template)

    def start(self, work: Coroutine[Any, Any, Value]) -> asyncio.Task[Value]:
        """Start a call of the library that ``stop`` ends."""
        return self._call_watch.start(work)

    async def stop(self, calls: Sequence[asyncio.Task[Any]], *, kind: str) -> None:
        """Cancel the calls that have not ended; one that does not end then costs the connection."""
        await self._call_watch.stop(calls, client=self, cut=self._cut, kind=kind)

    async def channel(self, *, within: float, confirms: bool = False) -> Channel:
        """Open a channel.

        Raises
        ------
        TransportError
            It cannot be opened, or not in time.
        """

        async def opened() -> tuple[aio_pika.abc.AbstractChannel, aiormq.abc.AbstractChannel]:
            owner = self._connection.channel(publisher_confirms=confirms, on_return_raises=confirms)
            await owner.initialize()
            return owner, await owner.get_underlay_channel()

        doing = localized("opening a channel to {address}", address=str(self.address))
        owner, raw = await self.call(doing, opened(), within=within)
        if not isinstance(raw, aiormq.Channel):
            raise TypeError(f"the client library uses a channel of its own: {type(raw)}")
        return Channel(owner, raw, self)

    def _cut(self) -> None:
        self.abort("a call did not end in time")

    def abort(self, reason: str) -> None:
        """Cut the connection at once, as when the broker does not answer any more."""
        if not self.lost.is_set():
            self.reason = reason
            self.lost.set()
        self._dialer.cut()

    async def close(self, *, within: float) -> None:
        """Say goodbye while the broker answers, then cut the connection."""
        try:
            await self.call(localized("closing the connection"), self._connection.close(), within=within)
        except Exception:  # noqa: BLE001 - whatever it was, the socket is cut below and the reason is known
            self.reason = self.reason or "it did not close in order"
        finally:
            self.abort("closed")
            await _abandon(self._connection, self._dialer)

    def _on_closed(self, closing: asyncio.Future[Any]) -> None:
        error = None if closing.cancelled() else closing.exception()
        if not self.lost.is_set():
            self.reason = str(error_text(error)) if error else "the connection was closed"
            self.lost.set()


async def _abandon(connection: aio_pika.Connection, dialer: _Dialer) -> None:
    """Cut what is left of a connection, and mark it as closed for the library, which then does not wait."""
    dialer.cut()
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
