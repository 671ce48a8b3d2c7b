"""Messages on RabbitMQ: routing keys, sizes, messages that a broker cannot take, and foreign ones."""

from __future__ import annotations

import random
from collections.abc import Iterator

import aio_pika
import pytest

from bus.clock import SystemClock
from bus.domain.destination import Destination
from bus.domain.routing_pattern import matches
from bus.errors import InvalidDestination
from tests.harness.process import free_port
from tests.integration.rabbitmq.rabbitmq_world import (
    QUICK,
    World,
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


async def test_each_subscription_gets_what_its_pattern_takes(primary: RabbitmqServer) -> None:
    async with world(primary.url) as found:
        await found.ensure("billing", pattern="order.*")
        await found.ensure("mail", pattern="#.late")
        keys = ["order.paid", "order.late", "order.paid.late", "stock", ""]
        sent = [found.messages(1, routing_key=key)[0] for key in keys]
        # What nobody wants is confirmed and held by nobody, instead of being published for ever.
        assert await found.publish(*sent) == [True] * 5
        assert ids(await receive(await found.consume(), 2)) == ids(sent[:2])
        assert ids(await receive(await found.consume("mail"), 2)) == ids(sent[1:3])


async def test_a_changed_pattern_is_in_force_when_ensure_returns(primary: RabbitmqServer) -> None:
    async with world(primary.url) as found:
        await found.ensure("billing")
        await found.ensure("billing", pattern="a.#")
        first = [found.messages(1, routing_key=key)[0] for key in ("a.1", "b.1")]
        assert await found.publish(*first) == [True, True]
        await found.ensure("billing", pattern="b.#")
        second = [found.messages(1, routing_key=key)[0] for key in ("a.2", "b.2")]
        assert await found.publish(*second) == [True, True]
        consumer = await found.consume()
        assert ids(await receive(consumer, 2)) == ids([first[0], second[1]])
        assert await nothing_comes(consumer)


async def test_our_rule_of_patterns_is_the_broker_s(primary: RabbitmqServer) -> None:
    draw = random.Random(4)
    words = ["a", "b", "ab", ""]
    patterns = [".".join(draw.choices([*words, "*", "#"], k=draw.randint(0, 4))) for _ in range(40)]
    keys = list({".".join(draw.choices(words, k=draw.randint(0, 4))) for _ in range(60)})
    async with somebody_else(primary.url) as other:
        exchange = await other.declare_exchange("test.patterns", "topic")
        for pattern in dict.fromkeys(patterns):
            queue = await other.declare_queue(exclusive=True)
            await queue.bind(exchange, pattern)
            for key in keys:
                await exchange.publish(aio_pika.Message(key.encode()), key, mandatory=False)
            taken = {(await queue.get(timeout=5)).body.decode() for key in keys if matches(pattern, key)}
            assert taken == {key for key in keys if matches(pattern, key)}, pattern
            assert await queue.get(fail=False) is None, pattern
        await other.exchange_delete(exchange.name)


LARGEST = "application:set_env(rabbit, max_message_size, %d)"


@pytest.fixture
def narrow(primary: RabbitmqServer) -> Iterator[RabbitmqServer]:
    primary.eval(LARGEST % 100_000)
    yield primary
    primary.eval(LARGEST % 2**27)


async def test_a_message_that_is_too_large_fails_alone(narrow: RabbitmqServer) -> None:
    async with world(narrow.url) as found:
        await found.ensure("billing")
        sent = found.messages(9)
        too_large = [found.messages(1, body=bytes(size))[0] for size in (100_001, 3 * 2**20)]
        batch = [*sent[:4], too_large[0], *sent[4:7], too_large[1], *sent[7:]]
        assert await found.publish(*batch) == [message in sent for message in batch]
        assert await found.publish(*too_large) == [False, False]
        consumer = await found.consume()
        assert {*await drain(found, consumer, ids(sent))} == {*ids(sent)}
        # Now that the limit is known, nothing is published beside it that might come twice.
        later = found.messages(6)
        assert await found.publish(*later[:3], *too_large, *later[3:]) == [True] * 3 + [False] * 2 + [True] * 3
        assert await drain(found, consumer, ids(later)) == ids(later)
        assert not any(found.transport.conditions().values())


async def test_a_big_message_never_disturbs_the_small_ones_beside_it(primary: RabbitmqServer) -> None:
    async with world(primary.url) as found:
        await found.ensure("billing")
        batch = [*found.messages(3), *found.messages(1, body=bytes(5 * 2**20)), *found.messages(3)]
        assert await found.publish(*batch) == [True] * 7
        consumer = await found.consume()
        received = await receive(consumer, 7)
        assert sorted(ids(received)) == sorted(ids(batch))
        assert {len(item.message.body) for item in received} == {6, 5 * 2**20}
        assert await nothing_comes(consumer)


@pytest.mark.parametrize(
    "changes",
    [{"headers": {"x": "y" * 200_000}}, {"routing_key": "ü" * 200}, {"biz_id": "\ud800"}],
    ids=["headers", "routing-key", "surrogate"],
)
async def test_a_message_that_amqp_cannot_carry_fails_alone(
    primary: RabbitmqServer, changes: dict[str, object]
) -> None:
    async with world(primary.url) as found:
        await found.ensure("billing")
        sent = found.messages(4)
        impossible = found.messages(1, **changes)
        batch = [*sent[:2], *impossible, *sent[2:]]
        assert await found.publish(*batch) == [True, True, False, True, True]
        consumer = await found.consume()
        assert ids(await receive(consumer, 4)) == ids(sent)
        assert await nothing_comes(consumer, within=0.2)


async def test_a_message_of_somebody_else_is_set_aside(primary: RabbitmqServer) -> None:
    async with world(primary.url) as found, somebody_else(primary.url) as other:
        await found.ensure("billing")
        consumer = await found.consume()
        foreign = aio_pika.Message(b"hello", headers={"x": 1}, content_type="text/plain")
        await other.default_exchange.publish(foreign, found.queue)
        (sent,) = found.messages(1)
        await found.publish(sent)
        assert ids(await receive(consumer, 1)) == [sent.id]
        await eventually(lambda: found.quarantine.kept)
        (kept,) = found.quarantine.kept
        assert kept.transport == "rabbitmq"
        assert found.queue in kept.place
        assert "not a message of the bus" in kept.reason
        assert kept.headers["x"] == "1"
        assert kept.headers["content_type"] == "text/plain"
        assert kept.payload == b"hello"


async def test_while_it_cannot_be_set_aside_it_stays_and_holds_up_nothing(primary: RabbitmqServer) -> None:
    async with world(primary.url) as found, somebody_else(primary.url) as other:
        await found.ensure("billing")
        consumer = await found.consume()
        found.quarantine.is_full = True
        await other.default_exchange.publish(aio_pika.Message(b"hello"), found.queue)
        sent = found.messages(3)
        await confirmed(found, *sent)
        consumer.ack(await receive(consumer, 3))
        consuming = consumer.feeds[0]._consuming
        await eventually(lambda: consuming._settling.outstanding == 1, what="only the foreign one is not acked")
        found.quarantine.is_full = False
        await eventually(lambda: found.quarantine.kept)
        await eventually(lambda: consuming._settling.outstanding == 0, what="that one is acked too")
        await consumer.close()
        assert await nothing_comes(await found.consume())


def test_a_destination_for_messages_larger_than_brokers_take_is_refused() -> None:
    found = World([f"amqp://127.0.0.1:{free_port()}/"], QUICK, SystemClock())
    found.transport.check(Destination(code="orders", max_bytes=16 * 2**20))
    with pytest.raises(InvalidDestination, match="16777216") as refused:
        found.transport.check(Destination(code="orders", max_bytes=16 * 2**20 + 1))
    assert refused.value.field == "max_bytes"
