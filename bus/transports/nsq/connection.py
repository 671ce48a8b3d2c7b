"""One connection to one nsqd: the handshake, and then commands out and frames in."""

from __future__ import annotations

import asyncio
import logging
import re
import ssl
from collections import deque
from collections.abc import Callable
from typing import Final, cast

from bus.error_texts import error_text
from bus.localized_text import localized
from bus.transports.nsq.config import Address, NsqConfig
from bus.transports.nsq.errors import ConnectionLost, ErrorFrame, NotNsq, NsqFault, PermissionRefused
from bus.transports.nsq.protocol import commands, features
from bus.transports.nsq.protocol.compression import Codec, Deflate, Snappy
from bus.transports.nsq.protocol.features import NegotiatedFeatures
from bus.transports.nsq.protocol.frames import ERROR, HEARTBEAT, MESSAGE, FrameReader, first_frame, read_error

_log = logging.getLogger(__name__)
# These commands have no answer when they work, so an error belongs to none that waits.
_UNASKED: Final = frozenset({"E_FIN_FAILED", "E_REQ_FAILED", "E_TOUCH_FAILED"})
_ENDING: Final = re.compile("(?:FIN|REQ) ([0-9a-f]{16}) failed ")
_SILENT_BEATS: Final = 2.2
_CLOSING: Final = 1.0

Deliver = Callable[[list[bytes]], None]
Refused = Callable[[bytes], None]


def _unexpected(payloads: list[bytes]) -> None:
    _log.warning("nsqd sent %d messages to a connection that subscribed to none", len(payloads))


def _unnoticed(message_id: bytes) -> None:
    _log.debug("nsqd refused FIN or REQ of %r on a connection that has no messages", message_id)


class Connection(asyncio.Protocol):
    """Commands in order, answers in the same order; heartbeats are answered, and a silent peer is given up.

    Made by ``connect``; commands of one turn of the event loop leave in one write.

    Attributes
    ----------
    agreed
        What IDENTIFY agreed on.
    deliver
        Called with the payloads of the message frames that arrived together.
    refused
        Called with the id of a message whose FIN or REQ nsqd refused.
    """

    def __init__(self, address: Address) -> None:
        self.address = address
        self.agreed = NegotiatedFeatures()
        self.deliver: Deliver = _unexpected
        self.refused: Refused = _unnoticed
        self._loop = asyncio.get_running_loop()
        self._transport = cast("asyncio.Transport", None)
        self._codec: Codec | None = None
        self._early: bytes | None = b""
        self._frames = FrameReader()
        self._out: list[bytes] = []
        self._waiting: deque[asyncio.Future[bytes]] = deque()
        self._lost: asyncio.Future[NsqFault] = self._loop.create_future()
        self._why: NsqFault | None = None
        self._heard = self._loop.time()
        self._timer: asyncio.TimerHandle | None = None

    @property
    def alive(self) -> bool:
        """Whether commands can still be sent."""
        return self._why is None and not self._lost.done()

    async def lost(self) -> NsqFault:
        """Wait until the connection is lost, and return why."""
        return await asyncio.shield(self._lost)

    def send(self, command: bytes) -> None:
        """Send a command that has no answer; no effect on a lost connection."""
        if not self._out:
            self._loop.call_soon(self._flush)
        self._out.append(command)

    def ask(self, command: bytes) -> asyncio.Future[bytes]:
        """Send a command; the future ends with nsqd's answer, or with an ``NsqFault``.

        Cancelling it leaves open whether the command took effect.
        """
        answer = self._loop.create_future()
        if self.alive:
            self._waiting.append(answer)
            self.send(command)
        else:
            answer.set_exception(
                ConnectionLost(
                    localized("no connection to {address}: {error}", address=str(self.address), error=str(self._why))
                )
            )
        return answer

    def give_up(self, why: NsqFault) -> None:
        """End the connection at once; the outcome of unanswered commands stays unknown."""
        if self._why is None:
            self._why = why
            self._transport.abort()

    def end(self, why: NsqFault) -> None:
        """Send buffered commands, and end the connection, after a moment at the latest."""
        if self.alive:
            self._flush()
            self._why = why
            self._transport.close()
            self._loop.call_later(_CLOSING, self._transport.abort)

    async def close(self) -> None:
        """Send buffered commands, end the connection, and wait a moment until it is closed."""
        self.end(ConnectionLost(localized("the connection to {address} was closed here", address=str(self.address))))
        try:
            await asyncio.wait([self._lost], timeout=_CLOSING)
        finally:
            if not self._lost.done():
                self._transport.abort()
        await asyncio.wait([self._lost], timeout=_CLOSING)

    # What the event loop calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the transport."""
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Hand out frames."""
        self._heard = self._loop.time()
        try:
            if self._early is not None:
                self._early += data
                self._read_early()
                return
            frames = self._frames.feed(data if self._codec is None else self._codec.decode(data))
        except NotNsq as fault:
            self.give_up(fault)
            return
        messages: list[bytes] = []
        for kind, payload in frames:
            if kind == MESSAGE:
                messages.append(payload)
            elif kind == ERROR:
                self._fail(read_error(payload))
            elif payload == HEARTBEAT:
                self.send(commands.NOP)
            else:
                self._answer(payload)
        if messages:
            self._hand_over(messages)

    def connection_lost(self, exc: Exception | None) -> None:
        """Report the loss to all waiting callers."""
        if self._timer is not None:
            self._timer.cancel()
        if self._why is None:
            self._why = ConnectionLost(
                localized(
                    "the connection to {address} was lost: {error}",
                    address=str(self.address),
                    error=error_text(exc, str(self.address)) if exc else localized("nsqd closed it"),
                )
            )
        fault = NotNsq if isinstance(self._why, NotNsq) else ConnectionLost
        while self._waiting:
            answer = self._waiting.popleft()
            if not answer.done():
                answer.set_exception(fault(str(self._why)))
        if not self._lost.done():
            self._lost.set_result(self._why)

    # Frames.

    def _answer(self, payload: bytes) -> None:
        if not self._waiting:
            self.give_up(NotNsq(localized("an answer to nothing: {text}", text=repr(payload[:60]))))
            return
        answer = self._waiting.popleft()
        if not answer.done():
            answer.set_result(payload)

    def _fail(self, error: ErrorFrame) -> None:
        if error.code in _UNASKED:
            _log.debug("%s: %s", self.address, error)
            if (named := _ENDING.match(error.detail)) is not None:
                self.refused(named[1].encode())
        elif self._waiting:
            answer = self._waiting.popleft()
            if not answer.done():
                answer.set_exception(error)
        else:
            self.give_up(error)

    def _hand_over(self, messages: list[bytes]) -> None:
        try:
            self.deliver(messages)
        except NotNsq as fault:
            self.give_up(fault)

    def _flush(self) -> None:
        data = b"".join(self._out)
        self._out.clear()
        if data and self.alive:
            self._transport.write(data if self._codec is None else self._codec.encode(data))

    # The handshake.

    async def begin(self, config: NsqConfig, *, is_extended: bool) -> None:
        """Agree on features, encrypt, compress, authenticate; only then anything else may be sent."""
        self.send(commands.VERSION)
        request = features.request(config, is_extended=is_extended)
        self.agreed = features.read_answer(await self.ask(commands.identify(request)), config)
        if self.agreed.tls_v1 and config.tls is not None:
            await self._encrypt(config.tls)
        if self.agreed.snappy or self.agreed.deflate:
            await self._compress(Snappy() if self.agreed.snappy else Deflate())
        else:
            self._read_on()
        if self.agreed.auth_required:
            await self.ask(commands.auth(config.auth_secret.encode()))
        # An nsqd that demands TLS agrees to features without, and refuses whatever comes first.
        self.send(commands.NOP)
        self._watch(config.heartbeat)

    async def _encrypt(self, context: ssl.SSLContext) -> None:
        ready = self._expect()
        try:
            encrypted = await self._loop.start_tls(self._transport, self, context, server_hostname=self.address.host)
        except BaseException as error:
            ready.cancel()
            self.connection_lost(None)  # the loop reports it to its TLS layer only
            if isinstance(error, ssl.SSLError):
                raise PermissionRefused(
                    localized(
                        "no TLS with {address}: {error}",
                        address=str(self.address),
                        error=error_text(error, str(self.address)),
                    )
                ) from error
            raise
        self._transport = cast("asyncio.Transport", encrypted)
        await ready

    async def _compress(self, codec: Codec) -> None:
        ready = self._expect()
        self._codec = codec
        self._read_on()
        await ready

    def _expect(self) -> asyncio.Future[bytes]:
        """Wait for an answer that nsqd gives unasked."""
        ready: asyncio.Future[bytes] = self._loop.create_future()
        self._waiting.append(ready)
        return ready

    def _read_early(self) -> None:
        """Read one answer when one is waited for: what follows it may be in another form."""
        if self._waiting and self._early and (found := first_frame(self._early)) is not None:
            (kind, payload), self._early = found
            if kind == ERROR:
                self._fail(read_error(payload))
            else:
                self._answer(payload)

    def _read_on(self) -> None:
        """End the part of the handshake in which the form of the stream changes."""
        early, self._early = self._early, None
        if early:
            self.data_received(early)

    # The watch over a silent peer.

    def _watch(self, heartbeat: float) -> None:
        silent = self._loop.time() - self._heard
        if silent > heartbeat * _SILENT_BEATS:
            self.give_up(
                ConnectionLost(
                    localized(
                        "{address} has been silent for {seconds} s", address=str(self.address), seconds=f"{silent:.1f}"
                    )
                )
            )
        elif self.alive:
            self._timer = self._loop.call_later(heartbeat, self._watch, heartbeat)


async def connect(address: Address, config: NsqConfig, *, is_extended: bool = False) -> Connection:
    """Open a connection that is ready for commands.

    Parameters
    ----------
    is_extended
        It is to subscribe to a topic whose messages may have headers.

    Raises
    ------
    Disconnected
        No process answers, or not within ``config.timeout``.
    Denied
        Certificate, secret or features do not match.
    NotNsq
        Another service accepts connections there.
    """
    loop = asyncio.get_running_loop()
    connection: Connection | None = None
    try:
        async with asyncio.timeout(config.timeout):
            _, connection = await loop.create_connection(lambda: Connection(address), address.host, address.port)
            await connection.begin(config, is_extended=is_extended)
    except TimeoutError:
        raise ConnectionLost(
            localized(
                "{address} does not answer within {seconds} s", address=str(address), seconds=f"{config.timeout:g}"
            )
        ) from None
    except ErrorFrame as error:
        raise PermissionRefused(
            localized("{address} refuses: {error}", address=str(address), error=str(error))
        ) from error
    except OSError as error:
        raise ConnectionLost(
            localized("cannot reach {address}: {error}", address=str(address), error=error_text(error, str(address)))
        ) from error
    except (UnicodeError, OverflowError) as error:  # a name or a port that no network has
        raise ConnectionLost(
            localized("cannot reach {address}: {error}", address=str(address), error=error_text(error))
        ) from error
    else:
        ready, connection = connection, None
        return ready
    finally:
        if connection is not None:
            connection.give_up(ConnectionLost(localized("no handshake with {address}", address=str(address))))
            await connection.close()
