"""A dispatcher that shares its subscriptions' permits with others."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from bus.domain.catalog import Catalog
from bus.domain.delivery.shares import Shares, View
from bus.domain.destination import Destination, TransportName
from bus.domain.message import Message, encode_message
from bus.domain.subscription import Subscription
from bus.ports.transport import Outgoing
from bus.testing.spool import MemorySpool
from bus.testing.transport import MemoryTransport
from bus.testing.writes import DESTINATION
from bus.transports.direct import DirectTransport
from bus.transports.router import TransportRouter
from dispatcher.dispatcher import Dispatcher
from tests.unit.dispatcher.dispatcher_world import URL, World, fresh, handed, held, subscription

NAME = f"{DESTINATION}/billing"


class Sharing:
    """A dispatcher called a, on a broker's transport and its own queue."""

    def __init__(self, world: World, catalog: Catalog) -> None:
        self.world = world
        self.catalog = catalog
        self.queue = MemorySpool(consumers=())
        world.transport = MemoryTransport(TransportName.KAFKA)
        self.router = TransportRouter([world.transport, DirectTransport(self.queue)], world.clock)
        self.shares = Shares("a")
        self.shares.resume(View(("a",)))
        self.may_start = True
        dependencies = world.dependencies(may_start=lambda: self.may_start)
        self.handed: list[str] = []
        self.takes = 0
        self.dispatcher = Dispatcher(self.router, dependencies, self.shares, self._hand)

    async def _hand(self, _: Subscription, messages: Sequence[Message]) -> int:
        taken = messages[: self.takes]
        self.handed += [message.id for message in taken]
        return len(taken)

    async def accept(self, count: int) -> list[str]:
        """Put messages into this process's own queue."""
        direct = self.router.fallback
        messages = [fresh(number, self.world.clock) for number in range(count)]
        taken = await direct.publish([Outgoing(message, encode_message(message)) for message in messages])
        assert taken == [True] * count
        await self.world.clock.settle()
        return [message.id for message in messages]

    async def without_share(self) -> None:
        turn = next(turn for turn in range(2) if View(("a", "b"), turn).share("a", NAME, 1) == 0)
        await self.go_by("a", "b", rotation=turn)

    async def go_by(self, *owners: str, rotation: int = 0) -> None:
        self.shares.resume(View(owners, rotation))
        await self.dispatcher.reshare()
        await self.world.clock.settle()

    def attached(self) -> set[str]:
        """Return the transports that the subscription consumes."""
        return self.dispatcher._running[DESTINATION, "billing"].merged.transports


@asynccontextmanager
async def sharing(world: World, **changes: object) -> AsyncIterator[Sharing]:
    destination = Destination(code=DESTINATION, transport=TransportName.KAFKA)
    made = Sharing(world, Catalog([destination], [subscription(**changes)]))
    await made.router.apply(made.catalog)
    stopping = asyncio.Event()
    running = asyncio.create_task(made.dispatcher.run(made.catalog, stopping))
    await world.clock.settle()
    try:
        yield made
    finally:
        stopping.set()
        await world.clock.until(running.done)
        running.result()


async def test_requests_in_flight_are_within_the_share(world: World) -> None:
    reply, event = held()
    world.poster.script(URL, reply)
    async with sharing(world, max_concurrency=4) as found:
        await found.go_by("a", "b")
        await world.publish(10)
        await world.clock.settle()
        assert world.poster.in_flight == 2
        await found.go_by("a")
        await world.clock.settle()
        assert world.poster.in_flight == 4
        event.set()


async def test_it_says_what_is_beyond_its_share_until_that_has_ended(world: World) -> None:
    reply, event = held()
    world.poster.script(URL, reply)
    async with sharing(world, max_concurrency=4) as found:
        await world.publish(10)
        await world.clock.settle()
        assert found.dispatcher.beyond() == set()
        found.shares.resume(View(("a", "b")))
        assert found.dispatcher.beyond() == {NAME}
        await found.dispatcher.reshare()
        await world.clock.settle()
        assert world.poster.in_flight == 4
        assert found.dispatcher.beyond() == {NAME}
        event.set()
        await world.clock.settle()
        assert found.dispatcher.beyond() == set()


async def test_it_is_beyond_its_share_while_its_worker_has_not_heard_of_it(world: World) -> None:
    """Nothing is in flight yet, but could be the moment after it was said that nothing is."""
    async with sharing(world, max_concurrency=4) as found:
        found.shares.resume(View(("a", "b")))
        assert found.dispatcher.beyond() == {NAME}
        await found.dispatcher.reshare()
        assert found.dispatcher.beyond() == set()


async def test_without_a_share_it_leaves_the_brokers_and_keeps_its_own_queue(world: World) -> None:
    async with sharing(world, max_concurrency=1) as found:
        assert found.attached() == {TransportName.KAFKA, TransportName.DIRECT}
        turn = next(turn for turn in range(2) if View(("a", "b"), turn).share("a", NAME, 1) == 0)
        await found.go_by("a", "b", rotation=turn)
        assert found.attached() == {TransportName.DIRECT}
        assert await found.dispatcher.room([(DESTINATION, "billing")]) == {}
        (sent,) = await world.publish()
        assert await found.dispatcher.offer([handed(fresh(9, world.clock))]) == [False]
        await world.clock.settle()
        assert world.poster.posted == []
        assert found.dispatcher.beyond() == set()
        await found.go_by("a", "b", rotation=turn + 1)
        assert [posted.headers["webhook-id"] for posted in world.poster.posted] == [sent.id]
        assert found.attached() == {TransportName.KAFKA, TransportName.DIRECT}


async def test_what_waits_without_a_share_is_handed_to_who_has_one_and_acked_once_it_is_there(world: World) -> None:
    async with sharing(world, max_concurrency=1) as found:
        await found.without_share()
        sent = await found.accept(3)
        assert found.handed == []
        found.takes = 1
        await world.clock.advance(0.1)
        assert found.handed == sent[:2]
        assert found.queue.pending("billing", DESTINATION) == 1
        await world.clock.advance(0.1)
        assert found.handed == sent
        assert found.queue.pending("billing", DESTINATION) == 0
        assert world.poster.posted == []


async def test_what_nobody_took_is_delivered_here_with_a_share_again(world: World) -> None:
    async with sharing(world, max_concurrency=1) as found:
        await found.without_share()
        sent = await found.accept(3)
        await found.go_by("a")
        await world.clock.advance(1)
        assert [posted.headers["webhook-id"] for posted in world.poster.posted] == sent
        found.takes = 3
        await world.clock.advance(1)
        assert found.handed == []


async def test_a_paused_subscription_keeps_what_waits(world: World) -> None:
    async with sharing(world, max_concurrency=1, paused=True) as found:
        found.takes = 3
        await found.without_share()
        await found.accept(3)
        await world.clock.advance(1)
        assert found.handed == []
        assert not found.dispatcher.delivers((DESTINATION, "billing"))


async def test_the_rate_is_shared_as_the_permits_are(world: World) -> None:
    async with sharing(world, max_concurrency=4, rate=2.0) as found:
        await found.go_by("a", "b")
        await world.clock.advance(10)
        await world.publish(40)
        await world.clock.advance(1)
        before = len(world.poster.posted)
        await world.clock.advance(10)
        assert len(world.poster.posted) - before == 10


async def test_one_that_stood_still_starts_nothing_until_it_may(world: World) -> None:
    async with sharing(world) as found:
        found.may_start = False
        await world.publish(3)
        await world.clock.advance(30)
        assert world.poster.posted == []
        found.may_start = True
        await found.dispatcher.reshare()
        await world.clock.settle()
        assert len(world.poster.posted) == 3
