"""One subscription's end of the transport, over all clusters."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from bus.async_helpers import lasting
from bus.ports.clock import Clock
from bus.ports.transport import IncomingMessage
from bus.transports.rabbitmq.buffer import Buffer, HeldDelivery
from bus.transports.rabbitmq.feed import Feed


class RabbitmqConsumer:
    """Reads a subscription's queues on all clusters at once, all the time.

    What is fetched ahead is bounded by the channels' prefetch: twice what a reader takes at once.

    Parameters
    ----------
    left
        Called when it is closed.
    close_within
        Seconds that ``close`` may take.
    """

    def __init__(
        self,
        buffer: Buffer,
        feeds: Sequence[Feed],
        clock: Clock,
        left: Callable[[RabbitmqConsumer], None],
        *,
        close_within: float,
    ) -> None:
        self.buffer = buffer
        self.feeds = feeds
        self._clock = clock
        self._left = left
        self._close_within = close_within
        self._readers = 0
        self._read_at = clock.monotonic()
        self._tasks = {
            feed: asyncio.create_task(lasting(f"reading {feed.place}", feed.run, clock.sleep)) for feed in feeds
        }

    async def receive(self, limit: int) -> list[IncomingMessage]:
        """Wait for messages and return at least one, at most ``limit``; cancelling loses none."""
        for feed in self.feeds:
            feed.ask(limit)
        self._readers += 1
        try:
            while not (entries := self.buffer.take(limit)):
                await self.buffer.filled.wait()
        finally:
            self._readers -= 1
            self._read_at = self._clock.monotonic()
        return [IncomingMessage(entry.message, entry, entry.suspect) for entry in entries]

    def ack(self, incoming: Sequence[IncomingMessage]) -> None:
        """Finish messages."""
        self.buffer.finish(_entries(incoming))

    def release(self, incoming: Sequence[IncomingMessage]) -> None:
        """Give messages back; this reader gets them first."""
        self.buffer.give_back(_entries(incoming))

    async def close(self) -> None:
        """Send the acks, and give back the rest, as far as the clusters answer in time."""
        self._left(self)
        for feed, task in self._tasks.items():
            if not feed.leave():
                task.cancel()
        _, late = await asyncio.wait(self._tasks.values(), timeout=self._close_within)
        for task in late:
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    def rest_after(self, seconds: float) -> None:
        """Give back messages fetched ahead when none was requested for so long."""
        if not self._readers and self._clock.monotonic() - self._read_at > seconds:
            for feed in self.feeds:
                feed.rest()


def _entries(incoming: Sequence[IncomingMessage]) -> list[HeldDelivery]:
    entries = [item.token for item in incoming]
    if not all(isinstance(entry, HeldDelivery) for entry in entries):
        raise TypeError("this delivery came by another transport")
    return [entry for entry in entries if isinstance(entry, HeldDelivery)]
