"""Messages without a slot are offered whole; while refused, one by one and ever more rarely."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

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


@pytest.mark.parametrize("answers", [True, False])
async def test_one_that_is_stopped_waits_for_the_answer_so_that_nothing_is_in_both_places(
    monkeypatch: pytest.MonkeyPatch, *, answers: bool
) -> None:
    monkeypatch.setattr("dispatcher.moving._ENDING", 5.0 if answers else 0)
    world, holder, answer = World(), Holder(), asyncio.Event()
    await world.ensure()

    async def slowly(messages: Sequence[Message]) -> int:
        handed = await holder.hand(messages)
        await answer.wait()
        return handed

    mover = QueueMover(await world.transport.consume(*subscription().key), slowly, world.clock)
    moving = asyncio.create_task(mover.run())
    await world.publish(3)
    await world.clock.settle()
    moving.cancel()
    await world.clock.settle()
    if answers:
        assert not moving.done()
        answer.set()
    await asyncio.wait([moving])
    assert moving.cancelled()
    assert (len(holder.taken), world.holds()) == (3, 0 if answers else 3)
