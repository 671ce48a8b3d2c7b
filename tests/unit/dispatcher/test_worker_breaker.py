"""The worker behind an open breaker: no attempts are spent, and a probe finds out."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from bus.domain.delivery.breaker import BreakerState
from bus.domain.delivery.delivery import Outcome, Status
from bus.domain.message import decode_message
from bus.ports.poster import PostFailure
from bus.security.egress import EgressPolicy
from bus.telemetry import metrics
from bus.testing.poster import MemoryPoster, Reply
from bus.testing.writes import DESTINATION
from dispatcher.worker import SubscriptionWorker
from tests.unit.dispatcher.dispatcher_world import URL, World, fresh, handed, held, statuses, subscription

REFUSED = Reply(failure=PostFailure.REFUSED)


async def opened(world: World, worker: SubscriptionWorker, count: int = 10) -> None:
    """Have the breaker opened by five refused connections, one after the other."""
    world.poster.script(URL, REFUSED)
    await world.publish(count)
    await world.clock.settle()
    assert worker.breaker.state is BreakerState.OPEN
    assert statuses(await world.outcomes()) == [Status.RETRYING] * 5
    world.poster.posted.clear()


async def half_seconds_until(world: World, condition: Callable[[], bool]) -> None:
    """Move on in steps of half a second until the condition is true."""
    for _ in range(200):
        if condition():
            return
        await world.clock.advance(0.5)
    raise AssertionError("not true within 100 simulated seconds")


class FirstFails(MemoryPoster):
    """Answers 500 to the first attempt of each message, and 200 to all others."""

    def _next(self, url: str) -> Reply:  # noqa: ARG002 - overrides
        return Reply(500 if self.posted[-1].headers["bus-attempt"] == "1" else 200)


async def test_five_refused_connections_open_it_and_spend_no_more(world: World) -> None:
    async with world.worker(subscription(max_concurrency=1)) as worker:
        await opened(world, worker)
        await world.clock.advance(0.9)
        assert world.poster.posted == []
        assert world.holds() == 5


async def test_failures_of_most_open_it(world: World) -> None:
    world.poster.script(URL, Reply(500))
    async with world.worker(subscription(max_concurrency=1)) as worker:
        await world.publish(30)
        await world.clock.settle()
        assert worker.breaker.state is BreakerState.OPEN
        assert len(await world.outcomes()) == 20
        assert world.holds() == 10


@pytest.mark.parametrize("status", [400, 401, 404, 422, 503])
async def test_answers_that_are_final_for_a_message_open_nothing(world: World, status: int) -> None:
    of = subscription(max_concurrency=1, dead_on=(503,))
    async with world.worker(of) as worker:
        world.poster.script(URL, *[Reply(status)] * 57, Reply())
        await world.publish(60)
        await world.clock.settle()
        assert worker.breaker.state is BreakerState.CLOSED
        assert statuses(await world.outcomes()).count(Status.DELIVERED) == 3


@pytest.mark.parametrize("status", [302, 408, 425, 429, 500, 503])
async def test_answers_of_an_endpoint_that_does_not_work_open_it(world: World, status: int) -> None:
    async with world.worker(subscription(max_concurrency=1)) as worker:
        world.poster.script(URL, Reply(status))
        await world.publish(30)
        await world.clock.settle()
        assert worker.breaker.state is BreakerState.OPEN
        assert len(await world.outcomes()) == 20


async def test_a_probe_whose_message_is_refused_closes_it(world: World) -> None:
    async with world.worker(subscription(max_concurrency=1)) as worker:
        await opened(world, worker)
        world.poster.script(URL, Reply(422), Reply())
        await world.clock.advance(1)
        assert worker.breaker.state is BreakerState.CLOSED
        assert world.holds() == 0


async def test_a_probe_that_fails_spends_no_attempt_and_waits_double(world: World) -> None:
    async with world.worker(subscription(max_concurrency=1)) as worker:
        await opened(world, worker)
        before = metrics.PROBE_FAILURES.labels(DESTINATION, "billing")._value.get()
        probes = []
        for _ in range(70):
            await world.clock.advance(1)
            probes.append(len(world.poster.posted))
        assert [probes[n] for n in (0, 1, 2, 3, 5, 6, 7, 14, 15, 30, 60)] == [1, 1, 2, 2, 2, 3, 3, 4, 4, 5, 6]
        ids = [posted.headers["webhook-id"] for posted in world.poster.posted]
        assert ids[0] == ids[1] != ids[2], "a message without an answer and a new one take turns"
        assert {posted.headers["bus-attempt"] for posted in world.poster.posted} == {"1"}
        assert await world.outcomes() == []
        assert metrics.PROBE_FAILURES.labels(DESTINATION, "billing")._value.get() == before + 6
        assert world.holds() == 5


async def test_a_probe_that_is_answered_spends_its_attempt(world: World) -> None:
    """So a message that the subscriber always refuses cannot keep the breaker open for ever."""
    async with world.worker(subscription(max_concurrency=1)) as worker:
        await opened(world, worker)
        world.poster.script(URL, Reply(500))
        await world.clock.advance(1)
        assert [outcome.status for outcome in await world.outcomes()] == [Status.RETRYING]
        assert worker.breaker.state is BreakerState.OPEN
        world.poster.script(URL, Reply())
        await world.clock.advance(2)
        assert worker.breaker.state is BreakerState.CLOSED
        assert world.holds() == 0


async def test_a_probe_that_succeeds_closes_it_and_all_go_on(world: World) -> None:
    async with world.worker(subscription(max_concurrency=3)) as worker:
        world.poster.script(URL, REFUSED)
        await world.publish(20)
        await world.clock.settle()
        assert worker.breaker.state is BreakerState.OPEN
        world.poster.script(URL, Reply())
        await world.clock.advance(1)
        assert worker.breaker.state is BreakerState.CLOSED
        assert world.holds() == 0


async def test_while_a_probe_is_under_way_nobody_else_runs(world: World) -> None:
    async with world.worker(subscription(max_concurrency=8)) as worker:
        world.poster.script(URL, REFUSED)
        await world.publish(40)
        await world.clock.settle()
        assert worker.breaker.state is BreakerState.OPEN
        reply, event = held()
        world.poster.script(URL, reply)
        await world.clock.advance(1.5)
        assert worker.breaker.state is BreakerState.HALF_OPEN
        assert world.poster.in_flight == worker.in_flight == 1
        starts = 0
        plain = worker._spawn

        def counted() -> None:
            nonlocal starts
            starts += 1
            plain()

        worker._spawn = counted
        for _ in range(200):
            await asyncio.sleep(0)
        assert starts == 0
        event.set()
        await world.clock.settle()
        assert world.holds() == 0


async def test_probes_wait_for_the_clock_and_not_for_the_machine(world: World) -> None:
    async with world.worker(subscription(max_concurrency=1)) as worker:
        await opened(world, worker)
        loop = asyncio.get_running_loop()
        assert not [handle for handle in loop._scheduled if not handle.cancelled()]
        world.poster.script(URL, Reply())
        await world.clock.advance(1)
        assert world.holds() == 0


async def test_an_open_breaker_takes_one_handed_over_delivery_as_its_probe(world: World) -> None:
    async with world.worker(subscription(max_concurrency=4)) as worker:
        await opened(world, worker, 5)
        assert world.holds() == 0
        assert worker.room == 1
        assert worker.offer(handed(fresh(70, world.clock), attempts=3))
        assert worker.room == 0
        assert not worker.offer(handed(fresh(71, world.clock)))
        await world.clock.settle()
        assert world.poster.posted == []
        world.poster.script(URL, Reply())
        await world.clock.advance(1)
        (posted,) = world.poster.posted
        assert posted.headers["bus-attempt"] == "4"
        assert worker.room == 8


async def test_a_retry_a_new_message_and_one_without_an_answer_take_turns(world: World) -> None:
    async with world.worker(subscription(max_concurrency=1)) as worker:
        await opened(world, worker)
        worker.update(subscription(max_concurrency=4))
        for number in range(3):
            await half_seconds_until(world, lambda: worker.room == 1)
            assert worker.offer(handed(fresh(70 + number, world.clock, biz_id=f"retry-{number}")))
            assert worker.room == 0
            await half_seconds_until(world, lambda most=3 * number + 3: len(world.poster.posted) == most)
        probes = [posted.headers["bus-biz-id"] for posted in world.poster.posted]
        assert probes[0::3] == ["retry-0", "retry-1", "retry-2"]
        assert probes[1::3] == ["order-5", "order-6", "order-7"]
        assert probes[2::3] == ["retry-0", "order-5", "retry-0"], "the one that waits longest since its last probe"
        assert await world.outcomes() == []


async def test_an_endpoint_that_fails_each_first_attempt_gets_all_messages(world: World) -> None:
    world.poster = FirstFails(EgressPolicy(allow_loopback=True), sleep=world.clock.sleep)
    async with world.worker(subscription(max_concurrency=4)) as worker:
        due: list[Outcome] = []
        delivered = 0
        await world.publish(400)
        for _ in range(120):
            for outcome in await world.outcomes():
                delivered += outcome.status is Status.DELIVERED
                due += [outcome] if outcome.status is Status.RETRYING else []
            while due and due[0].due_at <= world.clock.now() and worker.room:
                retry = due.pop(0)
                assert worker.offer(handed(decode_message(retry.message), attempts=retry.attempts, tries=retry.tries))
            await world.clock.advance(0.25)
        assert delivered == 400


async def test_a_retry_is_taken_shortly_before_it_can_be_the_probe(world: World) -> None:
    """Its lease would end before a probe that is due much later."""
    async with world.worker(subscription(max_concurrency=1)) as worker:
        await opened(world, worker)
        await half_seconds_until(world, lambda: worker.breaker.probe_in(world.clock.monotonic()) > 20)
        assert worker.room == 0
        await half_seconds_until(world, lambda: worker.breaker.probe_in(world.clock.monotonic()) <= 10)
        assert worker.room == 1


async def test_retries_without_an_answer_take_no_more_than_half_of_the_window(world: World) -> None:
    async with world.worker(subscription(max_concurrency=1)) as worker:
        await opened(world, worker)
        await half_seconds_until(world, lambda: worker.room == 1)
        assert worker.offer(handed(fresh(70, world.clock)))
        await world.clock.advance(600)
        assert worker.room == 0


async def test_a_probe_that_hangs_delays_the_next_by_half_a_minute_at_most(world: World) -> None:
    async with world.worker(subscription(max_concurrency=1, timeout=600_000)) as worker:
        await opened(world, worker, 7)
        worker.update(subscription(max_concurrency=4, timeout=600_000))
        hung, _ = held()
        world.poster.script(URL, hung, Reply())
        await world.clock.advance(1)
        assert world.poster.in_flight == 1
        await world.clock.advance(29.9)
        assert len(world.poster.posted) == 1
        await world.clock.advance(0.2)
        assert worker.breaker.state is BreakerState.CLOSED
        assert world.holds() == 1


async def test_who_waits_for_the_rate_spends_no_attempt_once_it_is_open(world: World) -> None:
    async with world.worker(subscription(max_concurrency=16, rate=5)) as worker:
        world.poster.script(URL, REFUSED)
        await world.publish(30)
        await world.clock.settle()
        assert worker.breaker.state is BreakerState.OPEN
        await world.clock.advance(0.9)
        assert len(world.poster.posted) == 5


async def test_pausing_gives_back_and_resuming_probes_again(world: World) -> None:
    async with world.worker(subscription(max_concurrency=1)) as worker:
        await opened(world, worker, 6)
        worker.update(subscription(max_concurrency=1, paused=True))
        await world.clock.settle()
        assert world.transport.queue((DESTINATION, "billing")).held == {}
        await world.clock.advance(100)
        assert world.poster.posted == []
        world.poster.script(URL, Reply())
        worker.update(subscription(max_concurrency=1))
        await world.clock.advance(1)
        assert world.holds() == 0


async def test_a_probe_that_a_filter_skips_leaves_the_probe_to_the_next(world: World) -> None:
    of = subscription(max_concurrency=1, filter="body == `1`")
    async with world.worker(of) as worker:
        world.poster.script(URL, REFUSED)
        await world.publish(5, body=b"1")
        await world.publish(3, body=b"2")
        await world.publish(1, body=b"1")
        await world.clock.settle()
        assert worker.breaker.state is BreakerState.OPEN
        world.poster.script(URL, Reply())
        await world.clock.advance(1)
        assert statuses(await world.outcomes()) == [Status.RETRYING] * 5 + [Status.SKIPPED] * 3 + [Status.DELIVERED]
        assert worker.breaker.state is BreakerState.CLOSED


async def test_stop_during_a_probe_gives_the_message_back_unspent(world: World) -> None:
    async with world.worker(subscription(max_concurrency=1)) as worker:
        await opened(world, worker, 6)
        event = asyncio.Event()
        world.poster.script(URL, REFUSED._replace(hold=event))
        await world.clock.advance(1)
        assert world.poster.in_flight == 1
        worker.stop()
        event.set()
        await world.clock.settle()
        assert await world.outcomes() == []
        assert world.transport.queue((DESTINATION, "billing")).held == {}
        assert world.holds() == 1
