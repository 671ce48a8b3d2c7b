"""Publication to the destination's transport, else to the fallback, with an event once it is held."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from bus.domain.destination import Destination, Ordering, TransportName
from bus.domain.message import encode_message
from bus.ports.transport import OutgoingMessage
from bus.testing.clock import ManualClock
from bus.testing.events import MemoryEvents
from bus.testing.transport import MemoryTransport
from bus.testing.writes import DESTINATION, message
from bus.transports.publishing import DestinationPublisher
from bus.transports.router import TransportRouter


class Half(MemoryTransport):
    """Confirms every other message."""

    async def publish(self, batch: Sequence[OutgoingMessage]) -> list[bool]:
        return [number % 2 == 0 for number in range(len(batch))]


class Hanging(MemoryTransport):
    """Never answers."""

    async def publish(self, _: Sequence[OutgoingMessage]) -> list[bool]:
        await asyncio.Event().wait()
        return []


def batch(count: int) -> list[OutgoingMessage]:
    return [OutgoingMessage(message(number), encode_message(message(number))) for number in range(count)]


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


class Picky(MemoryTransport):
    """Confirms all but some messages, and keeps what each call had."""

    def __init__(self, *refused: str) -> None:
        super().__init__(TransportName.KAFKA)
        self.refused = set(refused)
        self.calls: list[list[str]] = []

    async def publish(self, batch: Sequence[OutgoingMessage]) -> list[bool]:
        self.calls.append([one.message.body.decode() for one in batch])
        return [one.message.body.decode() not in self.refused for one in batch]


def keyed(*bodies: str) -> list[OutgoingMessage]:
    """Make messages named by their key and number; "-1" has no key."""
    made = [
        message(number, body=body.encode(), key="" if body[0] == "-" else body[0]) for number, body in enumerate(bodies)
    ]
    return [OutgoingMessage(one, encode_message(one)) for one in made]


async def in_order(broker: Picky, *bodies: str) -> tuple[list[bool | None], list[int]]:
    held: list[int] = []
    clock = ManualClock()
    router = TransportRouter([MemoryTransport(), broker], clock)
    destination = Destination(code=DESTINATION, transport=TransportName.KAFKA, ordering=Ordering.KEY)
    found = await DestinationPublisher(router, MemoryEvents(), clock).publish(destination, keyed(*bodies), held.extend)
    return found, held


async def test_of_each_key_one_message_is_under_way_at_a_time() -> None:
    broker = Picky()
    found, held = await in_order(broker, "a1", "a2", "b1", "-1", "a3", "-2", "b2")
    assert found == [True] * 7
    assert broker.calls == [["a1", "b1", "-1", "-2"], ["a2", "b2"], ["a3"]]
    assert sorted(held) == list(range(7))


async def test_behind_a_message_that_is_not_held_none_of_its_key_goes_anywhere() -> None:
    broker = Picky("a2", "-1")
    found, held = await in_order(broker, "a1", "a2", "a3", "b1", "-1", "b2", "a4")
    assert found == [True, False, None, True, False, True, None]
    assert broker.calls == [["a1", "b1", "-1"], ["a2", "b2"]]
    assert sorted(held) == [0, 3, 5]


async def test_what_has_a_strict_order_goes_nowhere_else_since_a_group_of_brokers_has_it() -> None:
    held: list[int] = []
    direct = MemoryTransport()
    destination = Destination(code=DESTINATION, transport=TransportName.KAFKA, ordering=Ordering.STRICT)
    assert await publisher(direct).publish(destination, batch(3), held.extend) == [True] * 3
    assert held == [0, 1, 2]
    assert not direct._messages
