"""Queues follow the configuration, also over a restart, a broker that is away, and a change of transport."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import pairwise

import pytest

from bus.domain.catalog import Catalog
from bus.domain.destination import Destination, TransportName, switched
from bus.domain.subscription import Subscription
from bus.domain.times import DAY
from bus.errors import InvalidMessage, TransportRefused
from bus.testing.clock import NOON, ManualClock
from bus.testing.contracts.transport import publish, receive
from bus.testing.transport import MemoryTransport
from bus.testing.writes import message
from bus.transports.merged import MergedConsumer
from bus.transports.router import TransportRouter

DIRECT, KAFKA, NSQ = TransportName.DIRECT, TransportName.KAFKA, TransportName.NSQ


EVERY = {"shop", "mail"}


def catalog(*names: str, of: Destination | None = None, lost: bool = False) -> Catalog:
    """Return a configuration; of these subscriptions the others were removed, or were lost."""
    return Catalog(
        [of or Destination(code="orders")],
        [Subscription(destination="orders", name=name, url="http://a.example/") for name in names],
        set() if lost else {f"orders/{name}" for name in EVERY.difference(names)},
    )


def queues(transport: MemoryTransport) -> set[str]:
    return {name for _, name in transport.lags() or {}}


class World:
    def __init__(self) -> None:
        self.clock = ManualClock()
        self.direct, self.kafka, self.nsq = MemoryTransport(DIRECT), MemoryTransport(KAFKA), MemoryTransport(NSQ)
        self.router = TransportRouter([self.direct, self.kafka, self.nsq], self.clock)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        running = asyncio.create_task(self.router.run())
        try:
            yield
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)


@pytest.fixture
async def world() -> World:
    return World()


async def test_a_queue_that_a_crash_left_behind_is_removed(world: World) -> None:
    await world.router.apply(catalog("shop", "mail"))
    assert queues(world.direct) == {"shop", "mail"}
    restarted = TransportRouter([world.direct], world.clock)
    await restarted.apply(catalog("shop"))
    assert queues(world.direct) == {"shop"}


async def test_a_queue_whose_subscription_was_lost_keeps_its_messages_for_one_of_its_name(world: World) -> None:
    await world.router.apply(catalog("shop", "mail"))
    await publish(world.direct, message(1))
    for router in (world.router, TransportRouter([world.direct], world.clock)):
        await router.apply(catalog("shop", lost=True))
        assert {key: lag.records for key, lag in router.foreign().items()} == {("orders", "mail"): 1}
        assert "queue orders/mail" in router.conditions()
        await router.apply(Catalog())
        assert router.foreign().keys() == {("orders", "mail"), ("orders", "shop")}
        await router.apply(catalog("shop", "mail"))
        assert router.foreign() == {}
    assert (world.direct.lags() or {})["orders", "mail"].records == 1
    await router.apply(catalog("shop", lost=True))
    await router.apply(catalog("shop"))
    assert queues(world.direct) == {"shop"}
    assert router.foreign() == {}


async def test_an_empty_queue_that_was_lost_is_removed(world: World) -> None:
    await world.router.apply(catalog("shop", "mail"))
    await TransportRouter([world.direct], world.clock).apply(catalog("shop", lost=True))
    assert queues(world.direct) == {"shop"}


async def test_a_new_subscription_gets_a_queue_and_a_removed_one_loses_it(world: World) -> None:
    await world.router.apply(catalog("shop"))
    await world.router.apply(catalog("shop", "mail"))
    assert queues(world.direct) == {"shop", "mail"}
    await world.router.apply(catalog("mail"))
    assert queues(world.direct) == {"mail"}
    await world.router.apply(catalog())
    assert queues(world.direct) == set()
    await world.router.apply(catalog("mail"))
    assert queues(world.direct) == {"mail"}


async def test_of_many_destinations_some_are_done_in_each_turn_of_the_loop(world: World) -> None:
    codes = [f"d{number}" for number in range(1000)]
    subscriptions = [Subscription(destination=code, name="shop", url="http://a.example/") for code in codes]
    gone = Catalog(removed=[f"{code}/shop" for code in codes] + codes)
    for of in (Catalog([Destination(code=code) for code in codes], subscriptions), gone):
        seen: list[int] = []

        async def others(seen: list[int] = seen) -> None:
            while True:
                seen.append(len(world.direct.lags() or {}))
                await asyncio.sleep(0)

        beside = asyncio.create_task(others())
        await world.router.apply(of)
        beside.cancel()
        assert len(world.direct.lags() or {}) == len(of.subscriptions)
        assert all(abs(after - before) <= 200 for before, after in pairwise(seen)), seen


async def test_a_destination_on_a_broker_has_queues_there_and_on_the_fallback_only(world: World) -> None:
    await world.router.apply(catalog("shop", of=Destination(code="orders", transport=KAFKA)))
    assert (queues(world.kafka), queues(world.direct), queues(world.nsq)) == ({"shop"}, {"shop"}, set())


async def test_a_broker_that_is_away_holds_nobody_up_and_gets_its_queues_when_it_answers(world: World) -> None:
    world.kafka.unreachable = True
    async with world.running():
        await world.router.apply(catalog("shop", of=Destination(code="orders", transport=KAFKA)))
        assert queues(world.direct) == {"shop"}
        assert "kafka queues of orders" in world.router.conditions()
        assert world.router.trouble("orders") is not None
        await world.clock.advance(3)
        world.kafka.unreachable = False
        await world.clock.advance(3)
        assert queues(world.kafka) == {"shop"}
        assert not any(world.router.conditions().values())
        assert world.router.trouble("orders") is None


async def test_a_broker_that_was_wiped_while_it_was_away_gets_its_queues_again(world: World) -> None:
    async with world.running():
        await world.router.apply(catalog("shop", of=Destination(code="orders", transport=KAFKA)))
        world.kafka.unreachable = True
        await world.clock.advance(2)
        world.kafka.wipe()
        world.kafka.unreachable = False
        await world.clock.advance(2)
        assert queues(world.kafka) == {"shop"}


async def test_a_queue_whose_broker_was_away_at_the_removal_is_removed_later(world: World) -> None:
    on_kafka = Destination(code="orders", transport=KAFKA)
    async with world.running():
        await world.router.apply(catalog("shop", "mail", of=on_kafka))
        world.kafka.unreachable = True
        await world.router.apply(catalog("shop", of=on_kafka))
        assert queues(world.direct) == {"shop"}
        await world.clock.advance(2)
        world.kafka.unreachable = False
        await world.clock.advance(2)
        assert queues(world.kafka) == {"shop"}


async def test_a_queue_that_is_wanted_again_is_not_removed_later(world: World) -> None:
    on_kafka = Destination(code="orders", transport=KAFKA)
    async with world.running():
        await world.router.apply(catalog("shop", of=on_kafka))
        world.kafka.unreachable = True
        await world.router.apply(catalog(of=on_kafka))
        await world.router.apply(catalog("shop", of=on_kafka))
        world.kafka.unreachable = False
        await world.clock.advance(5)
        assert queues(world.kafka) == {"shop"}


async def test_the_transport_that_was_left_stays_until_it_is_given_up(world: World) -> None:
    first = Destination(code="orders", transport=KAFKA)
    await world.router.apply(catalog("shop", of=first))
    second = switched(first, Destination(code="orders", transport=NSQ), NOON)
    await world.router.apply(catalog("shop", of=second))
    assert (queues(world.kafka), queues(world.nsq)) == ({"shop"}, {"shop"})
    await world.router.apply(catalog("shop", of=Destination(code="orders", transport=NSQ)))
    assert (queues(world.kafka), queues(world.nsq)) == (set(), {"shop"})


async def test_a_merged_consumer_follows_the_destination_over_its_transports(world: World) -> None:
    first = Destination(code="orders", transport=KAFKA)
    await world.router.apply(catalog("shop", of=first))
    merged = MergedConsumer()
    assert await world.router.meet(merged, first, "shop", first.transports)
    assert not await world.router.meet(merged, first, "shop", first.transports)
    second = switched(first, Destination(code="orders", transport=NSQ), NOON)
    await world.router.apply(catalog("shop", of=second))
    assert await world.router.meet(merged, second, "shop", second.transports)
    assert merged.transports == {KAFKA, NSQ, DIRECT}
    sent = [message(0), message(1), message(2)]
    for transport, one in zip((world.kafka, world.nsq, world.direct), sent, strict=True):
        await publish(transport, one)
    found = await receive(merged, count=3)
    assert {item.message.id for item in found} == {one.id for one in sent}
    merged.ack(found)
    third = Destination(code="orders", transport=NSQ)
    assert not await world.router.meet(merged, third, "shop", third.transports)
    assert merged.transports == {NSQ, DIRECT}


async def test_what_is_not_set_up_or_cannot_be_carried_is_refused_with_its_field(world: World) -> None:
    with pytest.raises(InvalidMessage, match="rabbitmq is not set up here") as refused:
        world.router.check(Destination(code="orders", transport=TransportName.RABBITMQ))
    assert refused.value.field == "transport"


async def test_a_refusal_is_told_and_does_not_stop_others(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    async def refuse(destination: Destination, subscriptions: object) -> None:
        raise TransportRefused("a queue with other settings is there")

    monkeypatch.setattr(world.kafka, "ensure", refuse)
    await world.router.apply(catalog("shop", of=Destination(code="orders", transport=KAFKA)))
    assert isinstance(world.router.trouble("orders"), TransportRefused)
    assert queues(world.direct) == {"shop"}


@pytest.mark.parametrize(
    ("steps", "former"),
    [
        ([KAFKA], {}),
        ([KAFKA, KAFKA], {}),
        ([KAFKA, NSQ], {KAFKA: NOON + DAY}),
        ([KAFKA, NSQ, DIRECT], {KAFKA: NOON + DAY, NSQ: NOON + DAY}),
        ([KAFKA, NSQ, KAFKA], {NSQ: NOON + DAY}),
    ],
)
def test_a_change_of_transport_remembers_those_that_were_left(
    steps: list[TransportName], former: dict[str, int]
) -> None:
    known: Destination | None = None
    for step in steps:
        known = switched(known, Destination(code="orders", transport=step), NOON)
    assert known is not None
    assert {transport.transport: transport.until for transport in known.former} == former
    assert set(known.transports) == {*steps, DIRECT}
    assert known.transports[0] is steps[-1]
