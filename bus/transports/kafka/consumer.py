"""One subscription's end of the Kafka transport."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from bus.ports.clock import Clock
from bus.ports.quarantine import Quarantine
from bus.ports.transport import IncomingMessage
from bus.transports.kafka.buffer import Buffer
from bus.transports.kafka.config import KafkaConfig
from bus.transports.kafka.connection import Cluster
from bus.transports.kafka.group import Membership
from bus.transports.kafka.quarantine_queue import QuarantineQueue
from bus.transports.kafka.start_offsets import Group


class KafkaConsumer:
    """Reads a subscription's share of the partitions.

    Parameters
    ----------
    on_close
        Called once when it has left.
    """

    def __init__(
        self,
        group: Group,
        cluster: Cluster,
        quarantine: Quarantine,
        config: KafkaConfig,
        options: dict[str, Any],
        clock: Clock,
        on_close: Callable[[KafkaConsumer], None],
    ) -> None:
        self._buffer = Buffer(config.buffer_records, config.buffer_bytes)
        aside = QuarantineQueue(quarantine, self._buffer, clock)
        self._membership = Membership(group, cluster, self._buffer, config, options, clock, aside.put)
        self._on_close = on_close
        self._taking_part = asyncio.create_task(self._membership.run())
        self._beside = [asyncio.create_task(self._membership.commit_for_ever()), asyncio.create_task(aside.run())]

    async def receive(self, limit: int) -> list[IncomingMessage]:
        """Wait for messages of the partitions that are assigned here."""
        return await self._buffer.take(limit)

    def ack(self, incoming: Sequence[IncomingMessage]) -> None:
        """Finish messages; committed within the commit interval."""
        self._buffer.ack(incoming)

    def hurry(self) -> None:
        """Commit acked records at once."""
        self._membership.hurry()

    def release(self, incoming: Sequence[IncomingMessage]) -> None:
        """Give messages back; they are the next to be received, in their order."""
        self._buffer.release(incoming)

    async def prove(self) -> bool:
        """Commit acked records; return whether Kafka accepted it, so that the partition is still this consumer's."""
        return await self._membership.prove()

    def restart(self) -> None:
        """Join the group again, after a change of the topic or of the group's commits."""
        self._membership.restart()

    async def close(self) -> None:
        """Commit acked records and leave the group, so that the others take over at once; has a deadline."""
        for task in self._beside:
            task.cancel()
        try:
            await asyncio.wait(self._beside)
        finally:  # who is cancelled here leaves all the same
            self._taking_part.cancel()
        await asyncio.wait({self._taking_part})
        self._on_close(self)
