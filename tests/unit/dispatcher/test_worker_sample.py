"""A sample is one POST within the permits, which counts for nothing."""

from __future__ import annotations

import asyncio
import time

import pytest
from standardwebhooks import Webhook

from bus.domain.delivery.breaker import BreakerState
from bus.domain.delivery.delivery import Status
from bus.domain.subscription import Secret
from bus.ports.poster import PostFailure
from bus.ports.sampling import PERMIT_PATIENCE
from bus.security.signatures import new_secret
from bus.telemetry import metrics
from bus.testing.poster import Reply
from bus.testing.writes import DESTINATION
from tests.unit.dispatcher.dispatcher_world import URL, World, fresh, held, statuses, subscription
from tests.unit.dispatcher.test_dispatcher import catalog, dispatching


async def test_it_is_sent_as_a_delivery_is_and_marked(world: World) -> None:
    secret = new_secret()
    world.poster.script(URL, Reply(202, headers=(("x-seen", "yes"),), body=b"thanks"))
    of = subscription(secrets=(Secret(secret),), headers={"x-tenant": "t"})
    async with dispatching(world, catalog(of)) as (dispatcher, _):
        sent = fresh(1, world.clock, body=b'{"a":1}', headers={"x-own": "o"})
        sampled = await dispatcher.sample(sent, "billing")
    (posted,) = world.poster.posted
    assert posted.body == b'{"a":1}'
    assert (posted.headers["bus-sample"], posted.headers["bus-attempt"]) == ("true", "1")
    assert (posted.headers["x-tenant"], posted.headers["x-own"]) == ("t", "o")
    assert posted.headers["webhook-id"] == sent.id
    shown = dict(sampled.headers)
    assert posted.headers.items() <= shown.items()
    assert secret not in str(sampled)
    assert secret.removeprefix("whsec_") not in str(sampled)
    world_time = int(shown["webhook-timestamp"])
    if abs(world_time - time.time()) < 300:  # the verifier's clock is that of the machine
        assert Webhook(secret).verify(posted.body, shown) == {"a": 1}
    assert (sampled.status, sampled.answer, sampled.answer_headers) == (202, b"thanks", [("x-seen", "yes")])
    assert (sampled.node, sampled.refused) == ("node-1", "")


async def test_it_leaves_no_outcome_no_count_and_no_mark_on_the_breaker(world: World) -> None:
    world.poster.script(URL, Reply(failure=PostFailure.REFUSED))
    seconds = metrics.ATTEMPT_SECONDS.labels(DESTINATION, "billing")._sum.get()
    async with dispatching(world, catalog(subscription())) as (dispatcher, _):
        for number in range(30):
            sampled = await dispatcher.sample(fresh(number, world.clock), "billing")
            assert (sampled.status, sampled.failure) == (None, "refused")
        assert dispatcher.breakers() == {(DESTINATION, "billing"): "closed"}
    assert await world.outcomes() == []
    assert metrics.ATTEMPT_SECONDS.labels(DESTINATION, "billing")._sum.get() == seconds


async def test_a_gone_subscriber_is_not_paused_by_it(world: World) -> None:
    world.poster.script(URL, Reply(410))
    async with dispatching(world, catalog(subscription())) as (dispatcher, _):
        assert (await dispatcher.sample(fresh(1, world.clock), "billing")).status == 410
    assert world.gone == []


async def test_neither_a_pause_nor_the_breaker_nor_the_filter_holds_it_up(world: World) -> None:
    for of in (subscription(paused=True), subscription(filter="body.wanted")):
        async with dispatching(world, catalog(of)) as (dispatcher, _):
            assert (await dispatcher.sample(fresh(1, world.clock), "billing")).status == 200
    async with world.worker() as worker:
        worker.breaker.state = BreakerState.OPEN
        trial = await worker.sample(fresh(2, world.clock))
        assert trial is not None
        assert trial.result.status == 200
        assert worker.breaker.state is BreakerState.OPEN


async def test_it_goes_before_what_waits_and_never_beyond_the_permits(world: World) -> None:
    replies, events = zip(*(held() for _ in range(4)), strict=True)
    world.poster.script(URL, *replies, Reply())
    async with world.worker(subscription(max_concurrency=2)) as worker:
        await world.publish(4)
        await world.clock.settle()
        assert world.poster.in_flight == 2
        sample = fresh(100, world.clock)
        asking = asyncio.create_task(worker.sample(sample))
        await world.clock.settle()
        assert world.poster.in_flight == 2
        events[0].set()
        await world.clock.settle()
        assert [posted.headers["webhook-id"] for posted in world.poster.posted][2:] == [sample.id]
        assert worker.in_flight == 2
        for event in events:
            event.set()
        assert await asking is not None
        await world.clock.settle()
        assert statuses(await world.outcomes()) == [Status.DELIVERED] * 4
        assert world.poster.peak == 2


async def test_without_a_free_permit_nothing_is_sent_and_deliveries_go_on(world: World) -> None:
    reply, event = held()
    world.poster.script(URL, reply, Reply())
    of = subscription(max_concurrency=1, timeout=60_000)
    async with dispatching(world, catalog(of)) as (dispatcher, _):
        await world.publish(3)
        await world.clock.settle()
        asking = asyncio.create_task(dispatcher.sample(fresh(100, world.clock), "billing"))
        await world.clock.advance(PERMIT_PATIENCE + 0.1)
        assert (await asking).refused == f"no permit of {DESTINATION}/billing became free within 2 s"
        event.set()
        await world.clock.settle()
        assert len(world.poster.posted) == 3
        assert statuses(await world.outcomes()) == [Status.DELIVERED] * 3


async def test_one_at_a_time(world: World) -> None:
    reply, event = held()
    world.poster.script(URL, reply)
    async with world.worker() as worker:
        first = asyncio.create_task(worker.sample(fresh(1, world.clock)))
        await world.clock.settle()
        assert await worker.sample(fresh(2, world.clock)) is None
        assert worker._slot.count == 1
        event.set()
        assert await first is not None
        assert await worker.sample(fresh(3, world.clock)) is not None


async def test_one_that_is_cancelled_gives_its_permit_back(world: World) -> None:
    reply, event = held()
    world.poster.script(URL, reply)
    async with world.worker(subscription(max_concurrency=1)) as worker:
        for _ in range(2):
            asking = asyncio.create_task(worker.sample(fresh(1, world.clock)))
            await world.clock.settle()
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)
            assert (worker.in_flight, worker._slot.count) == (0, 0)
        event.set()
        await world.publish()
        await world.clock.settle()
        assert len(await world.outcomes()) == 1


async def test_a_dispatcher_that_may_not_start_or_is_stopped_sends_none(world: World) -> None:
    async with world.worker(may_start=lambda: False) as worker:
        assert await worker.sample(fresh(1, world.clock)) is None
    answers = iter([True])
    async with world.worker(may_start=lambda: next(answers, False)) as worker:
        sample = asyncio.create_task(worker.sample(fresh(1, world.clock)))
        await world.clock.until(sample.done, within=10)
        assert sample.result() is None, "the lease ended meanwhile"
    async with world.worker() as worker:
        worker.stop()
        assert await worker.sample(fresh(1, world.clock)) is None
    assert world.poster.posted == []


async def test_a_url_that_is_denied_is_an_answer(world: World) -> None:
    async with dispatching(world, catalog(subscription(url="http://10.0.0.1/"))) as (dispatcher, _):
        sampled = await dispatcher.sample(fresh(1, world.clock), "billing")
    assert (sampled.status, sampled.failure) == (None, "denied")
    assert sampled.error
    assert (sampled.refused, sampled.url) == ("", "http://10.0.0.1/")


@pytest.mark.parametrize("name", ["nobody", "mail"])
async def test_a_subscription_that_it_does_not_have_is_refused(world: World, name: str) -> None:
    async with dispatching(world, catalog(subscription())) as (dispatcher, _):
        assert "has no share" in (await dispatcher.sample(fresh(1, world.clock), name)).refused
    assert world.poster.posted == []
