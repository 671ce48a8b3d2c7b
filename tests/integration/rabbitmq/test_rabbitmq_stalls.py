"""One queue, one channel or one task stands still, and nothing else does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from bus.transports.rabbitmq.names import Lane
from tests.integration.rabbitmq.rabbitmq_world import (
    HASTY,
    confirmed,
    drain,
    eventually,
    ids,
    receive,
    somebody_else,
    world,
)
from tests.servers.rabbitmq import RabbitmqServer

CLASSIC = 'begin {ok, Q} = rabbit_amqqueue:lookup(rabbit_misc:r(<<"/">>, queue, <<"%s">>)), amqqueue:get_pid(Q) end'


@asynccontextmanager
async def suspended(server: RabbitmqServer, process: str) -> AsyncIterator[None]:
    """Have a process of the broker stand still; an Erlang expression tells which."""
    await asyncio.to_thread(server.eval, f"sys:suspend({process})")
    try:
        yield
    finally:
        await asyncio.to_thread(server.eval, f"sys:resume({process})")


async def test_a_queue_that_does_not_answer_ends_no_other_s_consumer(primary: RabbitmqServer) -> None:
    async with world(primary.url, patience=HASTY) as found, somebody_else(primary.url) as other:
        # Somebody's queue has the name of ours, and its process hangs.
        await other.declare_queue(found.queue_of("mail"), durable=True)
        await found.ensure("billing")
        consumer = await found.consume()
        sent = found.messages(2)
        await confirmed(found, sent[0])
        held = await receive(consumer, 1)
        cluster = found.transport._clusters["rabbitmq-primary"]
        session = cluster.consuming.session
        async with suspended(primary, CLASSIC % found.queue_of("mail")):
            found.transport._wanted.add({Lane(found.code, "mail"): "nothing"})
            before = cluster.watch._seen_at
            await eventually(lambda: cluster.watch._seen_at > before + 2 * HASTY.answer or session.lost.is_set())
            assert not session.lost.is_set()
        found.transport._wanted.discard(Lane(found.code, "mail"))
        consumer.ack(held)
        await confirmed(found, sent[1])
        assert ids(await receive(consumer, 1)) == ids(sent[1:])
        await other.queue_delete(found.queue_of("mail"))


async def test_a_queue_whose_leader_is_busy_does_not_count_as_empty(primary: RabbitmqServer) -> None:
    async with world(primary.url, patience=HASTY._replace(forget_after=60.0)) as found:
        await found.ensure("billing")
        sent = found.messages(40)
        await confirmed(found, *sent)
        await eventually(lambda: found.transport.lags()[found.lane].records == 40, what="all are counted")
        watch = found.transport._clusters["rabbitmq-primary"].watch
        async with suspended(primary, f"whereis('%2F_{found.queue}')"):
            # RabbitMQ says of such a queue that it holds nothing and that nobody consumes it.
            for _ in range(2):
                seen_at = watch._seen_at
                await eventually(lambda before=seen_at: watch._seen_at > before, what="another look")
                assert found.transport.lags()[found.lane] == (40, 0)
        consumer = await found.consume()
        assert {*await drain(found, consumer, ids(sent))} == {*ids(sent)}


async def test_a_reader_that_was_cancelled_by_nobody_reads_on(primary: RabbitmqServer) -> None:
    async with world(primary.url) as found:
        await found.ensure("billing")
        consumer = await found.consume()
        sent = found.messages(2)
        await confirmed(found, sent[0])
        consumer.ack(await receive(consumer, 1))
        feed = consumer.feeds[0]
        attend = feed._attend

        async def stray(consuming: object) -> None:
            feed._attend = attend
            raise asyncio.CancelledError

        feed._attend = stray
        feed._wake.set()
        await eventually(lambda: feed._attend == attend)
        await confirmed(found, sent[1])
        assert ids(await receive(consumer, 1)) == ids(sent[1:])
