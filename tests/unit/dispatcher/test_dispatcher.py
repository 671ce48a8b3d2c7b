"""All workers of one dispatcher: hired, changed and dismissed as the configuration says."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from msgspec.structs import replace

from bus.cluster.activity import Activity
from bus.domain.catalog import Catalog
from bus.domain.delivery.delivery import Delivery, Status
from bus.domain.destination import Destination, Ordering
from bus.domain.health.vitals import WorkerFigures
from bus.domain.subscription import Subscription
from bus.errors import SpoolFailed
from bus.ports.poster import PostFailure
from bus.telemetry import metrics
from bus.testing.cluster import all_permits
from bus.testing.poster import Reply
from bus.testing.transport import MemoryConsumer, MemoryTransport
from bus.testing.writes import DESTINATION
from bus.transports.router import TransportRouter
from dispatcher.dispatcher import Dispatcher
from tests.unit.dispatcher.dispatcher_world import URL, World, fresh, handed, held, statuses, subscription

ORDERS = Destination(code=DESTINATION)
OTHER = "http://127.0.0.1:8001/mail"
BILLING = (DESTINATION, "billing")


def catalog(*subscriptions: Subscription) -> Catalog:
    return Catalog([ORDERS], subscriptions)


@asynccontextmanager
async def dispatching(
    world: World,
    of: Catalog,
    *,
    at_stop: Callable[[], Awaitable[None]] | None = None,
    leads: Callable[[str], bool] = lambda _: True,
    tenure: Callable[[str], int] = lambda _: 0,
) -> AsyncIterator[tuple[Dispatcher, TransportRouter]]:
    """Run a dispatcher; ``at_stop`` is awaited when it was told to stop."""
    router = TransportRouter([world.transport], world.clock)
    await router.apply(of)
    dispatcher = Dispatcher(router, world.dependencies(), all_permits(), leads=leads, tenure=tenure)
    stopping = asyncio.Event()
    running = asyncio.create_task(dispatcher.run(of, stopping))
    await world.clock.settle()
    try:
        yield dispatcher, router
    finally:
        stopping.set()
        if at_stop is not None:
            await at_stop()
        await world.clock.until(running.done)
        running.result()


async def test_each_subscription_gets_each_message(world: World) -> None:
    async with dispatching(world, catalog(subscription(), subscription("mail", url=OTHER))):
        await world.publish(3)
        await world.clock.settle()
        assert sorted(posted.url for posted in world.poster.posted) == [URL] * 3 + [OTHER] * 3
        assert statuses(await world.outcomes()) == [Status.DELIVERED] * 6


async def test_a_hung_subscriber_holds_up_nobody_else(world: World) -> None:
    reply, event = held()
    world.poster.script(URL, reply)
    async with dispatching(world, catalog(subscription(), subscription("mail", url=OTHER))):
        await world.publish(200)
        await world.clock.settle()
        assert world.holds("mail") == 0
        assert world.holds() == 200
        event.set()


async def test_room_and_offer(world: World) -> None:
    of = catalog(subscription(max_concurrency=2), subscription("mail", url=OTHER, paused=True))
    async with dispatching(world, of) as (dispatcher, _):
        assert await dispatcher.room([BILLING, (DESTINATION, "mail"), (DESTINATION, "nobody")]) == {BILLING: 4}
        sent = [fresh(n, world.clock) for n in range(6)]
        nobody = Delivery(sent[0], "nobody")
        assert (
            await dispatcher.offer([handed(sent[0]), nobody, *map(handed, sent[1:])])
            == [True, False] + [True] * 3 + [False] * 2
        )
        await world.clock.settle()
        assert len(world.poster.posted) == 4
        assert await dispatcher.room([BILLING, (DESTINATION, "mail"), (DESTINATION, "nobody")]) == {BILLING: 4}


async def test_activity_has_the_permits_and_the_attempts_made_last(world: World) -> None:
    reply, event = held()
    world.poster.script(URL, *[Reply()] * 12, reply)
    async with dispatching(world, catalog(subscription(max_concurrency=1))) as (dispatcher, _):
        assert dispatcher.activity(DESTINATION, "nobody") == Activity()
        sent = await world.publish(14)
        await world.clock.settle()
        found = dispatcher.activity(DESTINATION, "billing")
        assert found.permits is not None
        assert (found.permits.in_use, found.permits.total, found.permits.waiting) == (1, 1, 1)
        assert [one.message_id for one in found.attempts] == [one.id for one in sent[2:12]]
        assert {(one.n, one.status_code, one.status) for one in found.attempts} == {(1, 200, Status.DELIVERED)}
        event.set()


async def test_what_a_newer_outcome_has_overtaken_is_not_taken(world: World) -> None:
    world.poster.script(URL, Reply(500), Reply())
    async with dispatching(world, catalog(subscription())) as (dispatcher, _):
        (sent,) = await world.publish()
        await world.clock.settle()
        assert dispatcher.take(handed(sent, attempts=0)) is False
        assert dispatcher.take(handed(sent, attempts=1)) is True
        await world.clock.settle()
        assert dispatcher.take(handed(sent, attempts=1)) is False
        assert dispatcher.take(handed(sent, attempts=2, generation=1)) is True
        await world.clock.settle()
        assert dispatcher.take(handed(sent, attempts=9)) is False
        assert [posted.headers["bus-attempt"] for posted in world.poster.posted] == ["1", "2", "3"]


async def test_the_lease_stays_of_what_is_here_already_and_ends_of_what_has_no_room(world: World) -> None:
    reply, event = held()
    world.poster.script(URL, reply)
    async with dispatching(world, catalog(subscription(max_concurrency=2))) as (dispatcher, _):
        sent = [fresh(n, world.clock) for n in range(5)]
        assert await dispatcher.offer([handed(sent[0]), handed(sent[0])]) == [True, True]
        assert await dispatcher.offer([handed(one) for one in sent[1:]]) == [True, True, True, False]
        event.set()
        await world.clock.settle()
        assert len(world.poster.posted) == 4


async def test_the_lease_ends_of_what_a_transport_brought_again_and_is_in_flight(world: World) -> None:
    """Its outcome is of an earlier stage than the row, and would leave the row leased until the lease runs out."""
    reply, event = held()
    world.poster.script(URL, reply)
    async with dispatching(world, catalog(subscription(max_concurrency=1))) as (dispatcher, _):
        (sent,) = await world.publish()
        await world.clock.settle()
        assert await dispatcher.offer([handed(sent, attempts=1)]) == [False]
        event.set()
        await world.clock.settle()


async def test_what_a_transport_brought_again_and_waits_goes_on_where_it_was(world: World) -> None:
    reply, event = held()
    world.poster.script(URL, reply)
    async with dispatching(world, catalog(subscription(max_concurrency=1))) as (dispatcher, _):
        _, waits = await world.publish(2)
        await world.clock.settle()
        assert await dispatcher.offer([handed(waits, attempts=3)]) == [True]
        event.set()
        await world.clock.settle()
        assert [posted.headers["bus-attempt"] for posted in world.poster.posted] == ["1", "4"]
        assert world.holds() == 0


async def test_a_subscription_that_is_added_takes_part(world: World) -> None:
    async with dispatching(world, catalog(subscription())) as (dispatcher, router):
        changed = catalog(subscription(), subscription("mail", url=OTHER))
        await router.apply(changed)
        await dispatcher.apply(changed)
        await world.publish()
        await world.clock.settle()
        assert sorted(posted.url for posted in world.poster.posted) == [URL, OTHER]


async def test_a_changed_subscription_is_changed_in_place(world: World) -> None:
    async with dispatching(world, catalog(subscription())) as (dispatcher, _):
        await dispatcher.apply(catalog(subscription(url=OTHER)))
        await world.publish()
        await world.clock.settle()
        assert [posted.url for posted in world.poster.posted] == [OTHER]


async def test_nobody_waits_for_what_a_removed_subscription_has_in_flight(world: World) -> None:
    reply, event = held()
    world.poster.script(URL, reply)
    async with dispatching(world, catalog(subscription(max_concurrency=1))) as (dispatcher, router):
        await world.publish(2)
        await world.clock.settle()
        await router.apply(catalog())
        await asyncio.wait_for(dispatcher.apply(catalog()), 5)
        assert await dispatcher.room([BILLING]) == {}
        assert await dispatcher.offer([handed(fresh(9, world.clock))]) == [False]
        event.set()
        await world.clock.settle()
        assert statuses(await world.outcomes()) == [Status.DELIVERED]
        assert len(world.poster.posted) == 1


async def test_a_subscription_that_comes_back_has_its_permits_to_itself(world: World) -> None:
    reply, event = held()
    world.poster.script(URL, reply)
    of = catalog(subscription(max_concurrency=2))
    async with dispatching(world, of) as (dispatcher, router):
        await world.publish(4)
        await world.clock.settle()
        for changed in (catalog(), of):
            await router.apply(changed)
            await asyncio.wait_for(dispatcher.apply(changed), 5)
        await world.publish(4)
        await world.clock.settle()
        assert world.poster.in_flight == world.poster.peak == 2
        event.set()
        await world.clock.settle()
        assert world.holds() == 0


async def test_stop_waits_for_what_is_in_flight_and_for_its_outcomes(world: World) -> None:
    reply, event = held()
    world.poster.script(URL, reply)

    async def stopped() -> None:
        await world.clock.settle()
        world.spool.gate.clear()
        event.set()
        await world.clock.settle()
        assert world.holds() == 5
        world.spool.gate.set()

    async with dispatching(world, catalog(subscription(max_concurrency=3)), at_stop=stopped):
        await world.publish(5)
        await world.clock.settle()
    assert len(await world.outcomes()) == 3
    assert world.holds() == 2
    assert world.transport.queue((DESTINATION, "billing")).held == {}


async def test_who_does_not_lead_any_more_leaves_what_it_read_to_others(world: World) -> None:
    """A group of brokers gives nothing to another reader as long as one that has messages is there."""
    led = {DESTINATION}
    of = Catalog([replace(ORDERS, ordering=Ordering.KEY)], [subscription()])
    async with dispatching(world, of, leads=led.__contains__) as (dispatcher, _):
        reply, event = held()
        world.poster.script(URL, reply)
        await world.publish(2, key="a")
        await world.clock.settle()
        led.clear()
        await dispatcher.follow_leaders()
        await world.clock.settle()
        assert world.transport.closed == 0
        event.set()
        await world.clock.settle()
        assert statuses(await world.outcomes()) == [Status.DELIVERED]
        assert world.transport.closed == 1
        assert not world.transport.queue((DESTINATION, "billing")).held
        assert world.holds() == 1


async def test_who_leads_again_after_somebody_else_begins_anew(world: World) -> None:
    """What it has in memory, that one may have delivered, or have put behind other messages."""
    tenures = {DESTINATION: 1}
    of = Catalog([replace(ORDERS, ordering=Ordering.KEY)], [subscription()])
    async with dispatching(world, of, tenure=tenures.__getitem__) as (dispatcher, _):
        reply, event = held()
        world.poster.script(URL, reply)
        await world.publish(3, key="a")
        await world.clock.settle()
        await dispatcher.follow_leaders()
        await world.clock.settle()
        assert world.transport.closed == 0
        tenures[DESTINATION] = 2
        await dispatcher.follow_leaders()
        await world.clock.settle()
        assert world.transport.closed == 1
        event.set()
        await world.clock.settle()
        assert world.holds() == 0
        assert len({posted.body for posted in world.poster.posted}) == 3


async def test_stop_waits_for_a_removed_subscription_as_well(world: World) -> None:
    reply, event = held()
    world.poster.script(URL, reply)

    async def stopped() -> None:
        await world.clock.settle()
        event.set()

    async with dispatching(world, catalog(subscription()), at_stop=stopped) as (dispatcher, router):
        await world.publish()
        await world.clock.settle()
        await router.apply(catalog())
        await dispatcher.apply(catalog())
    assert statuses(await world.outcomes()) == [Status.DELIVERED]


async def test_a_configuration_that_comes_after_the_stop_changes_nothing(world: World) -> None:
    async with dispatching(world, catalog(subscription())) as (dispatcher, _):
        pass
    await dispatcher.apply(catalog(subscription(), subscription("mail")))
    assert set(dispatcher.breakers()) == {(DESTINATION, "billing")}


async def test_a_subscription_without_its_destination_is_left_out(world: World) -> None:
    stray = Subscription(destination="gone", name="x", url=URL)
    async with dispatching(world, Catalog([ORDERS], [subscription(), stray])) as (dispatcher, _):
        assert set(await dispatcher.room([BILLING, stray.key])) == {BILLING}


async def test_a_failed_disk_ends_the_dispatcher(world: World) -> None:
    of = catalog(subscription())
    router = TransportRouter([world.transport], world.clock)
    await router.apply(of)
    running = asyncio.create_task(Dispatcher(router, world.dependencies(), all_permits()).run(of, asyncio.Event()))
    world.spool.refuse = lambda: SpoolFailed("EIO")
    await world.publish()
    await world.clock.settle()
    assert running.done()
    with pytest.raises(ExceptionGroup) as group:
        running.result()
    assert group.value.subgroup(SpoolFailed) is not None
    assert world.holds() == 1


async def test_gauges_tell_permits_and_breakers(world: World) -> None:
    reply, event = held()
    world.poster.script(URL, reply)
    world.poster.script(OTHER, Reply(failure=PostFailure.REFUSED))
    of = catalog(subscription(max_concurrency=3), subscription("mail", url=OTHER, max_concurrency=1))
    async with dispatching(world, of) as (dispatcher, _):
        await world.publish(9)
        await world.clock.settle()
        for gauge in metrics.SAMPLED:
            gauge.clear()
        dispatcher.measure()()
        values = [
            gauge.labels(f"{DESTINATION}/{name}")._value.get()
            for gauge in (metrics.PERMITS_IN_USE, metrics.PERMITS_MAX, metrics.BREAKER_STATE)
            for name in ("billing", "mail")
        ]
        assert values == [3, 0, 3, 1, 0, 2]
        assert dispatcher.breakers() == {(DESTINATION, "billing"): "closed", (DESTINATION, "mail"): "open"}
        event.set()


async def test_a_report_tells_what_permits_and_rates_hold(world: World) -> None:
    reply, event = held()
    world.poster.script(URL, reply)
    of = catalog(
        subscription(max_concurrency=3), subscription("mail", url=OTHER, rate=2), subscription("sms", url=OTHER)
    )
    async with dispatching(world, of) as (dispatcher, _):
        await world.publish(9)
        await world.clock.settle()
        assert list(dispatcher.workers()) == [
            WorkerFigures(DESTINATION, "billing", 3, 3, 3, 3),
            WorkerFigures(DESTINATION, "mail", 0, 16, 16, 7, 0.5),
            WorkerFigures(DESTINATION, "sms", 0, 16, 16, 0),
        ]
        assert sorted(found.subscription for found in dispatcher.active_workers()) == ["billing", "mail"]
        assert dispatcher.carried().keys() == {(DESTINATION, "billing"), (DESTINATION, "mail")}
        await world.clock.advance(4)
        billing, mail, _ = dispatcher.workers()
        assert mail == WorkerFigures(DESTINATION, "mail", 0, 16, 16, 0), "nothing is left to hold"
        assert dispatcher.active_workers() == [billing]
        event.set()
        await world.clock.until(lambda: not dispatcher.active_workers())
        await world.publish()
        await world.clock.until(lambda: len(world.poster.posted) == 30)
        assert dispatcher.carried() == {}


async def test_a_breaker_that_is_open_is_told_of_when_nothing_is_left_to_deliver(world: World) -> None:
    world.poster.script(URL, *(Reply(failure=PostFailure.REFUSED) for _ in range(5)))
    async with dispatching(world, catalog(subscription())) as (dispatcher, _):
        await world.publish(5)
        await world.clock.until(lambda: world.holds() == 0)
        for _ in range(2):
            assert dispatcher.open_breakers().keys() == {f"{DESTINATION}/billing"}
        assert [found.waiting for found in dispatcher.active_workers()] == [0]


async def test_a_paused_destination_holds_all_of_its_subscriptions(world: World) -> None:
    of = catalog(subscription(), subscription("mail", url=OTHER))
    async with dispatching(world, of) as (dispatcher, _):
        held_back = Catalog([Destination(code=DESTINATION, paused=True)], of.subscriptions.values())
        await dispatcher.apply(held_back)
        await world.publish(3)
        await world.clock.advance(60)
        assert world.poster.posted == []
        assert await dispatcher.room([BILLING]) == {}
        await dispatcher.apply(of)
        await world.clock.settle()
        assert len(world.poster.posted) == 6


@pytest.mark.parametrize(("pause", "posted"), [(30, 2), (60, 1)])
async def test_what_was_handed_over_outlives_a_pause_but_not_its_lease(world: World, pause: float, posted: int) -> None:
    """After its lease another dispatcher has it, so it must not be POSTed here as well."""
    reply, event = held()
    world.poster.script(URL, reply)
    of = subscription(max_concurrency=1)
    async with dispatching(world, catalog(of)) as (dispatcher, _):
        sent = [fresh(n, world.clock) for n in range(2)]
        assert await dispatcher.offer([handed(one) for one in sent]) == [True, True]
        await world.clock.settle()
        await dispatcher.apply(catalog(subscription(max_concurrency=1, paused=True)))
        event.set()
        await world.clock.advance(pause)
        assert len(world.poster.posted) == 1
        await dispatcher.apply(catalog(of))
        await world.clock.settle()
        assert [one.headers["webhook-id"] for one in world.poster.posted] == [one.id for one in sent[:posted]]
        assert await dispatcher.offer([handed(sent[1])]) == [True]
        await world.clock.settle()
        assert len(world.poster.posted) == 2


@pytest.mark.parametrize("begins", [True, False])
async def test_an_order_that_begins_or_ends_acks_nothing_whose_outcome_is_not_durable(
    world: World, begins: bool
) -> None:
    free, ordered = ORDERS, replace(ORDERS, ordering=Ordering.KEY)
    before, after = (free, ordered) if begins else (ordered, free)
    async with dispatching(world, Catalog([before], [subscription()])) as (dispatcher, _):
        world.spool.gate.clear()
        await world.publish(1)
        await world.clock.settle()
        assert len(world.poster.posted) == 1
        changing = asyncio.create_task(dispatcher.apply(Catalog([after], [subscription()])))
        await world.clock.advance(1)
        assert world.holds() == 1
        world.spool.gate.set()
        await world.clock.advance(1)
        await changing
        await world.feed()
        await world.publish(1)
        await world.clock.advance(1)
        assert world.holds() == 0
        assert len(world.poster.posted) == 2


class Counting(MemoryTransport):
    """Counts its consumers that have not left it."""

    present = 0

    async def consume(self, destination: str, subscription: str) -> MemoryConsumer:
        self.present += 1
        consumer = await super().consume(destination, subscription)
        close = consumer.close

        async def leave() -> None:
            self.present -= 1
            await close()

        consumer.close = leave  # type: ignore[method-assign]
        return consumer


async def test_who_keeps_an_order_no_more_leaves_its_transports_once_nothing_is_under_way(world: World) -> None:
    world.transport = transport = Counting()
    leading = {ORDERS.code}
    of, reply = Catalog([replace(ORDERS, ordering=Ordering.KEY)], [subscription()]), asyncio.Event()
    async with dispatching(world, of, leads=leading.__contains__) as (dispatcher, _):
        world.poster.script(URL, Reply(hold=reply))
        sent = await world.publish(3, key="k")
        await world.clock.settle()
        leading.clear()
        await dispatcher.follow_leaders()
        await world.clock.settle()
        assert transport.present == 2, "a request is under way; the other one moves what is in the direct queue"
        reply.set()
        await world.clock.advance(1)
        assert transport.present == 1
        leading.add(ORDERS.code)
        await dispatcher.follow_leaders()
        await world.feed()
        await world.clock.advance(1)
        assert transport.present == 1
        assert [one.headers["webhook-id"] for one in world.poster.posted] == [one.id for one in sent]
