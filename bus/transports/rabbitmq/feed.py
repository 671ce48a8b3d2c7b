"""One queue on one cluster, read into a buffer for as long as the buffer's reader wants."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from bus.domain.message import Message
from bus.errors import TransportError, TransportUnavailable
from bus.localized_text import localized
from bus.ports.clock import Clock
from bus.ports.quarantine import Quarantine
from bus.transports.rabbitmq.buffer import Buffer, HeldDelivery
from bus.transports.rabbitmq.channel import ConsumerChannel
from bus.transports.rabbitmq.config import Patience
from bus.transports.rabbitmq.connection import Connection
from bus.transports.rabbitmq.names import Lane, queue_of
from bus.transports.rabbitmq.session import Session
from bus.transports.rabbitmq.setting_aside import set_aside

_log = logging.getLogger(__name__)
_FIRST_BACKOFF: Final = 0.1
_LONGEST_BACKOFF: Final = 2.0
_LEAST_PREFETCH: Final = 32
_MOST_PREFETCH: Final = 65_535


class Feed:
    """Consumes a queue, and consumes it again whenever the consumer, its channel or its connection vanished.

    Parameters
    ----------
    cluster
        Its name.
    noise
        Random numbers from 0 to 1.
    returned
        Called when messages that it had, or may have had, are the queue's again.

    Attributes
    ----------
    place
        The queue and its cluster, for people.
    delivered
        How many messages ever came, so that a watcher sees whether any do.
    """

    def __init__(
        self,
        cluster: str,
        connection: Connection,
        lane: Lane,
        buffer: Buffer,
        quarantine: Quarantine,
        patience: Patience,
        clock: Clock,
        noise: Callable[[], float],
        returned: Callable[[Lane], None],
    ) -> None:
        self.cluster = cluster
        self.lane = lane
        self.delivered = 0
        self._connection = connection
        self._buffer = buffer
        self._quarantine = quarantine
        self._patience = patience
        self._clock = clock
        self._noise = noise
        self._returned = returned
        self.place = f"{queue_of(lane)} on {cluster}"
        self._prefetch = _LEAST_PREFETCH
        self._consuming: ConsumerChannel | None = None
        self._trouble = ""
        self._is_wanted = False
        self._is_closing = False
        self._wake = asyncio.Event()

    def ask(self, limit: int) -> None:
        """Fetch ahead for a reader that takes up to ``limit`` messages at once."""
        prefetch = min(max(_LEAST_PREFETCH, 2 * limit), _MOST_PREFETCH)
        if not self._is_wanted or prefetch > self._prefetch:
            self._is_wanted = True
            self._prefetch = max(prefetch, self._prefetch)
            self._wake.set()

    def rest(self) -> None:
        """Return to the queue the messages fetched ahead, until messages are requested again."""
        if self._is_wanted:
            self._is_wanted = False
            self._wake.set()

    def settle(self, tag: int) -> None:
        """Ack a delivery of the channel that is open now."""
        if self._consuming is not None:
            self._consuming.finish([tag])
            self._wake.set()

    def leave(self) -> bool:
        """Have ``run`` end in order; whether it has something to put in order."""
        self._is_closing = True
        self._wake.set()
        return self._consuming is not None

    @property
    def is_reading(self) -> bool:
        """Whether the broker should deliver waiting messages to it."""
        return self._consuming is not None and not self._consuming.gone and self._consuming.has_room

    def restart(self, reason: str) -> None:
        """Consume again, on a new channel."""
        if self._consuming is not None:
            self._consuming.end(reason)

    def nudge(self) -> None:
        """Retry unreadable messages."""
        if self._consuming is not None and self._consuming.unreadable:
            self._wake.set()

    async def run(self) -> None:
        """Read until ``leave``; trouble of the broker ends nothing."""
        backoff = _FIRST_BACKOFF
        while not self._is_closing:
            if not self._is_wanted:
                self._wake.clear()
                await self._wake.wait()
                continue
            session = await self._connection.up()
            before = self.delivered
            try:
                await self._read(session)
            except TransportError as error:
                self._note(error)
            backoff = _FIRST_BACKOFF if self.delivered > before else min(backoff * 2, _LONGEST_BACKOFF)
            if not self._is_closing:
                await self._clock.sleep(backoff * (0.5 + self._noise()))

    async def _read(self, session: Session) -> None:
        """Read on one channel until it is lost.

        Raises
        ------
        TransportError
            It is gone, and why.
        """
        channel = await session.channel(within=self._patience.answer)
        consuming = ConsumerChannel(
            channel, queue_of(self.lane), self._arrived, self._wake.set, within=self._patience.answer
        )
        self._consuming = consuming
        try:
            while not consuming.gone:
                self._wake.clear()
                await self._attend(consuming)
                if self._is_closing:
                    return
                if not consuming.gone:
                    await self._wake.wait()
            raise TransportUnavailable(localized("reading {place}: {gone}", place=self.place, gone=consuming.gone))
        finally:
            # From here on nothing is acked on it, so that what is acked now comes again if it was not sent.
            self._consuming = None
            self._buffer.lose(self)
            self._returned(self.lane)
            if session.lost.is_set():
                consuming.end("the connection was lost")
            else:
                await consuming.close()

    async def _attend(self, consuming: ConsumerChannel) -> None:
        """Do all that is to be done on the channel now."""
        await consuming.flush()
        if self._is_closing:
            return
        if not self._is_wanted:
            await consuming.pause()
            await consuming.give_back(self._buffer.withdraw(self))
            self._returned(self.lane)
        elif self._prefetch != consuming.prefetch:
            await consuming.consume(self._prefetch)
            if self._trouble:
                _log.info("reading %s again", self.place)
                self._trouble = ""
        if consuming.unreadable:
            await set_aside(consuming, self.place, self._quarantine)
            await consuming.flush()

    def _arrived(self, message: Message, tag: int, redelivered: bool) -> None:
        self.delivered += 1
        self._buffer.put(HeldDelivery(message, self, tag, suspect=redelivered))

    def _note(self, error: TransportError) -> None:
        if str(error) != self._trouble:
            _log.warning("%s; it is tried again for ever", error)
        self._trouble = str(error)
