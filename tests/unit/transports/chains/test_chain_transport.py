"""Needs of strictly ordered destinations on each group of brokers."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from bus.domain.destination import Destination
from bus.domain.subscription import Subscription
from bus.testing.broker_group import MemoryGroup
from bus.transports.chains import transport as module
from tests.harness.waiting import until
from tests.unit.transports.chains.chains_world import CODE, ORDERS, world_of


class Slow(MemoryGroup):
    """A group that answers a request for queues only when the test says so."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.answers = asyncio.Event()
        self.answers.set()
        self.asked = 0

    async def ensure(self, destination: Destination, subscriptions: Sequence[Subscription]) -> None:
        self._reach()
        self.asked += 1
        await self.answers.wait()
        await super().ensure(destination, subscriptions)


def of(*names: str) -> list[Subscription]:
    return [Subscription(destination=CODE, name=name, url="http://a/") for name in names]


async def test_a_group_stays_behind_when_it_lacks_what_came_while_it_was_repaired(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else the messages that are written to it would not reach the new subscription."""
    monkeypatch.setattr(module, "_REPAIR", 0.01)
    async with world_of() as world:
        slow = world.groups["a"] = Slow("a")
        chains = await world.begin("one")
        transport = world.transports["one"]
        slow.set_copies(2)
        await transport.ensure(ORDERS, of("mail"))
        assert chains.behind == {(CODE, "a")}
        slow.set_copies(3)
        slow.answers.clear()
        asked = slow.asked
        running = asyncio.create_task(transport.run())
        try:
            await until(lambda: slow.asked > asked, what="the repair asks the group")
            slow.set_copies(2)
            await transport.ensure(ORDERS, of("audit"))
            slow.set_copies(3)
            slow.answers.set()
            await until(lambda: not chains.behind, what="the group has all that it needs")
            assert not chains.behind
            assert (CODE, "audit") in (slow.lags() or {})
        finally:
            running.cancel()
            await asyncio.wait([running])


@pytest.mark.parametrize("when", ["before it is repaired", "while it is repaired"])
async def test_nothing_is_made_again_of_a_destination_without_subscriptions(when: str) -> None:
    async with world_of() as world:
        slow = world.groups["a"] = Slow("a")
        await world.begin("one")
        transport = world.transports["one"]
        slow.set_copies(2)
        await transport.ensure(ORDERS, of("mail"))
        slow.set_copies(3)
        slow.answers.clear()
        asked = slow.asked
        if when == "while it is repaired":
            running = asyncio.create_task(transport._repair())
            await until(lambda: slow.asked > asked, what="the repair asks the group")
        for name in ("billing", "mail"):
            await transport.remove(CODE, name)
        slow.answers.set()
        if when == "while it is repaired":
            await running
        asked = slow.asked
        await transport._repair()
        assert slow.asked == asked
