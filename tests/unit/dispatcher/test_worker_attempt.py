"""A worker's requests, signed as the subscription says, and what it keeps of the answers."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from standardwebhooks import Webhook

from bus.domain.delivery.delivery import Status
from bus.domain.delivery.request import constant_headers
from bus.domain.subscription import Secret
from bus.domain.times import DAY
from bus.errors import EgressDenied
from bus.security.signatures import new_secret
from bus.testing.poster import MemoryPoster, Reply
from tests.unit.dispatcher.dispatcher_world import URL, World, statuses, subscription


async def test_what_a_message_does_not_have_is_not_sent(world: World) -> None:
    async with world.worker():
        await world.publish(biz_id="", key="", traceparent="", tracestate="x=1")
        await world.clock.settle()
    names = set(world.poster.posted[0].headers)
    assert names.isdisjoint({"bus-biz-id", "bus-key", "traceparent", "tracestate"})


@pytest.mark.parametrize("batch", [1, 10])
async def test_where_an_order_is_kept_each_request_has_the_number_of_its_process(world: World, batch: int) -> None:
    for epoch in (0, 7):
        async with world.worker(subscription(batch=batch), epoch=lambda _, epoch=epoch: epoch):
            await world.publish()
            await world.clock.settle()
    first, second = world.poster.posted
    assert "bus-epoch" not in first.headers
    assert second.headers["bus-epoch"] == "7"


async def test_trace_context_and_constant_headers_are_sent_and_constants_win(world: World) -> None:
    async with world.worker(subscription(headers={"X-Tenant": "constant", "User-Agent": "mine"})):
        await world.publish(traceparent="00-1-2-01", tracestate="x=1", headers={"x-tenant": "own", "x-other": "é"})
        await world.clock.settle()
    headers = world.poster.posted[0].headers
    assert (headers["traceparent"], headers["tracestate"]) == ("00-1-2-01", "x=1")
    assert (headers["x-tenant"], headers["x-other"], headers["user-agent"]) == ("constant", "é", "mine")


def test_a_constant_header_stands_in_the_place_of_the_buss_own() -> None:
    names = [name.lower() for name in constant_headers(subscription(headers={"User-Agent": "mine"}))]
    assert sorted(names) == ["bus-destination", "user-agent"]


async def test_during_a_rotation_both_secrets_sign_and_then_one(world: World) -> None:
    fresh_secret, old = new_secret(), new_secret()
    secrets = (Secret(fresh_secret), Secret(old, world.clock.now() + 60_000))
    async with world.worker(subscription(secrets=secrets)):
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


async def test_the_answers_body_is_kept_of_a_failure_and_bounded(world: World) -> None:
    world.poster.script(URL, Reply(500, body=b"x" * 100_000), Reply(200, body=b"secret"))
    async with world.worker(subscription(max_concurrency=1)):
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
    async with world.worker():
        await world.publish()
        await world.clock.settle()
        (failed,) = await world.outcomes()
        assert failed.due_at == failed.at + wait


class Fickle(MemoryPoster):
    """Denies every URL while told to, as a policy that was changed."""

    denying = True

    def target(self, url: str, headers: dict[str, str], method: str = "POST"):
        if self.denying:
            raise EgressDenied("The address is private.")
        return super().target(url, headers, method)


async def test_a_url_that_is_denied_fails_each_attempt_with_the_reason(world: World) -> None:
    world.poster = Fickle(world.poster._egress, sleep=world.clock.sleep)
    async with world.worker(subscription(max_concurrency=1)):
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
    async with world.worker():
        await world.publish(headers={"bad\nname": "x"})
        await world.publish()
        await world.clock.settle()
        assert sorted(statuses(await world.outcomes())) == [Status.DELIVERED, Status.RETRYING]


async def test_a_secret_that_expired_by_a_clock_that_was_ahead_signs_again_when_it_is_put_back(world: World) -> None:
    fresh_secret, old = new_secret(), new_secret()
    async with world.worker(subscription(secrets=(Secret(fresh_secret), Secret(old, world.clock.now() + 60_000)))):
        for jump in (DAY, -DAY):
            world.clock.jump(jump)
            await world.publish(body=b"{}")
            await world.clock.settle()
    ahead, back = world.poster.posted
    assert len(ahead.headers["webhook-signature"].split()) == 1
    assert back.headers["webhook-signature"].split() == [_sign(secret, back) for secret in (fresh_secret, old)]
