"""One subscription's courier: what it POSTs, what it records, what it acks, and in which order."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from standardwebhooks import Webhook

from bus.domain.delivery import Origin, Outcome, Status
from bus.domain.message import decode_message
from bus.domain.subscription import Secret
from bus.errors import EgressDenied, SpoolFailed, SpoolFull, StoreUnavailable
from bus.ports.poster import PostFailure
from bus.security.signatures import new_secret
from bus.telemetry import metrics
from bus.testing.poster import MemoryPoster, Reply
from bus.testing.writes import DESTINATION, message, outcome
from dispatcher.outcomes import OutcomeLog
from tests.unit.dispatcher.dispatcher_world import URL, World, fresh, handed, held, statuses, subscription


@pytest.fixture
async def world() -> World:
    return World()


def value(metric, *labels: str) -> float:
    return metric.labels(*labels)._value.get()


async def test_a_message_is_delivered_recorded_and_acked(world: World) -> None:
    async with world.courier():
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
        assert "webhook-signature" not in posted.headers
        (done,) = await world.outcomes()
        assert (done.status, done.message_id, done.subscription, done.url) == (
            Status.DELIVERED,
            sent.id,
            "billing",
            URL,
        )
        assert done.attempt is not None
        assert (done.attempt.n, done.attempt.by, done.attempt.node) == (1, Origin.ROAD, "node-1")
        assert done.attempt.status_code == 200
        assert world.holds() == 0


async def test_what_a_message_does_not_have_is_not_sent(world: World) -> None:
    async with world.courier():
        await world.publish(biz_id="", key="", traceparent="", tracestate="x=1")
        await world.clock.settle()
    names = set(world.poster.posted[0].headers)
    assert names.isdisjoint({"bus-biz-id", "bus-key", "traceparent", "tracestate"})


async def test_trace_context_and_constant_headers_are_sent_and_constants_win(world: World) -> None:
    async with world.courier(subscription(headers={"X-Tenant": "constant", "User-Agent": "mine"})):
        await world.publish(traceparent="00-1-2-01", tracestate="x=1", headers={"x-tenant": "own", "x-other": "é"})
        await world.clock.settle()
    headers = world.poster.posted[0].headers
    assert (headers["traceparent"], headers["tracestate"]) == ("00-1-2-01", "x=1")
    assert (headers["x-tenant"], headers["x-other"], headers["user-agent"]) == ("constant", "é", "mine")


async def test_what_is_routed_elsewhere_is_acked_without_an_outcome(world: World) -> None:
    async with world.courier(subscription(routing_pattern="eu.#")):
        await world.publish(routing_key="us.shoes", expected=("mail",))
        (wanted,) = await world.publish(routing_key="eu.shoes", expected=("billing",))
        (accepted_before,) = await world.publish(routing_key="us.hats", expected=("billing",))
        await world.clock.settle()
        assert [done.message_id for done in await world.outcomes()] == [wanted.id, accepted_before.id]
        assert world.holds() == 0


async def test_what_it_has_of_its_road_is_told_until_the_road_has_the_ack(world: World) -> None:
    reply, event = held()
    world.poster.script(URL, reply)
    async with world.courier(subscription(max_concurrency=2)) as courier:
        assert courier.carried == (0, None)
        sent = await world.publish(3)
        courier.offer(handed(message(9)))
        await world.clock.settle()
        assert courier.carried == (3, min(one.received_at for one in sent))
        event.set()
        await world.clock.until(lambda: world.holds() == 0)
        assert courier.carried == (0, None)


@pytest.mark.parametrize("limit", [1, 3, 16])
async def test_never_more_than_max_concurrency_in_flight(world: World, limit: int) -> None:
    reply, event = held()
    world.poster.script(URL, reply)
    async with world.courier(subscription(max_concurrency=limit)):
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
    async with world.courier(subscription(max_concurrency=2)) as courier:
        await world.publish(30)
        await world.clock.settle()
        courier.update(subscription(max_concurrency=4))
        await world.clock.settle()
        assert world.poster.in_flight == 4
        courier.update(subscription(max_concurrency=1))
        event.set()
        world.poster.script(URL, Reply(500, hold=(second := asyncio.Event())))
        await world.clock.settle()
        assert world.poster.in_flight == 1
        world.poster.script(URL, Reply())
        second.set()
        await world.clock.until(lambda: world.holds() == 0)
        assert world.poster.peak == 4


async def test_the_outcome_is_durable_before_the_ack(world: World) -> None:
    async with world.courier():
        world.spool.gate.clear()
        await world.publish(3)
        await world.clock.settle()
        assert len(world.poster.posted) == 3
        assert world.holds() == 3
        assert await world.outcomes() == []
        world.spool.gate.set()
        await world.clock.settle()
        assert statuses(await world.outcomes()) == [Status.DELIVERED] * 3
        assert world.holds() == 0


class AcksFirst(OutcomeLog):
    """Planted: tells the owner before the outcome is on the disk."""

    def record(self, outcome: Outcome, owner, token: object) -> None:
        owner.recorded([token])
        super().record(outcome, _Nobody(), token)


class _Nobody:
    def recorded(self, tokens: Sequence[object]) -> None:
        """Take no notice."""


async def test_an_ack_before_the_outcome_is_caught(world: World) -> None:
    world.log = AcksFirst(world.spool, world.clock)
    with pytest.raises(AssertionError, match="assert 0 == 3"):
        await test_the_outcome_is_durable_before_the_ack(world)


async def test_outcomes_that_wait_for_the_disk_are_bounded(world: World) -> None:
    async with world.courier(subscription(max_concurrency=4)):
        world.spool.gate.clear()
        await world.publish(100)
        await world.clock.settle()
        assert 4 <= len(world.poster.posted) <= 8
        world.spool.gate.set()
        await world.clock.until(lambda: world.holds() == 0)


async def test_a_full_disk_stops_posts_until_there_is_room(world: World) -> None:
    async with world.courier(subscription(max_concurrency=4)) as courier:
        world.spool.refuse = lambda: SpoolFull("full")
        await world.publish(50)
        await world.clock.advance(30)
        assert len(world.poster.posted) <= 8
        assert courier.in_flight == 0
        assert world.holds() == 50
        world.spool.refuse = lambda: None
        await world.clock.until(lambda: world.holds() == 0, within=5)
    assert len(world.bodies()) == len(set(world.bodies())) == 50


async def test_a_full_disk_stops_the_posts_of_who_had_nothing_to_record(world: World) -> None:
    async with world.courier():
        world.spool.refuse = lambda: SpoolFull("full")
        await world.publish()
        await world.clock.advance(1)
        async with World.courier(_beside(world), subscription("mail", url="http://127.0.0.1:8001/")) as mail:
            await world.publish(5)
            await world.clock.advance(10)
            assert [posted.url for posted in world.poster.posted] == [URL]
            world.spool.refuse = lambda: None
            await world.clock.until(lambda: world.holds("mail") == 0, within=5)
            assert mail.in_flight == 0


def _beside(world: World) -> World:
    """Return another world that shares the spool, the log and the road."""
    other = World()
    other.__dict__.update(world.__dict__)
    other.log = world.log
    return other


async def test_a_failed_disk_ends_the_recording(world: World) -> None:
    await world.ensure()
    world.spool.refuse = lambda: SpoolFailed("EIO")
    recording = asyncio.create_task(world.log.run())
    world.log.record(outcome(fresh(1, world.clock), "billing", Status.DELIVERED), _Nobody(), 1)
    with pytest.raises(SpoolFailed):
        await recording


async def test_drain_waits_for_what_is_being_written(world: World) -> None:
    told: list[object] = []

    class Owner:
        def recorded(self, tokens: Sequence[object]) -> None:
            told.extend(tokens)

    recording = asyncio.create_task(world.log.run())
    world.spool.gate.clear()
    for number in range(3):
        world.log.record(outcome(fresh(number, world.clock), "billing", Status.DELIVERED), Owner(), number)
        await world.clock.settle()
    draining = asyncio.create_task(world.log.drain())
    await world.clock.settle()
    assert not draining.done()
    world.spool.gate.set()
    await draining
    assert told == [0, 1, 2]
    recording.cancel()
    await asyncio.gather(recording, return_exceptions=True)


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
    async with world.courier(subscription(timeout=2000)):
        (sent,) = await world.publish()
        await world.clock.advance(2)
        (failed,) = await world.outcomes()
        assert (failed.status, failed.reason) == (Status.RETRYING, reason)
        assert failed.due_at == failed.at + 1000
        assert decode_message(failed.message) == sent
        assert (failed.attempts, failed.tries) == (1, 1)
        assert world.holds() == 0
        assert len(world.poster.posted) == 1


async def test_the_answers_body_is_kept_of_a_failure_and_bounded(world: World) -> None:
    world.poster.script(URL, Reply(500, body=b"x" * 100_000), Reply(200, body=b"secret"))
    async with world.courier(subscription(max_concurrency=1)):
        await world.publish(2)
        await world.clock.settle()
        failed, delivered = await world.outcomes()
        assert failed.attempt is not None
        assert delivered.attempt is not None
        assert failed.attempt.response == b"x" * 4096
        assert delivered.attempt.response == b""


@pytest.mark.parametrize(("value", "wait"), [("120", 120_000), ("Sat, 21 Nov 2026 12:01:00 GMT", 60_000), ("²", 1000)])
async def test_retry_after_is_honoured_and_garbage_harms_nobody(world: World, value: str, wait: int) -> None:
    world.poster.script(URL, Reply(503, (("Retry-After", value),)))
    async with world.courier():
        await world.publish()
        await world.clock.settle()
        (failed,) = await world.outcomes()
        assert failed.due_at == failed.at + wait


async def test_410_is_a_failure_and_tells_who_pauses(world: World) -> None:
    world.poster.script(URL, Reply(410))
    async with world.courier():
        await world.publish(5)
        await world.clock.settle()
        assert statuses(await world.outcomes()) == [Status.RETRYING] * 5
        assert {gone.key for gone in world.gone} == {(DESTINATION, "billing")}


async def test_a_rate_starts_so_many_a_second(world: World) -> None:
    async with world.courier(subscription(rate=5)):
        await world.publish(40)
        await world.clock.settle()
        assert len(world.poster.posted) == 5
        await world.clock.advance(2)
        assert len(world.poster.posted) == 15
        await world.clock.until(lambda: world.holds() == 0)
        assert world.clock.monotonic() - 1000 == pytest.approx(7, abs=0.1)


async def test_a_changed_rate_counts_at_once(world: World) -> None:
    async with world.courier(subscription(rate=0.001)) as courier:
        await world.publish(20)
        await world.clock.settle()
        assert len(world.poster.posted) == 1
        courier.update(subscription(rate=1000))
        await world.clock.advance(1)
        assert len(world.poster.posted) == 20


async def test_what_a_filter_skips_costs_no_rate(world: World) -> None:
    async with world.courier(subscription(rate=1, filter="body == 'yes'")):
        await world.publish(50, body=b'"no"')
        await world.publish(2, body=b'"yes"')
        await world.clock.advance(1.5)
        assert world.bodies() == [b'"yes"', b'"yes"']


async def test_what_a_filter_does_not_want_is_skipped_with_the_reason(world: World) -> None:
    async with world.courier(subscription(filter="body.n > `2`")):
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
    async with world.courier(subscription(filter="body.n > `2` || body.n == null && to_number(body) > length(body)")):
        await world.publish(body=body)
        await world.clock.settle()
        assert statuses(await world.outcomes()) == [Status.DELIVERED]
    assert value(metrics.FILTER_FAILURES, DESTINATION, "billing") == before + 1


async def test_a_duplicate_on_the_road_is_posted_once(world: World) -> None:
    reply, event = held()
    world.poster.script(URL, reply)
    async with world.courier():
        (sent,) = await world.publish()
        await world.clock.settle()
        await world.publish(id=sent.id)
        await world.clock.settle()
        event.set()
        await world.clock.settle()
        await world.publish(id=sent.id)
        await world.clock.settle()
        assert len(world.poster.posted) == 1
        assert statuses(await world.outcomes()) == [Status.DELIVERED]
        assert world.holds() == 0


async def test_a_copy_is_acked_only_with_the_outcome_of_the_first(world: World) -> None:
    reply, event = held()
    world.poster.script(URL, reply)
    async with world.courier():
        (sent,) = await world.publish()
        await world.publish(id=sent.id)
        await world.clock.settle()
        await world.publish(id=sent.id)
        await world.clock.settle()
        assert world.holds() == 3
        world.spool.gate.clear()
        event.set()
        await world.clock.settle()
        assert len(world.poster.posted) == 1
        assert world.holds() == 3
        world.spool.gate.set()
        await world.clock.settle()
        assert world.holds() == 0


async def test_copies_are_given_back_with_the_first(world: World) -> None:
    reply, _ = held()
    world.poster.script(URL, reply)
    async with world.courier() as courier:
        (sent,) = await world.publish()
        await world.clock.settle()
        await world.publish(id=sent.id)
        await world.clock.settle()
        courier._group._abort()  # type: ignore[union-attr]
        await world.clock.settle()
        assert world.holds() == 2
        consumer = await world.road.consume(DESTINATION, "billing")
        assert len(await consumer.receive(10)) == 2


async def test_turning_to_the_road_anew_loses_nothing(world: World) -> None:
    async with world.courier() as courier:
        for number in range(5):
            await world.publish()
            courier.listen_again()
            await world.publish()
            await world.clock.settle()
            assert len(world.poster.posted) == 2 * number + 2
        assert world.holds() == 0


async def test_turning_to_the_road_anew_while_the_store_is_asked_loses_nothing(world: World) -> None:
    asked, answer = asyncio.Event(), asyncio.Event()
    plain = world.store.finished

    async def slow(keys):
        asked.set()
        await answer.wait()
        return await plain(keys)

    world.store.finished = slow
    async with world.courier(started_at=world.clock.now() + 60_000) as courier:
        await world.publish(3)
        await world.clock.settle()
        assert asked.is_set()
        courier.listen_again()
        answer.set()
        await world.clock.settle()
        assert len(world.poster.posted) == 3
        assert world.holds() == 0


async def test_a_duplicate_of_a_failed_one_leaves_the_retry_to_its_row(world: World) -> None:
    world.poster.script(URL, Reply(500))
    async with world.courier():
        (sent,) = await world.publish()
        await world.clock.settle()
        await world.publish(id=sent.id)
        await world.clock.settle()
        assert len(world.poster.posted) == 1
        assert world.holds() == 0


class Asked(Exception):
    pass


@pytest.mark.parametrize("why", ["held before", "older than this process", "older than stuck_after"])
async def test_a_suspect_is_checked_against_the_store(world: World, why: str) -> None:
    await world.ensure()
    started_at = world.clock.now()
    if why == "older than this process":
        done, open_ = await world.publish(2)
        await world.clock.advance(1)
        started_at = world.clock.now()
    elif why == "held before":
        done, open_ = await world.publish(2)
        await (await world.road.consume(DESTINATION, "billing")).receive(2)
        world.road.crash()
    else:
        await world.clock.advance(1)
        done, open_ = await world.publish(2, received_at=started_at - 600_000)
    await world.store.write([done, open_, outcome(done, "billing", Status.DELIVERED)])
    async with world.courier(started_at=started_at):
        await world.clock.settle()
        assert [posted.headers["webhook-id"] for posted in world.poster.posted] == [open_.id]
        assert world.holds() == 0


async def test_what_is_not_suspect_costs_no_question(world: World) -> None:
    class Silent:
        async def finished(self, _) -> set:
            raise Asked

    async with world.courier(store=Silent()):
        await world.publish(3)
        await world.clock.settle()
        assert len(world.poster.posted) == 3


async def test_a_suspect_is_delivered_while_the_store_does_not_answer(world: World) -> None:
    class Down:
        async def finished(self, _) -> set:
            raise StoreUnavailable("down")

    await world.ensure()
    await world.publish(2)
    await world.clock.advance(1)
    async with world.courier(store=Down()):
        await world.clock.settle()
        assert len(world.poster.posted) == 2


async def test_a_paused_subscription_holds_and_gives_back(world: World) -> None:
    reply, event = held()
    world.poster.script(URL, reply)
    async with world.courier(subscription(max_concurrency=1)) as courier:
        await world.publish(5)
        await world.clock.settle()
        courier.update(subscription(max_concurrency=1, paused=True))
        await world.clock.settle()
        assert courier.room == 0
        assert len(world.road.queue((DESTINATION, "billing")).held) == 1
        event.set()
        await world.clock.advance(60)
        assert len(world.poster.posted) == 1
        assert world.holds() == 4
        courier.update(subscription(max_concurrency=1))
        await world.clock.until(lambda: world.holds() == 0)
        assert len(set(world.bodies())) == len(world.bodies()) == 5


async def test_what_comes_while_paused_is_not_started(world: World) -> None:
    async with world.courier() as courier:
        courier.update(subscription(paused=True))
        await world.publish(5)
        await world.clock.advance(60)
        assert world.poster.posted == []
        assert world.road.queue((DESTINATION, "billing")).held == {}
        assert not courier.offer(handed(fresh(99, world.clock)))
        courier.update(subscription())
        await world.clock.settle()
        assert len(world.poster.posted) == 5


async def test_stop_finishes_what_is_in_flight_and_starts_nothing_new(world: World) -> None:
    reply, event = held()
    world.poster.script(URL, reply)
    async with world.courier(subscription(max_concurrency=2)) as courier:
        await world.publish(10)
        await world.clock.settle()
        courier.stop()
        await world.clock.settle()
        event.set()
        await world.clock.settle()
    assert len(world.poster.posted) == 2
    assert statuses(await world.outcomes()) == [Status.DELIVERED] * 2
    queue = world.road.queue((DESTINATION, "billing"))
    assert (len(queue.waiting), len(queue.held)) == (8, 0)


@pytest.mark.parametrize("why", ["rate", "disk"])
async def test_stop_does_not_wait_for_what_may_not_start(world: World, why: str) -> None:
    of = subscription(rate=0.0001) if why == "rate" else subscription(max_concurrency=1)
    async with world.courier(of) as courier:
        world.spool.refuse = (lambda: SpoolFull("full")) if why == "disk" else (lambda: None)
        await world.publish(5)
        await world.clock.advance(1)
        before = len(world.poster.posted)
        assert before < 5
        courier.stop()
        await world.clock.settle()
        held_now = len(world.road.queue((DESTINATION, "billing")).held)
        assert held_now <= (1 if why == "disk" else 0)
        world.spool.refuse = lambda: None
        await world.clock.advance(3600 * 24)
        assert len(world.poster.posted) == before


async def test_cancelling_gives_back_what_is_in_flight(world: World) -> None:
    reply, _ = held()
    world.poster.script(URL, reply)
    await world.ensure()
    courier_of = world.courier(subscription(max_concurrency=2))
    courier = await courier_of.__aenter__()
    await world.publish(3)
    await world.clock.settle()
    running = next(task for task in asyncio.all_tasks() if "Courier.run" in repr(task))
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert courier.in_flight == 0
    assert world.poster.in_flight == 0
    queue = world.road.queue((DESTINATION, "billing"))
    assert (len(queue.waiting), len(queue.held)) == (3, 0)
    assert await world.outcomes() == []
    with pytest.raises(asyncio.CancelledError):
        await courier_of.__aexit__(None, None, None)


async def test_during_a_rotation_both_secrets_sign_and_then_one(world: World) -> None:
    fresh_secret, old = new_secret(), new_secret()
    secrets = (Secret(fresh_secret), Secret(old, world.clock.now() + 60_000))
    async with world.courier(subscription(secrets=secrets)):
        for _ in range(2):
            await world.publish(body=b"{}")
            await world.clock.advance(60)
    during, after = world.poster.posted
    # The verifier's clock is that of the machine, so the signatures are compared.
    signatures = [[_sign(secret, posted) for secret in (fresh_secret, old)] for posted in (during, after)]
    assert during.headers["webhook-signature"].split() == signatures[0]
    assert after.headers["webhook-signature"].split() == signatures[1][:1]


def _sign(secret: str, posted) -> str:
    moment = datetime.fromtimestamp(int(posted.headers["webhook-timestamp"]), UTC)
    return Webhook(secret).sign(posted.headers["webhook-id"], moment, posted.body.decode())


class Fickle(MemoryPoster):
    """Denies every URL while told to, as a policy that was changed."""

    denying = True

    def target(self, url: str, headers: dict[str, str]):
        if self.denying:
            raise EgressDenied("The address is private.")
        return super().target(url, headers)


async def test_a_url_that_is_denied_fails_each_attempt_with_the_reason(world: World) -> None:
    world.poster = Fickle(world.poster._egress, sleep=world.clock.sleep)
    async with world.courier(subscription(max_concurrency=1)):
        await world.publish(2)
        await world.clock.advance(2.5)
        failed = await world.outcomes()
        assert statuses(failed) == [Status.RETRYING] * 2
        assert {one.reason for one in failed} == {"The address is private."}
        assert world.poster.posted == []
        world.poster.denying = False
        await world.publish()
        await world.clock.advance(2.5)
        assert statuses(await world.outcomes()) == [Status.DELIVERED]


async def test_a_message_that_http_cannot_carry_fails_and_harms_nobody(world: World) -> None:
    async with world.courier():
        await world.publish(headers={"bad\nname": "x"})
        await world.publish()
        await world.clock.settle()
        assert sorted(statuses(await world.outcomes())) == [Status.DELIVERED, Status.RETRYING]


async def test_a_handed_over_delivery_goes_on_where_it_was(world: World) -> None:
    async with world.courier() as courier:
        sent = fresh(1, world.clock)
        assert courier.room == 32
        assert courier.offer(handed(sent, generation=2, attempts=7, tries=3, by=Origin.RESEND))
        assert not courier.offer(handed(sent))
        assert courier.room == 31
        await world.clock.settle()
        (done,) = await world.outcomes()
        assert world.poster.posted[0].headers["bus-attempt"] == "8"
        assert (done.generation, done.attempts, done.status) == (2, 8, Status.DELIVERED)
        assert done.attempt is not None
        assert done.attempt.by is Origin.RESEND
        assert courier.room == 32


async def test_a_handed_over_delivery_that_fails_counts_on(world: World) -> None:
    world.poster.script(URL, Reply(500))
    async with world.courier() as courier:
        sent = fresh(1, world.clock)
        courier.offer(handed(sent, generation=1, attempts=4, tries=2, since=world.clock.now() - 77))
        await world.clock.settle()
        (failed,) = await world.outcomes()
        assert (failed.generation, failed.attempts, failed.tries) == (1, 5, 3)
        assert failed.since == world.clock.now() - 77


async def test_there_is_room_for_two_windows_and_no_more(world: World) -> None:
    reply, event = held()
    world.poster.script(URL, reply)
    async with world.courier(subscription(max_concurrency=3)) as courier:
        taken = [courier.offer(handed(fresh(n, world.clock))) for n in range(10)]
        assert taken == [True] * 6 + [False] * 4
        await world.clock.settle()
        assert (courier.room, courier.in_flight) == (0, 3)
        event.set()
        await world.clock.settle()
        assert courier.room == 6


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.sampled_from([200, 500, 302, 410, "refused", "timeout", "reset"]), min_size=1, max_size=30),
    st.integers(1, 5),
)
def test_every_message_gets_one_outcome_and_one_ack(answers: list, limit: int) -> None:
    async def run() -> None:
        world = World()
        replies = [Reply(a) if isinstance(a, int) else Reply(failure=PostFailure(a)) for a in answers]
        world.poster.script(URL, *replies)
        async with world.courier(subscription(max_concurrency=limit, timeout=1000)):
            sent = await world.publish(20)
            await world.clock.until(lambda: world.holds() == 0 or answers[-1] not in (200, 500, 302, 410))
            found = await world.outcomes()
            ids = [one.message_id for one in found]
            assert len(ids) == len(set(ids))
            assert set(ids) <= {one.id for one in sent}
            assert len(ids) + world.holds() == 20
        assert world.poster.peak <= limit

    asyncio.run(run())
