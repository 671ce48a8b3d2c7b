"""What is published goes to the destination's transport, else to the fallback, and is told of once it is held."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from bus.domain.destination import Destination, TransportName
from bus.domain.message import encode_message
from bus.ports.transport import Outgoing
from bus.testing.clock import ManualClock
from bus.testing.events import MemoryEvents
from bus.testing.transport import MemoryTransport
from bus.testing.writes import DESTINATION, message
from bus.transports.publishing import DestinationPublisher
from bus.transports.router import TransportRouter


class Half(MemoryTransport):
    """Confirms every other message."""

    async def publish(self, batch: Sequence[Outgoing]) -> list[bool]:
        return [number % 2 == 0 for number in range(len(batch))]


class Hanging(MemoryTransport):
    """Never answers."""

    async def publish(self, _: Sequence[Outgoing]) -> list[bool]:
        await asyncio.Event().wait()
        return []


def batch(count: int) -> list[Outgoing]:
    return [Outgoing(message(number), encode_message(message(number))) for number in range(count)]


def publisher(fallback: MemoryTransport) -> DestinationPublisher:
    clock = ManualClock()
    return DestinationPublisher(TransportRouter([fallback, Half(TransportName.KAFKA)], clock), MemoryEvents(), clock)


async def test_what_the_broker_holds_is_told_while_the_fallback_hangs() -> None:
    held: list[int] = []
    destination = Destination(code=DESTINATION, transport=TransportName.KAFKA)
    publishing = asyncio.create_task(publisher(Hanging()).publish(destination, batch(4), held.extend))
    for _ in range(10):
        await asyncio.sleep(0)
    assert held == [0, 2]
    assert not publishing.done()
    publishing.cancel()
    await asyncio.gather(publishing, return_exceptions=True)


async def test_each_is_told_of_once_by_its_number() -> None:
    held: list[int] = []
    destination = Destination(code=DESTINATION, transport=TransportName.KAFKA)
    assert await publisher(MemoryTransport()).publish(destination, batch(5), held.extend) == [True] * 5
    assert held == [0, 2, 4, 1, 3]
