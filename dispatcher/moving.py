"""The move of messages to a dispatcher that has slots, from where there are none."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from bus.domain.message import Message
from bus.domain.subscription import Subscription
from bus.ports.clock import Clock
from bus.ports.transport import Consumer

_BATCH: Final = 256
_FIRST_PAUSE: Final = 0.1
_LONGEST_PAUSE: Final = 2.0
_ENDING: Final = 5.0
Hand = Callable[[Subscription, Sequence[Message]], Awaitable[int]]
"""Hands messages to a dispatcher with slots; returns how many, from the first on, are durable there."""


class QueueMover:
    """Moves what this process's direct queue holds for one subscription.

    A message is acked here once it is durable there, so that a crash between repeats a batch and loses none. Cancelled
    meanwhile, it waits some seconds for the answer, so that what was taken there is not delivered here as well.
    """

    def __init__(self, consumer: Consumer, hand: Callable[[Sequence[Message]], Awaitable[int]], clock: Clock) -> None:
        self._consumer = consumer
        self._hand = hand
        self._clock = clock

    async def run(self) -> None:
        """Move until cancelled; while no dispatcher takes messages, one is offered, and ever more rarely."""
        pause = 0.0
        try:
            while True:
                incoming = await self._consumer.receive(1 if pause else _BATCH)
                handing = asyncio.ensure_future(self._hand([item.message for item in incoming]))
                handed = 0
                try:
                    handed = await asyncio.shield(handing)
                except asyncio.CancelledError:
                    handed = await _answered(handing)
                    raise
                finally:
                    self._consumer.ack(incoming[:handed])
                    self._consumer.release(incoming[handed:])
                pause = 0.0 if handed == len(incoming) else min(2 * pause or _FIRST_PAUSE, _LONGEST_PAUSE)
                if pause:
                    await self._clock.sleep(pause)
        finally:
            await self._consumer.close()


async def _answered(handing: asyncio.Future[int]) -> int:
    """Return how many were handed over once that is known; none when it is not soon."""
    await asyncio.wait([handing], timeout=_ENDING)
    if handing.done() and not handing.cancelled() and handing.exception() is None:
        return handing.result()
    handing.cancel()
    return 0
