"""A dispatcher that shares its subscriptions' permits with others."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager

import pytest

from bus.domain.catalog import Catalog
from bus.domain.delivery.concurrency_shares import Shares, View
from bus.domain.destination import Destination, TransportName
from bus.domain.message import Message, encode_message
from bus.domain.subscription import Subscription
from bus.errors import TransportUnavailable
from bus.ports.transport import OutgoingMessage
from bus.testing.spool import MemorySpool
from bus.testing.transport import MemoryTransport
from bus.testing.writes import DESTINATION
from bus.transports.direct import DirectTransport
from bus.transports.merged import MergedConsumer
from bus.transports.router import TransportRouter
from dispatcher.dispatcher import Dispatcher
from tests.unit.dispatcher.dispatcher_world import URL, World, fresh, handed, held, subscription

NAME = f"{DESTINATION}/billing"


class CountedShares(Shares):
    """Shares that count how often a worker asks for its own."""

    asked = 0

    def of(self, name: str, total: int) -> int:
        self.asked += 1
        return super().of(name, total)


class Sharing:
    """A dispatcher called a, on a broker's transport and its own queue."""

    def __init__(self, world: World, catalog: Catalog) -> None:
        self.world = world
        self.catalog = catalog
        self.queue = MemorySpool(consumers=())
        world.transport = MemoryTransport(TransportName.KAFKA)
        self.router = TransportRouter([world.transport, DirectTransport(self.queue)], world.clock)
        self.shares = CountedShares("a")
        self.shares.resume((View(("a",)),))
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
        taken = await direct.publish([OutgoingMessage(message, encode_message(message)) for message in messages])
        assert taken == [True] * count
        await self.world.clock.settle()
        return [message.id for message in messages]

    async def without_share(self) -> None:
        turn = next(turn for turn in range(2) if View(("a", "b"), turn).share("a", NAME, 1) == 0)
        await self.go_by("a", "b", rotation=turn)

    async def go_by(self, *owners: str, rotation: int = 0) -> None:
        self.shares.resume((View(owners, rotation),))
        await self.dispatcher.reshare()
        await self.world.clock.settle()

    def attached(self) -> set[str]:
        """Return the transports that the subscription consumes."""
        return self.dispatcher._running[DESTINATION, "billing"].merged.transports


@asynccontextmanager
async def sharing(world: World, *others: Subscription, **changes: object) -> AsyncIterator[Sharing]:
    destination = Destination(code=DESTINATION, transport=TransportName.KAFKA)
    made = Sharing(world, Catalog([destination], [subscription(**changes), *others]))
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


async def test_a_rotation_costs_nothing_for_subscriptions_whose_share_it_does_not_change(world: World) -> None:
    many = [subscription(f"s{number}", max_concurrency=16) for number in range(100)]
    async with sharing(world, *many, max_concurrency=1) as found:
        await found.go_by("a", "b")
        for rotation in range(1, 4):
            found.shares.asked = 0
            await found.go_by("a", "b", rotation=rotation)
            assert 0 < found.shares.asked < 10


async def test_other_shares_of_thousands_leave_the_loop_to_others_in_between(world: World) -> None:
    many = [subscription(f"s{number}", max_concurrency=2) for number in range(1000)]
    async with sharing(world, *many) as found:
        asked: list[int] = []

        async def look() -> None:
            while True:
                asked.append(found.shares.asked)
                await asyncio.sleep(0)

        looking = asyncio.create_task(look())
        found.shares.resume((View(("a", "b")),))
        await found.dispatcher.reshare()
        looking.cancel()
        steps = [after - before for before, after in itertools.pairwise(asked)]
        assert sum(steps) > 1000
        assert max(steps) < 200


async def test_what_changes_again_while_it_is_put_in_force_is_put_in_force_as_well(world: World) -> None:
    """Also when it is then what it was at first: some have followed what it was in between."""
    many = [subscription(f"s{number}", max_concurrency=2) for number in range(100)]
    async with sharing(world, *many) as found:
        found.shares.want(View(("a", "b")))
        resharing = asyncio.create_task(found.dispatcher.reshare())
        await asyncio.sleep(0)
        found.shares.want(View())
        await resharing
        found.shares.resume((View(("a",)),))
        found.shares.want(View(("a", "b")))
        await found.dispatcher.reshare()
        assert found.dispatcher.is_reshared
        workers = [running.worker.subscription for running in found.dispatcher._running.values()]
        assert {worker.max_concurrency for worker in workers if worker.name != "billing"} == {1}
        assert not any(worker.paused for worker in workers)


async def test_one_that_cannot_follow_keeps_no_other_from_its_share(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    others = [subscription(name, max_concurrency=4) for name in ("a", "z")]
    async with sharing(world, *others, max_concurrency=4) as found:
        plain = found.router.meet

        async def meet(merged: MergedConsumer, destination: Destination, name: str, transports: Iterable[str]) -> bool:
            if name == "billing":
                raise TransportUnavailable("away")
            return await plain(merged, destination, name, transports)

        monkeypatch.setattr(found.router, "meet", meet)
        found.shares.resume((View(("a", "b")),))
        with pytest.raises(TransportUnavailable):
            await found.dispatcher.reshare()
        assert found.dispatcher.is_reshared
        workers = [running.worker.subscription for running in found.dispatcher._running.values()]
        assert {worker.max_concurrency for worker in workers} == {2}


async def test_it_says_what_is_beyond_its_share_until_that_has_ended(world: World) -> None:
    reply, event = held()
    world.poster.script(URL, reply)
    async with sharing(world, max_concurrency=4) as found:
        await world.publish(10)
        await world.clock.settle()
        assert found.dispatcher.beyond() == set()
        found.shares.resume((View(("a", "b")),))
        assert found.dispatcher.beyond() == {NAME}
        await found.dispatcher.reshare()
        await world.clock.settle()
        assert world.poster.in_flight == 4
        assert found.dispatcher.beyond() == {NAME}
        event.set()
        await world.clock.settle()
        assert found.dispatcher.beyond() == set()


async def test_it_follows_other_shares_only_once_its_workers_do(world: World) -> None:
    """Nothing is in flight yet, but could be the moment after it was said that nothing is."""
    async with sharing(world, max_concurrency=4) as found:
        assert found.dispatcher.is_reshared
        found.shares.resume((View(("a", "b")),))
        assert not found.dispatcher.is_reshared
        await found.dispatcher.reshare()
        assert found.dispatcher.is_reshared


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
        await world.clock.advance(0.2)
        assert len(world.poster.posted) == 3
