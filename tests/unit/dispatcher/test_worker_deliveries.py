"""Ends of one subscription's deliveries: delivered, failed, skipped or retried, each once."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bus.domain.delivery.delivery import Origin, Status
from bus.domain.message import decode_message
from bus.ports.poster import PostFailure
from bus.telemetry import metrics
from bus.testing.poster import Reply
from bus.testing.writes import DESTINATION, message
from tests.unit.dispatcher.dispatcher_world import URL, World, fresh, handed, statuses, subscription


def value(metric, *labels: str) -> float:
    return metric.labels(*labels)._value.get()


async def test_a_message_is_delivered_recorded_and_acked(world: World) -> None:
    async with world.worker():
        (sent,) = await world.publish(body=b"\x00\xff", content_type="image/png", key="k", headers={"X-Tenant": "a"})
        await world.clock.settle()
        (posted,) = world.poster.posted
        assert (posted.url, posted.body, posted.timeout) == (URL, b"\x00\xff", 10.0)
        assert (
            posted.headers.items()
            >= {
                "content-type": "image/png",
                "webhook-id": sent.id,
                "webhook-timestamp": str(world.clock.now() // 1000),
                "bus-destination": DESTINATION,
                "bus-biz-id": sent.biz_id,
                "bus-key": "k",
                "bus-attempt": "1",
                "bus-sent-at": "2026-11-21T12:00:00.000Z",
                "x-tenant": "a",
            }.items()
        )
        assert not {"webhook-signature", "bus-replay"} & set(posted.headers)
        (done,) = await world.outcomes()
        assert (done.status, done.message_id, done.subscription, done.url) == (
            Status.DELIVERED,
            sent.id,
            "billing",
            URL,
        )
        assert done.attempt is not None
        assert (done.attempt.n, done.attempt.by, done.attempt.node) == (1, Origin.TRANSPORT, "node-1")
        assert done.attempt.status_code == 200
        assert world.holds() == 0


async def test_a_copy_that_a_replay_sent_says_so_to_its_subscriber(world: World) -> None:
    original = message(7).id
    async with world.worker():
        await world.publish(replay=f"again-1 {original}")
        await world.clock.settle()
        (posted,) = world.poster.posted
        assert posted.headers["bus-replay"] == f"again-1 {original}"


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (Reply(500), "HTTP 500"),
        (Reply(302, (("location", "http://127.0.0.1:1/"),)), "HTTP 302"),
        (Reply(404), "HTTP 404"),
        (Reply(failure=PostFailure.REFUSED), "scripted: refused"),
        (Reply(failure=PostFailure.RESET), "scripted: reset"),
        (Reply(failure=PostFailure.TIMEOUT), "scripted: timeout"),
    ],
)
async def test_a_failure_is_recorded_with_the_message_and_when_to_try_again(
    world: World, reply: Reply, reason: str
) -> None:
    world.poster.script(URL, reply)
    async with world.worker(subscription(timeout=2000)):
        (sent,) = await world.publish()
        await world.clock.advance(2)
        (failed,) = await world.outcomes()
        assert (failed.status, failed.reason) == (Status.RETRYING, reason)
        assert failed.due_at == failed.at + 1000
        assert decode_message(failed.message) == sent
        assert (failed.attempts, failed.tries) == (1, 1)
        assert world.holds() == 0
        assert len(world.poster.posted) == 1


async def test_410_is_a_failure_and_tells_who_pauses(world: World) -> None:
    world.poster.script(URL, Reply(410))
    async with world.worker():
        await world.publish(5)
        await world.clock.settle()
        assert statuses(await world.outcomes()) == [Status.RETRYING] * 5
        assert {gone.key for gone in world.gone} == {(DESTINATION, "billing")}


async def test_410_to_a_retry_tells_who_pauses(world: World) -> None:
    world.poster.script(URL, Reply(410))
    async with world.worker() as worker:
        assert worker.offer(handed(fresh(1, world.clock)))
        await world.clock.settle()
    assert {gone.key for gone in world.gone} == {(DESTINATION, "billing")}


async def test_what_a_filter_does_not_want_is_skipped_with_the_reason(world: World) -> None:
    async with world.worker(subscription(filter="body.n > `2`")):
        await world.publish(body=b'{"n": 1}')
        await world.publish(body=b'{"n": 3}')
        await world.clock.settle()
        skipped, delivered = await world.outcomes()
        assert (skipped.status, skipped.reason, skipped.attempt) == (Status.SKIPPED, "filter", None)
        assert delivered.status is Status.DELIVERED
        assert world.bodies() == [b'{"n": 3}']
        assert world.holds() == 0


@pytest.mark.parametrize("body", [b'{"n": "x"}', b"[" * 50_000])
async def test_a_filter_that_fails_delivers_and_is_counted(world: World, body: bytes) -> None:
    before = value(metrics.FILTER_FAILURES, DESTINATION, "billing")
    async with world.worker(subscription(filter="body.n > `2` || body.n == null && to_number(body) > length(body)")):
        await world.publish(body=body)
        await world.clock.settle()
        assert statuses(await world.outcomes()) == [Status.DELIVERED]
    assert value(metrics.FILTER_FAILURES, DESTINATION, "billing") == before + 1


async def test_a_handed_over_delivery_goes_on_where_it_was(world: World) -> None:
    async with world.worker() as worker:
        sent = fresh(1, world.clock)
        assert worker.room == 32
        assert worker.offer(handed(sent, generation=2, attempts=7, tries=3, by=Origin.RESEND))
        assert not worker.offer(handed(sent))
        assert worker.room == 31
        await world.clock.settle()
        (done,) = await world.outcomes()
        assert world.poster.posted[0].headers["bus-attempt"] == "8"
        assert (done.generation, done.attempts, done.status) == (2, 8, Status.DELIVERED)
        assert done.attempt is not None
        assert done.attempt.by is Origin.RESEND
        assert worker.room == 32


async def test_a_handed_over_delivery_that_fails_counts_on(world: World) -> None:
    world.poster.script(URL, Reply(500))
    async with world.worker() as worker:
        sent = fresh(1, world.clock)
        worker.offer(handed(sent, generation=1, attempts=4, tries=2, since=world.clock.now() - 77))
        await world.clock.settle()
        (failed,) = await world.outcomes()
        assert (failed.generation, failed.attempts, failed.tries) == (1, 5, 3)
        assert failed.since == world.clock.now() - 77


@given(
    st.lists(st.sampled_from([200, 500, 302, 410, "refused", "timeout", "reset"]), min_size=1, max_size=30),
    st.integers(1, 5),
)
def test_every_message_gets_one_outcome_and_one_ack(answers: list, limit: int) -> None:
    async def run() -> None:
        world = World()
        replies = [Reply(a) if isinstance(a, int) else Reply(failure=PostFailure(a)) for a in answers]
        world.poster.script(URL, *replies)
        async with world.worker(subscription(max_concurrency=limit, timeout=1000)):
            sent = await world.publish(20)
            await world.clock.until(lambda: world.holds() == 0 or answers[-1] not in (200, 500, 302, 410))
            found = await world.outcomes()
            ids = [one.message_id for one in found]
            assert len(ids) == len(set(ids))
            assert set(ids) <= {one.id for one in sent}
            assert len(ids) + world.holds() == 20
        assert world.poster.peak <= limit

    asyncio.run(run())
