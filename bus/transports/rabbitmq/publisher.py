"""Publishing to one cluster: a batch in one go, each message confirmed by itself."""

from __future__ import annotations

import asyncio
import enum
import logging
import re
import struct
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import pamqp.exceptions
from aio_pika.exceptions import ChannelClosed, ChannelNotFoundEntity, DeliveryError, PublishError

from bus.domain.message import Message
from bus.domain.routing_pattern import matches
from bus.errors import TransportError
from bus.localized_text import AnyText, localized
from bus.ports.clock import Clock
from bus.transports.rabbitmq.codec import properties_of
from bus.transports.rabbitmq.config import Patience
from bus.transports.rabbitmq.connection import Connection
from bus.transports.rabbitmq.names import exchange_of
from bus.transports.rabbitmq.session import Channel, Session
from bus.transports.rabbitmq.topology import Topology, WantedBindings

_log = logging.getLogger(__name__)
_BIG: Final = 2**20
_IDLE_CHANNELS: Final = 8
_BYTES_PER_SECOND: Final = 10 * 2**20
# What the driver raises when it cannot put a message into frames; nothing was sent then.
_TOO_LARGE: Final = re.compile(r"larger than configured max size (\d+)")
_UNSENDABLE: Final = (ValueError, TypeError, struct.error, pamqp.exceptions.PAMQPException)


_MOST_SPARED: Final = 12


class Verdict(enum.Enum):
    """The outcome of publishing a message to a cluster."""

    CONFIRMED = "confirmed"
    """It holds the message for every subscription whose pattern takes it."""
    DECLINED = "declined"
    """It answers and does not hold this one."""
    UNKNOWN = "unknown"
    """It did not answer, and may hold it."""


class Silence(NamedTuple):
    """How long a destination is not tried, as nothing of it was confirmed while its cluster answered: a queue hangs."""

    until: float
    lasting: float


class Publisher:
    """Publishes on one connection of a cluster. Each batch has a channel for itself, so that no other ends with it.

    A destination of which nothing is confirmed, as when its queue has no majority, is not tried again for a while, so
    that its messages do not wait for a deadline each time.
    """

    def __init__(
        self,
        name: str,
        connection: Connection,
        topology: Topology,
        wanted: WantedBindings,
        patience: Patience,
        clock: Clock,
    ) -> None:
        self._name = name
        self._connection = connection
        self._topology = topology
        self._wanted = wanted
        self._patience = patience
        self._clock = clock
        self._silent: dict[str, Silence] = {}
        self._idle: list[Channel] = []
        self._session: Session | None = None
        self._limit: int | None = None

    def takes(self, destination: str) -> bool:
        """Whether it is worth while to publish a destination's messages now."""
        silence = self._silences.get(destination)
        is_spared = silence is not None and self._clock.monotonic() < silence.until
        return self._topology.carries(destination) and not is_spared

    def trouble(self) -> AnyText:
        """Return the destinations that had no recent confirmation; empty for none."""
        now = self._clock.monotonic()
        names = sorted(code for code, silence in self._silences.items() if now < silence.until + silence.lasting)
        if not names:
            return ""
        return localized(
            "{name} confirms nothing of {names}: a queue may be without a leader",
            name=self._name,
            names=", ".join(names),
        )

    async def publish(self, batch: Sequence[Message]) -> list[Verdict]:
        """Publish messages and return the verdict on each, in order, before a deadline."""
        session = self._connection.session
        if session is None:
            return [Verdict.UNKNOWN] * len(batch)
        if session is not self._session:
            self._session, self._limit = session, None
            self._idle.clear()
            self._silent.clear()
        found: dict[int, Verdict] = {}
        size = sum(len(message.body) for message in batch)
        try:
            async with asyncio.timeout(self._patience.confirm + size / _BYTES_PER_SECOND):
                await self._publish(session, batch, found)
        except TimeoutError:
            _log.warning("%s confirmed %d of %d messages in time", self._name, len(found), len(batch))
        except TransportError as error:
            _log.warning("%s confirmed %d of %d messages: %s", self._name, len(found), len(batch), error)
        if not session.lost.is_set():
            self._note_silences(batch, found)
        return [found.get(n, Verdict.UNKNOWN) for n in range(len(batch))]

    def _note_silences(self, batch: Sequence[Message], found: Mapping[int, Verdict]) -> None:
        heard = {batch[n].destination for n in found}
        for destination in heard:
            self._silent.pop(destination, None)
        for destination in {message.destination for message in batch} - heard:
            before, first = self._silent.get(destination), self._patience.spared
            lasting = first if before is None else min(2 * before.lasting, _MOST_SPARED * first)
            self._silent[destination] = Silence(self._clock.monotonic() + lasting, lasting)

    @property
    def _silences(self) -> dict[str, Silence]:
        """The silences that were noted on the connection in use."""
        return self._silent if self._connection.session is self._session else {}

    async def _publish(self, session: Session, batch: Sequence[Message], found: dict[int, Verdict]) -> None:
        """Publish small messages together; big ones alone, since RabbitMQ refuses one by closing the channel."""
        for n, message in enumerate(batch):
            if self._limit is not None and len(message.body) > self._limit:
                found[n] = self._declined(message, f"{len(message.body)} bytes are more than its {self._limit}")
        small = [n for n, one in enumerate(batch) if n not in found and len(one.body) <= _BIG]
        await self._together(session, batch, small, found)
        for n in range(len(batch)):
            if n in found or session.lost.is_set():
                continue
            # Big, or the channel was closed because of one of them and it is unknown which.
            if self._topology.carries(batch[n].destination):
                await self._together(session, batch, [n], found)
            else:
                found[n] = Verdict.DECLINED

    async def _together(
        self, session: Session, batch: Sequence[Message], numbers: Sequence[int], found: dict[int, Verdict]
    ) -> None:
        """Publish on one channel without waiting in between, then wait for all confirmations."""
        if not numbers:
            return
        channel = await self._take(session)
        tasks = [session.start(self._send(session, channel, batch[n])) for n in numbers]
        # What is sent after the broker closed the connection, and before its channels are closed, is never answered.
        lost: asyncio.Future[Any] = asyncio.create_task(session.lost.wait())
        try:
            answered: asyncio.Future[Any] = asyncio.gather(*tasks, return_exceptions=True)
            await asyncio.wait([answered, lost], return_when=asyncio.FIRST_COMPLETED)
        finally:
            lost.cancel()
            await session.stop(tasks, kind="publishing")
            verdicts = [
                self._verdict(task, batch[n], alone=len(numbers) == 1) for n, task in zip(numbers, tasks, strict=True)
            ]
            found |= {n: verdict for n, verdict in zip(numbers, verdicts, strict=True) if verdict is not None}
            await self._put_back(session, channel, clean=None not in verdicts)

    async def _send(self, session: Session, channel: Channel, message: Message) -> object:
        return await channel.raw.basic_publish(
            message.body,
            exchange=exchange_of(message.destination),
            routing_key=message.routing_key,
            properties=properties_of(message, session.frame_max),
            mandatory=True,
            wait=False,
        )

    def _verdict(self, task: asyncio.Task[object], message: Message, *, alone: bool) -> Verdict | None:
        """Return the verdict on one message; None when its channel or connection was lost, so that it is uncertain."""
        if not task.done() or task.cancelled():
            return None
        error = task.exception()
        if error is None:
            return Verdict.CONFIRMED
        if isinstance(error, PublishError):
            return self._returned(message)
        if isinstance(error, (DeliveryError, *_UNSENDABLE)) or (alone and isinstance(error, ChannelClosed)):
            if isinstance(error, ChannelNotFoundEntity):
                self._topology.note_missing(message.destination)
            if limit := _TOO_LARGE.search(str(error)):
                self._limit = int(limit[1])
            return self._declined(message, str(error))
        return None

    def _declined(self, message: Message, reason: str) -> Verdict:
        _log.warning("%s does not take message %s of %s: %s", self._name, message.id, message.destination, reason)
        return Verdict.DECLINED

    def _returned(self, message: Message) -> Verdict:
        """Judge a returned message: confirmed if no pattern matches it, else declined since its queues are missing."""
        patterns = self._wanted.patterns.get(message.destination, {}).values()
        if not any(matches(pattern, message.routing_key) for pattern in patterns):
            return Verdict.CONFIRMED
        self._topology.note_missing(message.destination)
        return Verdict.DECLINED

    async def _take(self, session: Session) -> Channel:
        while self._idle:
            channel = self._idle.pop()
            if not channel.is_closed:
                return channel
        return await session.channel(within=self._patience.answer, confirms=True)

    async def _put_back(self, session: Session, channel: Channel, *, clean: bool) -> None:
        if clean and not channel.is_closed and session is self._session and len(self._idle) < _IDLE_CHANNELS:
            self._idle.append(channel)
        elif not session.lost.is_set():
            await channel.close()
