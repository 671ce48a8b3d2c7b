"""The start of a worker's POSTs: slots, rate and disk, and while it is paused or stopped."""

from __future__ import annotations

import asyncio

import pytest

from bus.domain.delivery.delivery import Status
from bus.errors import SpoolFull
from bus.testing.poster import Reply
from bus.testing.writes import DESTINATION
from dispatcher.worker import SubscriptionWorker
from tests.unit.dispatcher.dispatcher_world import URL, World, fresh, handed, held, statuses, subscription


@pytest.mark.parametrize("limit", [1, 3, 16])
async def test_never_more_than_max_concurrency_in_flight(world: World, limit: int) -> None:
    reply, event = held()
    world.poster.script(URL, reply)
    async with world.worker(subscription(max_concurrency=limit)):
        await world.publish(40)
        await world.clock.settle()
        assert world.poster.in_flight == limit
        event.set()
        await world.clock.until(lambda: world.holds() == 0)
    assert world.poster.peak == limit
    assert sorted(world.bodies()) == sorted(set(world.bodies()))
    assert len(world.bodies()) == 40


async def test_a_changed_max_concurrency_is_kept_at_once(world: World) -> None:
    reply, event = held()
    world.poster.script(URL, reply)
    async with world.worker(subscription(max_concurrency=2)) as worker:
        await world.publish(30)
        await world.clock.settle()
        worker.update(subscription(max_concurrency=4))
        await world.clock.settle()
        assert world.poster.in_flight == 4
        worker.update(subscription(max_concurrency=1))
        event.set()
        world.poster.script(URL, Reply(500, hold=(second := asyncio.Event())))
        await world.clock.settle()
        assert world.poster.in_flight == 1
        world.poster.script(URL, Reply())
        second.set()
        await world.clock.until(lambda: world.holds() == 0)
        assert world.poster.peak == 4


async def test_there_is_room_for_two_windows_and_no_more(world: World) -> None:
    reply, event = held()
    world.poster.script(URL, reply)
    async with world.worker(subscription(max_concurrency=3)) as worker:
        taken = [worker.offer(handed(fresh(n, world.clock))) for n in range(10)]
        assert taken == [True] * 6 + [False] * 4
        await world.clock.settle()
        assert (worker.room, worker.in_flight) == (0, 3)
        event.set()
        await world.clock.settle()
        assert worker.room == 6


async def test_a_rate_starts_so_many_a_second(world: World) -> None:
    async with world.worker(subscription(rate=5)):
        await world.publish(40)
        await world.clock.settle()
        assert len(world.poster.posted) == 5
        await world.clock.advance(2)
        assert len(world.poster.posted) == 15
        await world.clock.until(lambda: world.holds() == 0)
        assert world.clock.monotonic() - 1000 == pytest.approx(7, abs=0.1)


async def test_a_changed_rate_counts_at_once(world: World) -> None:
    async with world.worker(subscription(rate=0.001)) as worker:
        await world.publish(20)
        await world.clock.settle()
        assert len(world.poster.posted) == 1
        worker.update(subscription(rate=1000))
        await world.clock.advance(1)
        assert len(world.poster.posted) == 20


async def test_what_a_filter_skips_costs_no_rate(world: World) -> None:
    async with world.worker(subscription(rate=1, filter="body == 'yes'")):
        await world.publish(50, body=b'"no"')
        await world.publish(2, body=b'"yes"')
        await world.clock.advance(1.5)
        assert world.bodies() == [b'"yes"', b'"yes"']


async def test_a_paused_subscription_holds_and_gives_back(world: World) -> None:
    reply, event = held()
    world.poster.script(URL, reply)
    async with world.worker(subscription(max_concurrency=1)) as worker:
        await world.publish(5)
        await world.clock.settle()
        worker.update(subscription(max_concurrency=1, paused=True))
        await world.clock.settle()
        assert worker.room == 0
        assert len(world.transport.queue((DESTINATION, "billing")).held) == 1
        event.set()
        await world.clock.advance(60)
        assert len(world.poster.posted) == 1
        assert world.holds() == 4
        worker.update(subscription(max_concurrency=1))
        await world.clock.until(lambda: world.holds() == 0)
        assert len(set(world.bodies())) == len(world.bodies()) == 5


async def test_what_comes_while_paused_is_not_started(world: World) -> None:
    async with world.worker() as worker:
        worker.update(subscription(paused=True))
        await world.publish(5)
        await world.clock.advance(60)
        assert world.poster.posted == []
        assert world.transport.queue((DESTINATION, "billing")).held == {}
        assert not worker.offer(handed(fresh(99, world.clock)))
        worker.update(subscription())
        await world.clock.settle()
        assert len(world.poster.posted) == 5


async def test_stop_finishes_what_is_in_flight_and_starts_nothing_new(world: World) -> None:
    reply, event = held()
    world.poster.script(URL, reply)
    async with world.worker(subscription(max_concurrency=2)) as worker:
        await world.publish(10)
        await world.clock.settle()
        worker.stop()
        await world.clock.settle()
        event.set()
        await world.clock.settle()
    assert len(world.poster.posted) == 2
    assert statuses(await world.outcomes()) == [Status.DELIVERED] * 2
    queue = world.transport.queue((DESTINATION, "billing"))
    assert (len(queue.waiting), len(queue.held)) == (8, 0)


@pytest.mark.parametrize("why", ["rate", "disk"])
async def test_stop_does_not_wait_for_what_may_not_start(world: World, why: str) -> None:
    of = subscription(rate=0.0001) if why == "rate" else subscription(max_concurrency=1)
    async with world.worker(of) as worker:
        world.spool.refuse = (lambda: SpoolFull("full")) if why == "disk" else (lambda: None)
        await world.publish(5)
        await world.clock.advance(1)
        before = len(world.poster.posted)
        assert before < 5
        worker.stop()
        await world.clock.settle()
        held_now = len(world.transport.queue((DESTINATION, "billing")).held)
        assert held_now <= (2 if why == "disk" else 0)
        world.spool.refuse = lambda: None
        await world.clock.advance(3600 * 24)
        assert len(world.poster.posted) == before


@pytest.mark.parametrize("is_kept", [False, True], ids=["in a task", "on a kept connection"])
async def test_cancelling_gives_back_what_is_in_flight(world: World, is_kept: bool) -> None:
    if is_kept:
        async with world.worker():
            await world.publish()
            await world.clock.settle()
        await world.outcomes()
    reply, _ = held()
    world.poster.script(URL, reply)
    await world.ensure()
    worker_of = world.worker(subscription(max_concurrency=2))
    worker = await worker_of.__aenter__()
    await world.publish(3)
    await world.clock.settle()
    running = next(task for task in asyncio.all_tasks() if "SubscriptionWorker.run" in repr(task))
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert worker.in_flight == 0
    await world.clock.settle()
    assert world.poster.in_flight == 0
    queue = world.transport.queue((DESTINATION, "billing"))
    assert (len(queue.waiting), len(queue.held)) == (3, 0)
    assert await world.outcomes() == []
    with pytest.raises(asyncio.CancelledError):
        await worker_of.__aexit__(None, None, None)


async def test_what_was_about_to_start_is_given_back_when_it_is_cancelled(world: World) -> None:
    await world.ensure()
    worker = SubscriptionWorker(
        subscription(), await world.transport.consume(DESTINATION, "billing"), world.dependencies()
    )
    running = asyncio.create_task(worker.run())
    await world.clock.settle()
    await world.publish()
    while not worker.in_flight:  # noqa: ASYNC110 - before the task has run
        await asyncio.sleep(0)
    for task in asyncio.all_tasks() - {asyncio.current_task()}:
        task.cancel()
    await asyncio.gather(running, return_exceptions=True)
    queue = world.transport.queue((DESTINATION, "billing"))
    assert (len(queue.waiting), len(queue.held), worker.in_flight) == (1, 0, 0)
    assert world.poster.posted == []


@pytest.mark.parametrize("is_kept", [False, True], ids=["in a task", "on a kept connection"])
async def test_a_defect_ends_the_worker_and_is_not_just_logged(world: World, is_kept: bool) -> None:
    defective = False

    def noise() -> float:
        if defective:
            raise ZeroDivisionError
        return 0.5

    await world.ensure()
    consumer = await world.transport.consume(DESTINATION, "billing")
    worker = SubscriptionWorker(subscription(), consumer, world.dependencies(noise=noise))
    running = asyncio.create_task(worker.run())
    if is_kept:
        await world.publish()
        await world.clock.settle()
    defective = True
    await world.publish()
    await world.clock.settle()
    with pytest.raises(ExceptionGroup) as ended:
        await asyncio.wait_for(running, 5)
    assert ended.value.subgroup(ZeroDivisionError)
