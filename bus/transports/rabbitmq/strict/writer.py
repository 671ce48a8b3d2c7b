"""Writes messages to a group, one after another."""

from __future__ import annotations

import logging
import struct
from collections.abc import Callable, Sequence
from typing import Final

from aio_pika.exceptions import PublishError

from bus.domain.message import Message
from bus.errors import TransportError
from bus.localized_text import localized
from bus.transports.rabbitmq.codec import properties_of
from bus.transports.rabbitmq.config import Patience
from bus.transports.rabbitmq.session import Channel, Session
from bus.transports.rabbitmq.strict.names import exchange_of

_log = logging.getLogger(__name__)
_BYTES_PER_SECOND: Final = 10 * 2**20
# What the driver raises when it cannot put a message into frames; nothing was sent then.
_UNSENDABLE: Final = (ValueError, TypeError, struct.error)


class RabbitmqGroupWriter:
    """Has a channel of its own, which is closed with the first message that is not confirmed.

    So whatever the broker's end of it still has to give to a queue is forgotten there, and does not come late.

    Parameters
    ----------
    is_whole
        Whether no node was missed since it was made; nothing is written from when one is.
    is_wanted
        Whether a subscription's pattern takes a message, so that it must not come back.
    """

    def __init__(
        self,
        session: Session,
        channel: Channel,
        destination: str,
        is_whole: Callable[[], bool],
        is_wanted: Callable[[Message], bool],
        patience: Patience,
    ) -> None:
        self._session = session
        self._channel = channel
        self._destination = destination
        self._is_whole = is_whole
        self._is_wanted = is_wanted
        self._within = patience.confirm
        self._is_over = False

    async def write(self, messages: Sequence[Message]) -> int:
        """Write messages in order, and be over with the first that is not confirmed."""
        for count, message in enumerate(messages):
            if not await self._put(message):
                await self.close()
                return count
        return len(messages)

    async def close(self) -> None:
        """Write nothing more."""
        self._is_over = True
        if not self._session.lost.is_set():
            await self._channel.close()

    async def _put(self, message: Message) -> bool:
        if self._is_over or not self._is_whole():
            return False
        # Until it is confirmed, since a cancelled caller does not see the outcome either.
        self._is_over = True
        try:
            await self._publish(message)
        except _UNSENDABLE as error:
            _log.warning("%s: RabbitMQ cannot take message %s: %s", self._destination, message.id, error)
        except TransportError as error:
            _log.warning("message %s was not confirmed: %s", message.id, error)
        else:
            self._is_over = False
        return not self._is_over

    async def _publish(self, message: Message) -> None:
        """Publish a message and wait until two copies have it.

        Raises
        ------
        TransportError
            Whether they do is uncertain.
        """

        async def publish() -> None:
            try:
                await self._channel.raw.basic_publish(
                    message.body,
                    exchange=exchange_of(self._destination),
                    routing_key=message.routing_key,
                    properties=properties_of(message, self._session.frame_max),
                    mandatory=True,
                    wait=False,
                )
            except PublishError:
                if self._is_wanted(message):
                    raise

        within = self._within + len(message.body) / _BYTES_PER_SECOND
        await self._session.call(localized("writing to {name}", name=self._destination), publish(), within=within)
