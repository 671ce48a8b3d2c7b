"""What waits without a permit is offered whole; while it is refused, one by one and ever more rarely."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from bus.domain.message import Message
from dispatcher.moving import QueueMover
from tests.unit.dispatcher.dispatcher_world import World, subscription


class Holder:
    """Takes messages unless it is full; ``offered`` has how many were offered each time."""

    def __init__(self) -> None:
        self.is_full = False
        self.offered: list[int] = []
        self.taken: list[Message] = []

    async def hand(self, messages: Sequence[Message]) -> int:
        self.offered.append(len(messages))
        if self.is_full:
            return 0
        self.taken += messages
        return len(messages)


async def test_a_holder_that_is_full_is_asked_for_one_message_and_ever_more_rarely() -> None:
    world, holder = World(), Holder()
    await world.ensure()
    mover = QueueMover(await world.transport.consume(*subscription().key), holder.hand, world.clock)
    moving = asyncio.create_task(mover.run())
    sent = await world.publish(10)
    await world.clock.settle()
    assert (holder.offered, world.holds()) == ([10], 0)
    holder.is_full = True
    sent += await world.publish(10)
    await world.clock.advance(60)
    assert holder.offered[1:3] == [10, 1]
    assert set(holder.offered[2:]) == {1}
    assert 30 <= len(holder.offered) <= 40
    holder.is_full = False
    await world.clock.advance(5)
    assert [one.id for one in holder.taken] == [one.id for one in sent]
    assert (holder.offered[-2:], world.holds()) == ([1, 9], 0)
    moving.cancel()
    await asyncio.wait([moving])
