"""One cluster and what happens to its queues, consumers and connections."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from bus.errors import TransportRefused, TransportUnavailable
from tests.harness.process import Child, free_port, module
from tests.integration.rabbitmq.rabbitmq_world import (
    HASTY,
    QUICK,
    SLACK,
    confirmed,
    drain,
    eventually,
    ids,
    nothing_comes,
    receive,
    somebody_else,
    world,
)
from tests.servers.rabbitmq import RabbitmqServer

USERS = "rabbit_auth_backend_internal"
WATERMARK = "vm_memory_monitor:set_vm_memory_high_watermark(%s)"


async def test_a_queue_deleted_by_somebody_is_made_and_consumed_again(primary: RabbitmqServer) -> None:
    async with world(primary.url) as found, somebody_else(primary.url) as other:
        await found.ensure("billing", "mail")
        consumer = await found.consume()
        sent = found.messages(2)
        await found.publish(sent[0])
        held = await receive(consumer, 1)
        await other.queue_delete(found.queue)
        consumer.ack(held)
        await eventually(lambda: not found.transport._clusters["rabbitmq-primary"].topology.carries(found.code))
        await confirmed(found, sent[1])
        assert ids(await receive(consumer, 1)) == ids(sent[1:])


async def test_what_no_queue_takes_is_not_confirmed(primary: RabbitmqServer) -> None:
    async with world(primary.url) as found, somebody_else(primary.url) as other:
        await found.ensure("billing")
        sent = found.messages(3)
        await other.queue_delete(found.queue)
        taken = await found.publish(*sent)
        await confirmed(found, *(one for one, done in zip(sent, taken, strict=True) if not done))
        assert sorted(ids(await receive(await found.consume(), 3))) == sorted(ids(sent))


async def test_without_its_exchange_a_destination_is_not_confirmed_until_it_was_made_again(
    primary: RabbitmqServer,
) -> None:
    async with world(primary.url) as found, world(primary.url) as neighbour, somebody_else(primary.url) as other:
        await found.ensure("billing")
        await neighbour.ensure("billing")
        sent = found.messages(20)
        await other.exchange_delete(found.exchange)
        assert await found.publish(*sent) == [False] * 20
        assert all(await neighbour.publish(*neighbour.messages(20)))
        await confirmed(found, *sent)
        assert ids(await receive(await found.consume(), 20)) == ids(sent)


async def test_a_connection_closed_by_the_broker_is_rebuilt_and_loses_nothing(primary: RabbitmqServer) -> None:
    async with world(primary.url, patience=QUICK._replace(confirm=30.0)) as found:
        await found.ensure("billing")
        consumer = await found.consume()
        sent = found.messages(200)
        await found.publish(*sent[:10])
        held = await receive(consumer, 5)
        await asyncio.to_thread(primary.cut)
        started = time.monotonic()
        await confirmed(found, *sent[10:])
        assert time.monotonic() - started < 30.0 / 2
        consumer.ack(held)
        # A publish that the loss interrupted is published again, and may then come twice.
        assert {*ids(held), *await drain(found, consumer, ids(sent[5:]))} == {*ids(sent)}


async def test_what_is_held_while_its_channel_is_lost_can_still_be_acked(primary: RabbitmqServer) -> None:
    async with world(primary.url) as found:
        await found.ensure("billing")
        consumer = await found.consume()
        await found.publish(*found.messages(4))
        held = await receive(consumer, 4)
        feed = consumer.feeds[0]
        feed.restart("a test wants it")
        await eventually(lambda: feed.delivered == 8, what="the broker delivered all again")
        assert await nothing_comes(consumer)
        consumer.ack(held)
        await eventually(lambda: found.transport.lags()[found.lane] == (0, None), what="everything is acked")
        feed.restart("to see what is still there")
        assert await nothing_comes(consumer)


async def test_a_consumer_that_vanished_silently_is_noticed(primary: RabbitmqServer) -> None:
    async with world(primary.url) as found:
        await found.ensure("billing")
        consumer = await found.consume()
        sent = found.messages(2)
        await found.publish(sent[0])
        consumer.ack(await receive(consumer, 1))
        consuming = consumer.feeds[0]._consuming
        await consuming._channel.raw.basic_cancel(consuming._consumer)
        await found.publish(sent[1])
        assert ids(await receive(consumer, 1)) == ids(sent[1:])


async def test_a_second_consumer_gets_what_a_closed_one_held(primary: RabbitmqServer) -> None:
    async with world(primary.url) as found, world(primary.url) as elsewhere:
        await found.ensure("billing")
        first = await found.consume()
        second = await elsewhere.transport.consume(found.code, "billing")
        sent = found.messages(6)
        await found.publish(*sent)
        held = await receive(first, 6)
        assert await nothing_comes(second, within=0.1)
        first.ack(held[:2])
        await first.close()
        again = await receive(second, 4)
        assert sorted(ids(again)) == ids(sent[2:])
        assert all(item.suspect for item in again)


@pytest.mark.parametrize("cut", ["killed", "disconnected"])
async def test_what_a_process_held_comes_again_when_its_connection_is_cut(
    primary: RabbitmqServer, tmp_path: Path, cut: str
) -> None:
    async with world(primary.url) as found:
        await found.ensure("billing")
        sent = found.messages(10)
        await confirmed(found, *sent)
        argv = module("tests.integration.rabbitmq.rabbitmq_holder", primary.url, found.code, 10)
        with Child(argv, log=tmp_path / "holder.log") as holder:
            held = (await asyncio.to_thread(holder.ready_line))["held"]
            assert held == ids(sent)
            consumer = await found.consume()
            assert await nothing_comes(consumer, within=0.2)
            if cut == "killed":
                holder.kill()
            else:
                # Stopped, it cannot come back by itself and take them again.
                holder.signal(signal.SIGSTOP)
                await asyncio.to_thread(primary.cut)
            again = await receive(consumer, 10)
            assert sorted(ids(again)) == sorted(held)
            assert all(item.suspect for item in again)


async def test_what_was_fetched_ahead_goes_back_when_nobody_reads_any_more(primary: RabbitmqServer) -> None:
    async with world(primary.url, patience=QUICK._replace(idle=0.3)) as found, world(primary.url) as elsewhere:
        await found.ensure("billing")
        consumer = await found.consume()
        sent = found.messages(10)
        await found.publish(*sent)
        held = await receive(consumer, 1)
        second = await elsewhere.transport.consume(found.code, "billing")
        others = await receive(second, 9)
        assert sorted(ids(others)) == sorted(ids(sent[1:]))
        consumer.ack(held)
        second.ack(others[:8])
        await second.close()
        assert ids(await receive(consumer, 1)) == ids([others[8].message])


async def test_a_reader_that_takes_more_gets_more_fetched_ahead(primary: RabbitmqServer) -> None:
    async with world(primary.url) as found:
        await found.ensure("billing")
        consumer = await found.consume()
        await found.publish(*found.messages(300))
        few = await receive(consumer, 1)
        assert len(few) == 1
        await eventually(lambda: consumer.buffer.held(consumer.feeds[0]) == 32, what="a small prefetch")
        more = await consumer.receive(100)
        await eventually(
            lambda: consumer.buffer.held(consumer.feeds[0]) == 200 + 32, what="a bigger one beside the first"
        )
        consumer.ack(few + more)
        rest = await receive(consumer, 300 - 1 - len(more))
        assert len({*ids(few), *ids(more), *ids(rest)}) == 300


async def test_closing_has_a_deadline_while_the_broker_is_paused(primary: RabbitmqServer) -> None:
    # Without deadlines of its own it would wait for an answer, or for heartbeats to give the connection up: 33 s.
    patience = QUICK._replace(close=3.0, answer=60.0)
    async with world(primary.url, patience=patience, tidy=False) as found:
        await found.ensure("billing")
        consumer = await found.consume()
        await found.publish(*found.messages(3))
        held = await receive(consumer, 3)
        primary.pause()
        started = time.monotonic()
        consumer.ack(held)
        await consumer.close()
        assert time.monotonic() - started < patience.close + SLACK
    assert time.monotonic() - started < 3 * patience.close + SLACK


async def test_a_broker_short_of_memory_confirms_nothing_and_says_so(primary: RabbitmqServer) -> None:
    async with world(primary.url, patience=HASTY._replace(confirm=30.0)) as found:
        await found.ensure("billing")
        consumer = await found.consume()
        sent = found.messages(3)
        await confirmed(found, sent[0])
        (held,) = await receive(consumer, 1)
        await asyncio.to_thread(primary.eval, WATERMARK % '{absolute, "1MB"}')
        try:
            await eventually(lambda: "memory" in str(found.transport.conditions()["rabbitmq-primary"]))
            started = time.monotonic()
            assert await found.publish(sent[1]) == [False]
            assert time.monotonic() - started < 30.0 / 2
            consumer.ack([held])
            await eventually(lambda: found.transport.lags()[found.lane].records == 0, what="acks get through")
        finally:
            await asyncio.to_thread(primary.eval, WATERMARK % "0.4")
        await confirmed(found, *sent[1:])
        assert {*await drain(found, consumer, ids(sent[1:]))} == {*ids(sent[1:])}


async def test_a_queue_that_confirms_nothing_holds_up_neither_others_nor_its_own_messages_for_long(
    primary: RabbitmqServer,
) -> None:
    async with world(primary.url, patience=HASTY._replace(spared=30.0)) as found, world(primary.url) as neighbour:
        await found.ensure("billing")
        await neighbour.ensure("billing")
        sent = found.messages(3)
        queue = f"whereis('%2F_{found.queue}')"
        await asyncio.to_thread(primary.eval, f"sys:suspend({queue})")
        try:
            assert await found.publish(*sent) == [False] * 3
            publisher = found.transport._clusters["rabbitmq-primary"].publisher
            publisher._patience = publisher._patience._replace(confirm=30.0)
            started = time.monotonic()
            assert await found.publish(*sent) == [False] * 3
            assert all(await neighbour.publish(*neighbour.messages(3)))
            assert time.monotonic() - started < 30.0 / 2
            assert found.code in str(found.transport.conditions()["rabbitmq-primary"])
        finally:
            await asyncio.to_thread(primary.eval, f"sys:resume({queue})")
        # What is known of a connection ends with it, so that nobody waits until the destination is spared no more.
        await asyncio.to_thread(primary.cut)
        await confirmed(found, *sent)
        consumer = await found.consume()
        assert {*await drain(found, consumer, ids(sent))} == {*ids(sent)}
        assert not any(found.transport.conditions().values())


async def test_a_broker_that_is_away_is_told_at_once(primary: RabbitmqServer) -> None:
    patience = QUICK._replace(connect=30.0, answer=30.0, confirm=30.0)
    url = f"amqp://guest:guest@127.0.0.1:{free_port()}/"
    async with world(url, patience=patience, tidy=False) as found:
        with pytest.raises(TransportUnavailable):
            await found.ensure("billing")
        started = time.monotonic()
        for _ in range(20):
            assert await found.publish(*found.messages(3)) == [False] * 3
        with pytest.raises(TransportUnavailable):
            await found.ensure("billing")
        assert time.monotonic() - started < 30.0 / 2
        assert "127.0.0.1" in str(found.transport.conditions()["rabbitmq-primary"])
        await eventually(lambda: found.transport.lags() is None)


async def test_of_several_hosts_the_dead_ones_are_passed_over(primary: RabbitmqServer) -> None:
    dead = f"127.0.0.1:{free_port()},no-such-host.invalid,localhost:{primary.port}"
    async with world(f"amqp://guest:guest@{dead}/") as found:
        await found.ensure("billing")
        assert all(await found.publish(*found.messages(3)))
        assert not any(found.transport.conditions().values())


@pytest.mark.parametrize(
    ("user", "vhost", "reason"), [("guest:wrong", "", "ACCESS_REFUSED"), ("guest:guest", "nowhere", "virtual host")]
)
async def test_wrong_credentials_are_refused(primary: RabbitmqServer, user: str, vhost: str, reason: str) -> None:
    async with world(f"amqp://{user}@127.0.0.1:{primary.port}/{vhost}", tidy=False) as found:
        with pytest.raises(TransportRefused, match=reason) as refused:
            await found.ensure("billing")
        assert refused.value.hint
        assert "wrong" not in str(refused.value)
        assert reason in str(found.transport.conditions()["rabbitmq-primary"])
        assert await found.publish(*found.messages(1)) == [False]


@asynccontextmanager
async def user(server: RabbitmqServer, name: str, *permissions: str) -> AsyncIterator[None]:
    """Have a user whose password is the name, and who may configure, write and read what the patterns say."""
    patterns = ", ".join(f'<<"{one}">>' for one in permissions)
    await asyncio.to_thread(server.eval, f'{USERS}:add_user(<<"{name}">>, <<"{name}">>, <<>>)')
    await asyncio.to_thread(server.eval, f'{USERS}:set_permissions(<<"{name}">>, <<"/">>, {patterns}, <<>>)')
    yield
    await asyncio.to_thread(server.eval, f'{USERS}:delete_user(<<"{name}">>, <<>>)')


async def test_a_user_without_permission_is_refused(primary: RabbitmqServer) -> None:
    async with (
        user(primary, "poor", "nothing", ".*", ".*"),
        world(f"amqp://poor:poor@127.0.0.1:{primary.port}/", tidy=False) as found,
    ):
        with pytest.raises(TransportRefused, match="ACCESS_REFUSED") as refused:
            await found.ensure("billing")
        assert "permission" in refused.value.hint


async def test_the_permissions_of_the_manual_are_enough(primary: RabbitmqServer) -> None:
    ours = ("^pier[./].*", r"^(pier[./].*|amq\\.default)$", "^pier[./].*")
    async with user(primary, "bus", *ours), world(f"amqp://bus:bus@127.0.0.1:{primary.port}/") as found:
        await found.ensure("billing")
        await found.ensure("billing", pattern="a.#")
        sent = found.messages(3, routing_key="a.b")
        assert all(await found.publish(*sent))
        assert ids(await receive(await found.consume(), 3)) == ids(sent)
        assert not any(found.transport.conditions().values())


async def test_a_queue_with_other_settings_is_refused_by_name_and_holds_up_no_other(primary: RabbitmqServer) -> None:
    async with world(primary.url) as found, world(primary.url) as neighbour, somebody_else(primary.url) as other:
        await other.declare_queue(found.queue, durable=True)
        with pytest.raises(TransportRefused, match=found.queue) as refused:
            await found.ensure("billing")
        assert "delete" in refused.value.hint
        assert found.queue in str(found.transport.conditions()["rabbitmq-primary"])
        sent = found.messages(2)
        assert await found.publish(*sent) == [False, False]
        await neighbour.ensure("billing")
        assert await neighbour.publish(*neighbour.messages(1)) == [True]
        await other.queue_delete(found.queue)
        await found.ensure("billing")
        assert await found.publish(*sent) == [True, True]
        assert not any(found.transport.conditions().values())
