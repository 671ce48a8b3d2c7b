"""Changes by other processes come into force; a process that may have missed one reads it first."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec
import pytest

from bus.cluster import configuration
from bus.cluster.configuration import CONFIRMED_WITHIN, ConfigurationFollower
from bus.domain.destination import Destination
from bus.domain.subscription import Subscription
from bus.errors import StoreUnavailable
from bus.ports.store import Document
from bus.registry import DESTINATIONS, REMOVED, SETTINGS, SUBSCRIPTIONS, Preference, Rates, Registry
from bus.security.secrets import SecretBox
from bus.testing.clock import ManualClock
from bus.testing.store import MemoryStore

ORDERS = Destination(code="orders", store_rate=5.0)
BILLING = Subscription(destination="orders", name="billing", url="http://a.example/")


class SlowStore(MemoryStore):
    """A store that hangs while its gate is closed, or answers with an error."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = asyncio.Event()
        self.gate.set()
        self.is_down = False
        self.listed: list[str] = []

    async def get(self, collection: str, key: str) -> Document | None:
        await self.gate.wait()
        if self.is_down:
            raise StoreUnavailable("down")
        return await super().get(collection, key)

    async def list(
        self, collection: str, *, prefix: str = "", after: str = "", limit: int | None = None
    ) -> list[Document]:
        self.listed.append(collection)
        return await super().list(collection, prefix=prefix, after=after, limit=limit)


class Seen:
    """What the other processes see of this one."""

    def __init__(self, clock: ManualClock) -> None:
        self._clock = clock
        self.silent_since: float | None = None

    @property
    def told_at(self) -> float:
        return self._clock.monotonic() if self.silent_since is None else self.silent_since


class World:
    def __init__(self) -> None:
        self.clock = ManualClock()
        self.store = SlowStore()
        self.ours, self.theirs = (Registry(self.store, SecretBox(None)) for _ in range(2))
        self.seen = Seen(self.clock)
        self.follower = ConfigurationFollower(self.ours, self.seen, self.clock)  # type: ignore[arg-type]

    @asynccontextmanager
    async def following(self) -> AsyncIterator[None]:
        running = asyncio.create_task(self.follower.run())
        await self.clock.settle()
        try:
            yield
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    def wait(self) -> asyncio.Task[None]:
        return asyncio.create_task(self.follower.until_current())


@pytest.fixture
async def world() -> World:
    return World()


async def test_what_another_process_changes_comes_into_force_within_a_second(world: World) -> None:
    ours, theirs = world.ours, world.theirs
    async with world.following():
        orders = await theirs.put_destination(ORDERS)
        await theirs.put_subscription(BILLING)
        await world.clock.advance(1)
        assert ours.destination("orders") == orders
        assert ours.subscription("orders", "billing").url == "http://a.example/"
        await theirs.set_rates(Rates(receiver=7))
        await theirs.set_preference(Preference("rabbitmq-backup"))
        await theirs.remove_subscription("orders", "billing")
        await world.clock.advance(1)
        assert ours.rates == Rates(receiver=7)
        assert ours.preference == Preference("rabbitmq-backup")
        assert not ours.catalog.subscriptions


async def test_a_change_that_was_not_noted_is_found_in_the_end(world: World) -> None:
    async with world.following():
        await world.store.put(DESTINATIONS, "orders", msgspec.json.encode(ORDERS))
        await world.clock.advance(60)
        assert world.ours.destination("orders").store_rate == 5.0


async def test_nothing_but_the_revision_is_read_while_nothing_changes(world: World) -> None:
    async with world.following():
        world.store.listed.clear()
        await world.clock.advance(5)
        await world.ours.put_destination(ORDERS)
        await world.clock.advance(5)
        assert world.store.listed == []
        await world.theirs.load()
        world.store.listed.clear()
        await world.theirs.put_subscription(BILLING)
        await world.clock.advance(5)
        assert world.store.listed == [DESTINATIONS, SUBSCRIPTIONS, SETTINGS, REMOVED]


async def test_it_is_current_once_it_was_read(world: World) -> None:
    world.store.gate.clear()
    async with world.following():
        waiting = world.wait()
        await world.clock.settle()
        assert not waiting.done()
        world.store.gate.set()
        await world.clock.settle()
        assert waiting.done()
        for _ in range(20):
            await world.clock.advance(0.7)
            assert world.follower.is_current


async def test_a_process_that_was_stopped_reads_the_changes_that_were_answered_meanwhile(world: World) -> None:
    async with world.following():
        await world.theirs.put_destination(ORDERS)
        world.store.gate.clear()
        await world.clock.advance(1.6)
        waiting = world.wait()
        await world.clock.settle()
        assert not waiting.done()
        world.store.gate.set()
        await world.clock.advance(0.2)
        assert waiting.done()
        assert "orders" in world.ours.catalog.destinations


async def test_it_ends_to_be_current_before_a_change_is_answered_that_it_has_not_confirmed() -> None:
    assert configuration._CURRENT_FOR < CONFIRMED_WITHIN


async def test_what_is_read_before_the_others_see_this_process_does_not_count(world: World) -> None:
    """They wait for no confirmation of one that was silent for so long that they took it for gone."""
    world.seen.silent_since = world.clock.monotonic() - 6
    async with world.following():
        waiting = world.wait()
        await world.clock.advance(0.5)
        assert not waiting.done()
        world.seen.silent_since = None
        await world.clock.advance(0.2)
        assert waiting.done()


@pytest.mark.parametrize("hangs", [False, True])
async def test_a_process_that_cannot_reach_the_store_goes_on(world: World, hangs: bool) -> None:
    async with world.following():
        world.store.is_down = not hangs
        if hangs:
            world.store.gate.clear()
        await world.clock.advance(2)
        waiting = world.wait()
        await world.clock.advance(2.1 if hangs else 0.1)
        assert waiting.done()
        await world.clock.advance(60)
        assert world.follower.is_current
        world.store.is_down = False
        world.store.gate.set()
        await world.theirs.put_destination(ORDERS)
        await world.clock.advance(1)
        assert "orders" in world.ours.catalog.destinations


async def test_one_failed_reading_is_no_proof_that_the_store_is_away(world: World) -> None:
    """It may have begun before this process stood still."""
    async with world.following():
        world.store.gate.clear()
        await world.clock.advance(1.6)
        await world.theirs.put_destination(ORDERS)
        waiting = world.wait()
        world.store.is_down = True
        world.store.gate.set()
        await world.clock.settle()
        assert not waiting.done()
        world.store.is_down = False
        await world.clock.advance(0.2)
        assert waiting.done()
        assert "orders" in world.ours.catalog.destinations


async def test_messages_do_not_wait_for_each_answer_of_a_slow_store(world: World) -> None:
    async with world.following():
        world.store.gate.clear()
        await world.clock.advance(4)
        waiting = world.wait()
        await world.clock.advance(4)
        assert waiting.done()
        world.store.gate.set()
        await world.clock.settle()
        assert world.follower.is_current
        world.store.gate.clear()
        await world.clock.advance(4)
        assert world.follower.is_current
