"""Discarded messages are not posted by a worker that holds them already, or gets them later."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from bus.domain.delivery.canceling import canceled
from bus.domain.delivery.delivery import Status
from bus.domain.destination import Ordering
from bus.domain.message import Message
from bus.errors import StoreUnavailable
from bus.ports.poster import PostFailure
from bus.testing.poster import Reply
from dispatcher import discard_check
from dispatcher.pending_deliveries import PendingDelivery
from dispatcher.worker import SubscriptionWorker
from tests.unit.dispatcher.dispatcher_world import URL, World, handed, held, subscription


async def discard(world: World, messages: Sequence[Message]) -> None:
    for one in messages:
        trace = await world.store.trace(one.id)
        assert trace is not None
        await world.store.write([canceled(trace, "billing", world.clock.now(), "discarded by ann")])


async def tell(world: World, worker: SubscriptionWorker, **changes: object) -> None:
    worker.update(replace(worker.subscription, doubted_until=world.clock.now() + 10_000, **changes))
    await world.clock.settle()


def posted(world: World) -> list[str]:
    return [one.headers["webhook-id"] for one in world.poster.posted]


async def waiting_behind_one(world: World, count: int, **changes: object) -> tuple[asyncio.Event, list[Message]]:
    """Have one POST under way, and so many messages behind it that the store knows."""
    reply, event = held()
    world.poster.script(URL, reply, Reply())
    sent = await world.publish(count, **changes)
    await world.store.write(sent)
    await world.clock.settle()
    return event, sent


@pytest.mark.parametrize("batch", [1, 10])
async def test_what_waits_in_memory_is_asked_for_and_acked(world: World, batch: int) -> None:
    async with world.worker(subscription(max_concurrency=1, batch=batch)) as worker:
        event, sent = await waiting_behind_one(world, 1)
        more = await world.publish(3)
        await world.store.write(more)
        await world.clock.settle()
        await discard(world, more[:2])
        await tell(world, worker)
        event.set()
        await world.clock.settle()
        assert len(world.poster.posted) == 2
        assert world.holds() == 0
    await world.feed()
    ends = [(await world.store.trace(one.id)).deliveries["billing"].status for one in (*sent, *more)]
    assert ends == [Status.DELIVERED, Status.CANCELED, Status.CANCELED, Status.DELIVERED]


async def test_what_a_transport_brings_later_is_not_posted(world: World) -> None:
    async with world.worker(subscription(paused=True)) as worker:
        sent = await world.publish(3)
        await world.store.write(sent)
        await discard(world, sent[:2])
        await tell(world, worker, paused=False)
        assert posted(world) == [sent[2].id]
        assert world.holds() == 0


async def test_what_is_handed_over_and_waits_is_not_posted(world: World) -> None:
    async with world.worker(subscription(max_concurrency=1)) as worker:
        event, _ = await waiting_behind_one(world, 1)
        late = await world.publish(1)
        await world.store.write(late)
        await world.clock.settle()
        (leased,) = [replace(late[0], id=late[0].id)]
        await discard(world, [leased])
        worker.offer(handed(leased))
        await tell(world, worker)
        event.set()
        await world.clock.settle()
        assert len(world.poster.posted) == 1


async def test_a_new_message_costs_no_question(world: World) -> None:
    asked: list[int] = []
    finished = world.store.finished

    async def counted(keys: Sequence[object]) -> set:
        asked.append(len(keys))
        return await finished(keys)  # type: ignore[arg-type]

    world.store.finished = counted  # type: ignore[method-assign]
    async with world.worker() as worker:
        worker.update(replace(worker.subscription, doubted_until=world.clock.now()))
        await world.clock.advance(1)
        await world.publish(3)
        await world.clock.settle()
        assert (len(world.poster.posted), asked) == (3, [])


async def test_while_the_store_is_away_it_is_posted(world: World) -> None:
    async def down(_: object) -> set:
        raise StoreUnavailable("down")

    world.store.finished = down  # type: ignore[assignment]
    async with world.worker() as worker:
        await tell(world, worker)
        await world.publish(3)
        await world.clock.settle()
        assert len(world.poster.posted) == 3


async def test_a_store_that_hangs_holds_them_up_once(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(discard_check, "_PATIENCE", 0.01)
    asked: list[int] = []

    async def hang(keys: Sequence[object]) -> set:
        asked.append(len(keys))
        await asyncio.Event().wait()
        raise AssertionError

    async with world.worker(subscription(max_concurrency=1)) as worker:
        event, _ = await waiting_behind_one(world, 1)
        await world.publish(1)
        await world.clock.settle()
        world.store.finished = hang  # type: ignore[assignment]
        await tell(world, worker)
        event.set()
        assert len(world.poster.posted) == 1
        async with asyncio.timeout(10):
            while len(world.poster.posted) < 2:  # noqa: ASYNC110 - the deadline is of the loop
                await asyncio.sleep(0.01)
        assert asked == [1]
        assert not worker._discards.is_doubtful(PendingDelivery(handed((await world.publish())[0]), None))


async def test_a_store_that_hangs_holds_up_what_a_transport_brings_no_longer(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(discard_check, "_PATIENCE", 0.01)

    async def hang(_: object) -> set:
        await asyncio.Event().wait()
        raise AssertionError

    world.store.finished = hang  # type: ignore[assignment]
    async with world.worker() as worker:
        await tell(world, worker)
        await world.publish(2)
        async with asyncio.timeout(10):
            while len(world.poster.posted) < 2:  # noqa: ASYNC110 - the deadline is of the loop
                await asyncio.sleep(0.01)


async def test_a_probe_that_nobody_answered_is_asked_for_again(world: World) -> None:
    """It is put back among those that wait after they were asked for."""
    async with world.worker(subscription(max_concurrency=1)) as worker:
        world.poster.script(URL, *[Reply(failure=PostFailure.REFUSED)] * 6, Reply())
        sent = await world.publish(8)
        await world.store.write(sent)
        await world.clock.settle()
        await discard(world, sent)
        await tell(world, worker)
        before = len(world.poster.posted)
        await world.clock.advance(120)
        assert len(world.poster.posted) == before
        assert world.holds() == 0


@pytest.mark.parametrize("ordering", [Ordering.KEY, Ordering.STRICT])
async def test_an_order_goes_on_behind_what_was_discarded(world: World, ordering: Ordering) -> None:
    async with world.worker(subscription(), ordering) as worker:
        event, sent = await waiting_behind_one(world, 5, key="a")
        await discard(world, sent[1:4])
        await tell(world, worker)
        event.set()
        await world.clock.advance(1)
        assert posted(world) == [sent[0].id, sent[4].id]
        assert world.holds() == 0


@pytest.mark.parametrize("ordering", [Ordering.KEY, Ordering.STRICT])
async def test_an_order_goes_on_when_what_holds_it_up_is_discarded(world: World, ordering: Ordering) -> None:
    async with world.worker(subscription(), ordering) as worker:
        world.poster.script(URL, Reply(500), Reply())
        sent = await world.publish(3, key="a")
        await world.store.write(sent)
        await world.clock.settle()
        await world.feed()
        assert posted(world) == [sent[0].id]
        await discard(world, sent[:2])
        await tell(world, worker)
        await world.clock.advance(3)
        assert posted(world) == [sent[0].id, sent[2].id]
        assert world.holds() == 0
    await world.feed()
    assert await world.store.due(world.clock.now()) == {}
