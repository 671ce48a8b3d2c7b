"""One subscription's end of a group of two brokers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from bus.ports.transport import IncomingMessage
from bus.transports.kafka.consumer import KafkaConsumer

_BACKOFF: Final = 0.1


class KafkaReader:
    """Reads a topic's one partition while its consumer group has given it to this reader, and hands out nothing else.

    A process that stood still cannot detect that its partition was assigned to another one. So what is received after
    a while is handed out only once the group has taken another commit of this reader.

    Parameters
    ----------
    has_nothing_left
        Asks the brokers whether they hold anything beyond the subscription's commit.
    trust
        How long the group's last answer is relied on, in seconds; less than its session time-out.
    """

    def __init__(self, consumer: KafkaConsumer, has_nothing_left: Callable[[], Awaitable[bool]], trust: float) -> None:
        self._consumer = consumer
        self._has_nothing_left = has_nothing_left
        self._trust = trust
        self._trusted_until = 0.0

    async def receive(self, limit: int) -> list[IncomingMessage]:
        """Wait for messages that are this reader's alone."""
        while True:
            found = await self._consumer.receive(limit)
            try:
                if await self._is_ours():
                    return found
            except asyncio.CancelledError:
                self._consumer.release(found)
                raise
            self._consumer.release(found)
            await asyncio.sleep(_BACKOFF)

    def ack(self, incoming: Sequence[IncomingMessage]) -> None:
        """Finish messages; committed at once, or with others while they are many, so that a crash repeats few."""
        self._consumer.ack(incoming)
        self._consumer.hurry()

    def release(self, incoming: Sequence[IncomingMessage]) -> None:
        """Give messages back; they are the next to be received, in their order."""
        self._consumer.release(incoming)

    async def is_drained(self) -> bool:
        """Commit acked records, and ask the brokers whether anything is left beyond the commit.

        What was written and not confirmed is left behind once its transaction is aborted. While it is undecided nothing
        is drained, so that it cannot come afterwards.
        """
        await self._consumer.prove()
        return await self._has_nothing_left()

    async def close(self) -> None:
        """Commit acked records and leave the group, so that the next reader begins at once; has a deadline."""
        await self._consumer.close()

    async def _is_ours(self) -> bool:
        now = asyncio.get_running_loop().time()
        if now >= self._trusted_until:
            if not await self._consumer.prove():
                return False
            self._trusted_until = now + self._trust
        return True
