"""Sets records aside that are no messages, for as long as it takes, while reading continues."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from typing import Final

from bus.errors import SpoolError
from bus.ports.clock import Clock
from bus.ports.quarantine import ForeignRecord, Quarantine
from bus.transports.kafka.buffer import Buffer
from bus.transports.kafka.commits import Window

_log = logging.getLogger(__name__)
_BACKOFF: Final = 1.0


class QuarantineQueue:
    """A queue in front of the quarantine; a record counts as finished when it is durable there."""

    def __init__(self, quarantine: Quarantine, buffer: Buffer, clock: Clock) -> None:
        self._quarantine = quarantine
        self._buffer = buffer
        self._clock = clock
        self._queue: deque[tuple[ForeignRecord, Window | None, int, int]] = deque()
        self._arrived = asyncio.Event()

    def put(self, foreign: ForeignRecord, partition: int, offset: int) -> None:
        """Queue a record that was just admitted."""
        self._queue.append((foreign, self._buffer.window(partition), partition, offset))
        self._arrived.set()

    async def run(self) -> None:
        """Move queued records to the quarantine until cancelled."""
        while True:
            while not self._queue:
                self._arrived.clear()
                await self._arrived.wait()
            foreign, window, partition, offset = self._queue[0]
            try:
                await self._quarantine.keep(foreign)
            except SpoolError as error:
                _log.warning("kafka: %s cannot be set aside yet and stays in the topic: %s", foreign.place, error)
                await self._clock.sleep(_BACKOFF)
                continue
            self._queue.popleft()
            self._buffer.finish_foreign(window, partition, offset, len(foreign.payload))
