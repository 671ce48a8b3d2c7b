"""Progress of the consumers of queues: one of this process that is stalled, and a queue that nobody reads."""

from __future__ import annotations

from bus.domain.health.progress import Verdict
from tests.harness.hurried_clock import HurriedClock
from tests.integration.rabbitmq.rabbitmq_world import confirmed, eventually, receive, world
from tests.servers.rabbitmq import RabbitmqServer

HASTE = 150
MORE_THAN_ARE_FETCHED = 400


async def test_a_queue_is_judged_by_what_its_consumers_get(primary: RabbitmqServer) -> None:
    async with world(primary.url) as found, world(primary.url, clock=HurriedClock(HASTE), tidy=False) as others:
        others.code = found.code
        await found.ensure("billing")
        await others.ensure("billing")
        key = (found.code, "billing")

        def verdict() -> Verdict | None:
            seen = others.transport.progress().get(key)
            return None if seen is None else seen.verdict

        await confirmed(found, *found.messages(MORE_THAN_ARE_FETCHED))
        await eventually(lambda: verdict() is Verdict.STOPPED)
        # Of the consumers of another process nobody knows how they get on.
        consumer = await found.consume()
        consumer.release(await receive(consumer, 1))
        await eventually(lambda: verdict() is Verdict.WELL)
        await consumer.close()
        own = await others.consume()
        held = await receive(own, 1)
        await eventually(lambda: verdict() is Verdict.STALLED)
        assert others.transport.progress()[key].where == ("rabbitmq-primary",)
        own.ack(held)
        left = MORE_THAN_ARE_FETCHED - 1
        while left:
            some = await own.receive(100)
            own.ack(some)
            left -= len(some)
        await eventually(lambda: verdict() is Verdict.WELL)
