"""A worker whose subscription takes many messages in a POST."""

from __future__ import annotations

import asyncio
import base64
import json
import time
from collections import Counter
from datetime import UTC, datetime
from typing import Any

import pytest
from standardwebhooks import Webhook

from bus.domain.delivery.breaker import BreakerState
from bus.domain.delivery.delivery import Outcome, Status
from bus.domain.message import Message
from bus.domain.subscription import BatchFormat, Secret
from bus.ports.poster import PostFailure
from bus.security.signatures import new_secret
from bus.testing.poster import MemoryPoster, PostedRequest, Reply
from bus.testing.writes import DESTINATION
from dispatcher.batching import HELD_BYTES, MOST_HELD, Window
from dispatcher.pending_deliveries import PendingDeliveries, PendingDelivery
from tests.unit.dispatcher.dispatcher_world import URL, World, fresh, handed, held, statuses, subscription
from tests.unit.dispatcher.test_dispatcher import catalog, dispatching

MIB = 2**20


def batched(batch: int = 10, **changes: Any):
    return subscription(batch=batch, **{"max_concurrency": 1} | changes)


def entries(posted: PostedRequest) -> list[dict[str, Any]]:
    return [json.loads(line) for line in posted.body.splitlines()]


def ids(posted: PostedRequest) -> list[str]:
    return [entry["id"] for entry in entries(posted)]


def sizes(world: World) -> list[int]:
    return [int(posted.headers["bus-batch"]) for posted in world.poster.posted]


async def blocked(world: World, count: int, **changes: Any) -> tuple[asyncio.Event, list[Message]]:
    """Have one POST in flight, and so many messages waiting behind it."""
    reply, event = held()
    world.poster.script(URL, reply, Reply())
    sent = await world.publish()
    await world.clock.settle()
    sent += await world.publish(count, **changes)
    await world.clock.settle()
    return event, sent


async def outcomes_of(world: World) -> dict[str, Outcome]:
    return {outcome.message_id: outcome for outcome in await world.outcomes()}


async def test_what_waits_goes_together_and_nothing_is_waited_for(world: World) -> None:
    async with world.worker(batched(10)):
        event, sent = await blocked(world, 25)
        assert sizes(world) == [1]
        event.set()
        await world.clock.settle()
    assert sizes(world) == [1, 10, 10, 5]
    assert [one for posted in world.poster.posted for one in ids(posted)] == [one.id for one in sent]
    assert statuses(await world.outcomes()) == [Status.DELIVERED] * 26
    assert world.holds() == 0


async def test_a_post_has_an_id_and_one_signature_and_each_message_its_own_data(world: World) -> None:
    secret = new_secret()
    of = batched(10, secrets=(Secret(secret),), headers={"x-tenant": "t"})
    async with world.worker(of):
        event, sent = await blocked(world, 2, body=b'{"a": 1}', content_type="application/json", headers={"x-own": "o"})
        event.set()
        await world.clock.settle()
    first, second = world.poster.posted
    headers = second.headers
    assert headers["content-type"] == "application/x-ndjson"
    assert (headers["bus-batch"], headers["bus-destination"], headers["x-tenant"]) == ("2", DESTINATION, "t")
    assert {"bus-attempt", "bus-biz-id", "bus-key", "x-own", "bus-sent-at"}.isdisjoint(headers)
    assert headers["webhook-id"].startswith("batch-")
    assert headers["webhook-id"] != first.headers["webhook-id"]
    moment = datetime.fromtimestamp(int(headers["webhook-timestamp"]), UTC)
    assert Webhook(secret).sign(headers["webhook-id"], moment, second.body.decode()) == headers["webhook-signature"]
    assert base64.b64decode(entries(first)[0]["body_base64"]) == sent[0].body
    for entry, message in zip(entries(second), sent[1:], strict=True):
        assert entry["body"] == {"a": 1}
        assert (entry["id"], entry["biz_id"], entry["attempt"]) == (message.id, message.biz_id, 1)
        assert entry["headers"] == {"x-own": "o"}
    assert b'"body":{"a": 1}' in second.body
    marks = {outcome.attempt.batch for outcome in await world.outcomes() if outcome.attempt is not None}
    assert marks == {(headers["webhook-id"], 2), (first.headers["webhook-id"], 1)}


async def test_the_other_format_is_one_array(world: World) -> None:
    async with world.worker(batched(10, batch_format=BatchFormat.JSON)):
        event, sent = await blocked(world, 3)
        event.set()
        await world.clock.settle()
    assert [len(json.loads(posted.body)) for posted in world.poster.posted] == [1, 3]
    assert world.poster.posted[1].headers["content-type"] == "application/json"
    assert [entry["id"] for entry in json.loads(world.poster.posted[1].body)] == [one.id for one in sent[1:]]


async def test_what_is_listed_as_failed_is_tried_again_and_the_others_are_delivered(world: World) -> None:
    async with world.worker(batched(10)):
        event, sent = await blocked(world, 4)
        answer = json.dumps({"failed": [sent[2].id, sent[4].id, "unknown"]}).encode()
        world.poster.script(URL, Reply(200, body=answer))
        event.set()
        await world.clock.settle()
        found = await outcomes_of(world)
    failed = [found[sent[number].id] for number in (2, 4)]
    assert Counter(outcome.status for outcome in found.values()) == {Status.DELIVERED: 3, Status.RETRYING: 2}
    for outcome in failed:
        assert (outcome.reason, outcome.attempts, outcome.tries) == ("the subscriber listed it as failed", 1, 1)
        assert outcome.due_at == outcome.at + 1000
        assert outcome.attempt is not None
        assert (outcome.attempt.status_code, outcome.attempt.error) == (200, outcome.reason)
        assert outcome.attempt.response == answer
    assert world.holds() == 0


@pytest.mark.parametrize(
    "reply",
    [Reply(200, body=b'{"failed":["'), Reply(200, body=b'{"failed":[]}', is_whole=False)],
    ids=["broken", "cut"],
)
async def test_an_answer_that_is_not_clear_delivers_nothing(world: World, reply: Reply) -> None:
    async with world.worker(batched(10)) as worker:
        event, _ = await blocked(world, 3)
        world.poster.script(URL, reply)
        event.set()
        await world.clock.settle()
        assert statuses(await world.outcomes()) == [Status.DELIVERED, *[Status.RETRYING] * 3]
        assert worker.breaker.state is BreakerState.CLOSED


async def test_an_answer_has_room_for_a_hundred_ids_and_why(world: World) -> None:
    async with world.worker(batched(100)):
        event, sent = await blocked(world, 100)
        told = {"failed": [one.id for one in sent[1:100]], "why": {one.id: "its price is unknown" for one in sent}}
        world.poster.script(URL, Reply(200, body=json.dumps(told, indent=2).encode()))
        event.set()
        await world.clock.settle()
        found = await outcomes_of(world)
    assert Counter(outcome.status for outcome in found.values()) == {Status.DELIVERED: 2, Status.RETRYING: 99}
    assert found[sent[100].id].status is Status.DELIVERED


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (Reply(500, body=b'{"failed":[]}'), "HTTP 500"),
        (Reply(302), "HTTP 302"),
        (Reply(failure=PostFailure.RESET), "scripted: reset"),
        (Reply(503, (("Retry-After", "60"),)), "HTTP 503"),
    ],
)
async def test_any_other_answer_or_none_fails_all(world: World, reply: Reply, reason: str) -> None:
    async with world.worker(batched(10)):
        event, _ = await blocked(world, 3)
        world.poster.script(URL, reply)
        event.set()
        await world.clock.settle()
        failed = (await world.outcomes())[1:]
    assert statuses(failed) == [Status.RETRYING] * 3
    assert {outcome.reason for outcome in failed} == {reason}
    assert {outcome.due_at - outcome.at for outcome in failed} == {60_000 if reply.headers else 1000}
    assert len({outcome.attempt.id for outcome in failed if outcome.attempt is not None}) == 3


async def test_410_to_a_batch_is_told_once_and_dead_on_ends_all(world: World) -> None:
    world.poster.script(URL, Reply(410), Reply(422))
    async with world.worker(batched(10, dead_on=(422,))):
        await world.publish(2)
        await world.clock.settle()
        assert (sizes(world), len(world.gone)) == ([2], 1)
        await world.publish(3)
        await world.clock.settle()
    assert (sizes(world), len(world.gone)) == ([2, 3], 1)
    assert statuses(await world.outcomes()) == [*[Status.RETRYING] * 2, *[Status.DEAD] * 3]


async def test_each_delivery_goes_on_from_its_own_attempts(world: World) -> None:
    async with world.worker(batched(10)) as worker:
        event, sent = await blocked(world, 1)
        again = fresh(90, world.clock)
        assert worker.offer(handed(again, attempts=7, tries=3, generation=2))
        assert not worker.offer(handed(again))
        world.poster.script(URL, Reply(500))
        event.set()
        await world.clock.settle()
        found = await outcomes_of(world)
    assert [entry["attempt"] for entry in entries(world.poster.posted[1])] == [1, 8]
    assert (found[sent[1].id].attempts, found[sent[1].id].tries) == (1, 1)
    assert (found[again.id].attempts, found[again.id].tries, found[again.id].generation) == (8, 4, 2)


async def test_what_may_not_start_any_more_is_in_no_batch(world: World) -> None:
    async with world.worker(batched(10)) as worker:
        event, sent = await blocked(world, 1)
        late, timely = fresh(90, world.clock), fresh(91, world.clock)
        assert worker.offer(handed(late), world.clock.monotonic() + 5)
        assert worker.offer(handed(timely), world.clock.monotonic() + 50)
        await world.clock.advance(6)
        event.set()
        await world.clock.settle()
    assert ids(world.poster.posted[1]) == [sent[1].id, timely.id]


async def test_a_post_has_a_mebibyte_of_bodies_and_a_larger_message_goes_alone(world: World) -> None:
    async with world.worker(batched(100)):
        event, _ = await blocked(world, 3, body=b"x" * (400 * 1024))
        await world.publish(1, body=b"x" * (2 * MIB))
        await world.publish(2)
        await world.clock.settle()
        event.set()
        await world.clock.settle()
    assert sizes(world) == [1, 2, 1, 1, 2]


async def test_what_a_filter_skips_is_in_no_batch_and_is_recorded(world: World) -> None:
    async with world.worker(batched(4, filter="body == 'yes'")):
        event, _ = await blocked(world, 0)
        for number in range(12):
            await world.publish(body=b'"yes"' if number % 2 else b'"no"', content_type="application/json")
        await world.clock.settle()
        event.set()
        await world.clock.settle()
        found = Counter(statuses(await world.outcomes()))
    assert found == {Status.SKIPPED: 7, Status.DELIVERED: 6}
    assert [one for posted in world.poster.posted for one in entries(posted) if one["body"] != "yes"] == []
    assert max(sizes(world)) == 4


async def test_a_rate_counts_messages_and_cuts_batches(world: World) -> None:
    async with world.worker(batched(100, rate=5)):
        await world.publish(20)
        await world.clock.settle()
        assert sum(sizes(world)) == 5
        await world.clock.advance(1)
        assert sum(sizes(world)) == 10
        await world.clock.until(lambda: world.holds() == 0)
        assert world.clock.monotonic() - 1000 == pytest.approx(3, abs=0.1)


@pytest.mark.parametrize("permits", [1, 3])
async def test_a_permit_is_for_a_post(world: World, permits: int) -> None:
    reply, event = held()
    world.poster.script(URL, reply)
    async with world.worker(batched(10, max_concurrency=permits)) as worker:
        for _ in range(8):
            await world.publish(10)
            await world.clock.settle()
        assert (worker.in_flight, world.poster.in_flight) == (permits, permits)
        assert worker.waiting > 0
        event.set()
        await world.clock.until(lambda: world.holds() == 0)
    assert world.poster.peak == permits
    assert sum(sizes(world)) == 80


async def test_a_probe_is_one_message_and_costs_it_no_attempt(world: World) -> None:
    world.poster.script(URL, Reply(failure=PostFailure.REFUSED))
    async with world.worker(batched(10)) as worker:
        for _ in range(5):
            await world.publish(3)
            await world.clock.settle()
        assert worker.breaker.state is BreakerState.OPEN
        await world.outcomes()
        before = len(world.poster.posted)
        await world.publish(8)
        await world.clock.advance(1.5)
        assert sizes(world)[before:] == [1]
        assert await world.outcomes() == []
        world.poster.script(URL, Reply())
        await world.clock.advance(3)
        assert sizes(world)[before + 1] == 1
        assert worker.breaker.state is BreakerState.CLOSED
        await world.clock.until(lambda: world.holds() == 0)
    assert {outcome.attempts for outcome in await world.outcomes()} == {1}


async def test_a_post_counts_once_for_the_breaker(world: World) -> None:
    world.poster.script(URL, Reply(500))
    async with world.worker(batched(10)) as worker:
        for _ in range(19):
            await world.publish(10)
            await world.clock.settle()
            if len(world.poster.posted) < 20:
                assert worker.breaker.state is BreakerState.CLOSED
        while len(world.poster.posted) < 20:
            await world.publish(10)
            await world.clock.settle()
        assert worker.breaker.state is BreakerState.OPEN


async def test_room_is_counted_in_messages(world: World) -> None:
    reply, event = held()
    world.poster.script(URL, reply)
    async with world.worker(batched(10, max_concurrency=2)) as worker:
        assert worker.room == 4  # no more than of single messages, before it is known how large they are
        taken = sum(worker.offer(handed(fresh(number, world.clock))) for number in range(60))
        assert (taken, worker.room) == (40, 0)
        await world.clock.settle()
        assert worker.in_flight == 2
        event.set()
        await world.clock.settle()
        assert worker.room == 4


async def test_outcomes_that_wait_for_the_disk_are_bounded_in_messages(world: World) -> None:
    async with world.worker(batched(10, max_concurrency=2)):
        world.spool.gate.clear()
        await world.publish(200)
        await world.clock.settle()
        assert 20 <= sum(sizes(world)) <= 40
        assert world.holds() == 200
        world.spool.gate.set()
        await world.clock.until(lambda: world.holds() == 0)
    assert sorted(one for posted in world.poster.posted for one in ids(posted)) == sorted(
        {one for posted in world.poster.posted for one in ids(posted)}
    )


async def test_the_outcome_of_each_is_durable_before_its_ack(world: World) -> None:
    async with world.worker(batched(10)):
        event, _ = await blocked(world, 5)
        world.spool.gate.clear()
        event.set()
        await world.clock.settle()
        assert world.holds() == 6
        assert await world.outcomes() == []
        world.spool.gate.set()
        await world.clock.settle()
        assert world.holds() == 0
        assert len(await world.outcomes()) == 6


@pytest.mark.parametrize("is_kept", [False, True], ids=["in a task", "on a kept connection"])
async def test_cancelling_gives_back_every_message_of_a_batch(world: World, is_kept: bool) -> None:
    if is_kept:
        async with world.worker(batched()):
            await world.publish()
            await world.clock.settle()
        await world.outcomes()
    await world.ensure()
    worker_of = world.worker(batched(10))
    await world.publish(12)
    reply, _ = held()
    world.poster.script(URL, reply)
    worker = await worker_of.__aenter__()
    await world.clock.settle()
    assert worker.in_flight == 1
    running = next(task for task in asyncio.all_tasks() if "SubscriptionWorker.run" in repr(task))
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    await world.clock.settle()
    assert (worker.in_flight, world.poster.in_flight) == (0, 0)
    queue = world.transport.queue((DESTINATION, "billing"))
    assert (len(queue.waiting), len(queue.held)) == (12, 0)
    assert await world.outcomes() == []
    with pytest.raises(asyncio.CancelledError):
        await worker_of.__aexit__(None, None, None)


async def test_stop_finishes_a_batch_in_flight_and_gives_back_the_rest(world: World) -> None:
    async with world.worker(batched(5)) as worker:
        event, _ = await blocked(world, 5)
        worker.stop()
        event.set()
        await world.clock.settle()
    assert sizes(world) == [1]
    queue = world.transport.queue((DESTINATION, "billing"))
    assert (len(queue.waiting), len(queue.held)) == (5, 0)


async def test_it_can_be_switched_on_and_off_while_messages_flow(world: World) -> None:
    async with world.worker(subscription(max_concurrency=1)) as worker:
        event, sent = await blocked(world, 1)
        worker.update(batched(10))
        event.set()
        await world.clock.settle()
        assert ids(world.poster.posted[1]) == [sent[1].id]
        worker.update(subscription(max_concurrency=1))
        (last,) = await world.publish()
        await world.clock.settle()
    assert world.poster.posted[2].headers["webhook-id"] == last.id
    assert statuses(await world.outcomes()) == [Status.DELIVERED] * 3


class Denying(MemoryPoster):
    """Lets nobody be called."""

    def target(self, url: str, headers: dict[str, str], method: str = "POST"):
        raise ValueError(f"{method} {url} is broken by {len(headers)} headers")


async def test_a_request_that_cannot_be_made_fails_each_message(world: World) -> None:
    world.poster = Denying(world.poster._egress, sleep=world.clock.sleep)
    async with world.worker(batched(10)):
        await world.publish(3)
        await world.clock.advance(2.5)
        failed = await world.outcomes()
    assert statuses(failed) == [Status.RETRYING] * 3
    assert {outcome.reason for outcome in failed} == {f"POST {URL} is broken by 2 headers"}


async def test_a_sample_is_a_batch_of_one(world: World) -> None:
    secret = new_secret()
    async with dispatching(world, catalog(batched(10, secrets=(Secret(secret),)))) as (dispatcher, _):
        sent = fresh(1, world.clock, body=b'{"a":1}', content_type="application/json")
        sampled = await dispatcher.sample(sent, "billing")
        (posted,) = world.poster.posted
        assert (posted.headers["bus-sample"], posted.headers["bus-batch"]) == ("true", "1")
        assert ids(posted) == [sent.id]
        assert (sampled.body, sampled.error, sampled.status) == (posted.body, "", 200)
        if abs(int(posted.headers["webhook-timestamp"]) - time.time()) < 300:  # the verifier's clock is the machine's
            Webhook(secret).verify(posted.body, posted.headers, json_parse=False)
        world.poster.script(URL, Reply(200, body=json.dumps({"failed": [sent.id]}).encode()))
        sampled = await dispatcher.sample(sent, "billing")
        assert (sampled.status, sampled.error) == (200, "the subscriber listed it as failed")


def test_a_window_is_that_of_two_posts_for_each_permit_and_is_bounded() -> None:
    assert Window(subscription(max_concurrency=7)).most == 14
    assert Window(subscription(max_concurrency=10_000)).most == 20_000
    assert Window(batched(50, max_concurrency=7)).most == 700
    assert Window(batched(50, max_concurrency=7, rate=2.5)).most == 28
    assert Window(batched(50, max_concurrency=7, rate=0.1)).most == 14
    assert Window(batched(100, max_concurrency=1000)).most == MOST_HELD
    assert Window(batched(100, max_concurrency=10_000)).most == 20_000


async def test_what_is_pulled_to_fill_batches_is_bounded_in_bytes(world: World) -> None:
    await world.ensure()
    pending = PendingDeliveries(await world.transport.consume(DESTINATION, "billing"))
    window = Window(batched(100, max_concurrency=2))
    assert window.pull(400, pending) == 4
    assert window.pull(199, pending) == 0

    def hold(count: int, size: int) -> list[PendingDelivery]:
        numbers = (next(world.made) for _ in range(count))
        made = [PendingDelivery(handed(fresh(n, world.clock, body=b"x" * size)), None) for n in numbers]
        for entry in made:
            pending.add(entry)
        return made

    small = hold(10, 100)
    assert window.pull(390, pending) == 390
    pending.ack(small)
    large = hold(4, 4 * MIB)
    assert pending.body_bytes == 16 * MIB
    assert window.pull(390, pending) == 4
    large += hold(5, HELD_BYTES // 8)
    assert pending.body_bytes >= HELD_BYTES
    assert window.pull(380, pending) == 0
