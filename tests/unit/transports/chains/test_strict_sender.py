"""Writes go one after the other, and no caller waits in vain."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from bus.domain.catalog import Catalog
from bus.errors import NotLeader
from bus.ports.broker_group import AWAY, GroupStatus
from bus.testing.broker_group import MemoryGroup
from bus.testing.clock import ManualClock
from bus.transports.chains.sender import StrictSender
from tests.unit.transports.chains.chains_world import CODE, world_of


class Hung(MemoryGroup):
    """A group of which nothing answers in time."""

    def __init__(self, name: str, clock: ManualClock) -> None:
        super().__init__(name)
        self._clock = clock
        self.hangs = False

    async def standing(self, destination: str, subscriptions: Sequence[str]) -> GroupStatus:
        if not self.hangs:
            return await super().standing(destination, subscriptions)
        await self._clock.sleep(3)
        return AWAY


async def test_nobody_waits_for_a_process_that_has_ended() -> None:
    async with world_of() as world:
        chains = await world.begin("one")
        assert len(await chains.send(CODE, world.messages(1))) == 1
        await world.end("one")
        async with asyncio.timeout(30):
            with pytest.raises(NotLeader):
                await chains.send(CODE, world.messages(1))


async def test_what_waits_for_a_sender_that_ends_before_it_began_is_refused() -> None:
    async with world_of() as world:
        chains = await world.begin("one")
        found = chains._strict[CODE]
        assert found.rules is not None
        found.sender = StrictSender(CODE, found.rules, found.driver)
        waiting = asyncio.create_task(found.sender.send(world.messages(1)))
        await asyncio.sleep(0)
        await chains.apply(Catalog())
        async with asyncio.timeout(30):
            with pytest.raises(NotLeader):
                await waiting


async def test_while_no_group_takes_messages_all_that_wait_are_told_so_at_once() -> None:
    """Else each would wait for the time-outs of those before it, and its producer sends it again meanwhile."""
    async with world_of() as world:
        groups = [Hung(name, world.clock) for name in world.groups]
        world.groups.update({group.name: group for group in groups})
        chains = await world.begin("one")
        for group in groups:
            group.set_copies(0)
            group.hangs = True
        asked = [asyncio.create_task(chains.send(CODE, world.messages(300))) for _ in range(4)]
        await world.clock.advance(12)
        assert all(task.done() for task in asked)
        assert not any(task.result() for task in asked)
        for group in groups:
            group.set_copies(3)
            group.hangs = False
        assert len(await chains.send(CODE, world.messages(1))) == 1
