"""The contract of transports. Subclass ``TransportContract``, give a ``transport`` fixture, and pytest checks yours.

The fixture yields a transport that has no queues of the destinations ``orders`` and ``other``, with its ``run``
running.
"""

# ruff: noqa: D102, S101, PLR2004

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import pytest

from bus.domain.destination import Destination
from bus.domain.message import Message, encode_message
from bus.domain.subscription import Subscription
from bus.ports.transport import Consumer, IncomingMessage, Lag, OutgoingMessage, Transport
from bus.testing.writes import DESTINATION, message

ORDERS = Destination(code=DESTINATION)
PATIENCE = 60.0


async def publish(transport: Transport, *messages: Message) -> list[bool | None]:
    """Publish messages as the receiver does."""
    return list(await transport.publish([OutgoingMessage(one, encode_message(one)) for one in messages]))


async def receive(consumer: Consumer, limit: int = 100, *, count: int = 1) -> list[IncomingMessage]:
    """Receive until there are so many, with a deadline."""
    found: list[IncomingMessage] = []
    async with asyncio.timeout(PATIENCE):
        while len(found) < count:
            found += await consumer.receive(limit)
    return found


async def ensure(transport: Transport, *names: str, code: str = DESTINATION) -> None:
    """Make the queues of a destination's subscriptions."""
    await transport.ensure(Destination(code=code), [subscription(name, code) for name in names])


def subscription(name: str, code: str = DESTINATION) -> Subscription:
    """Return a subscription as a transport needs it."""
    return Subscription(destination=code, name=name, url="http://subscriber/hook")


async def eventually(check: Callable[[], bool]) -> None:
    """Wait until a figure that the transport refreshes by itself is as it should be."""
    async with asyncio.timeout(PATIENCE):
        while not check():  # noqa: ASYNC110 - a transport tells nobody when its figures changed
            await asyncio.sleep(0.01)


def lag_of(transport: Transport, name: str, code: str = DESTINATION) -> Lag | None:
    """Return what the transport holds for a subscription, None when it does not say."""
    return (transport.lags() or {}).get((code, name))


def numbers(incoming: Sequence[IncomingMessage]) -> list[str]:
    """Return the biz ids of messages, which tell them apart."""
    return [item.message.biz_id for item in incoming]


class TransportContract:
    """The behaviour of ``bus.ports.transport.Transport``, without restarts."""

    async def test_every_subscription_gets_every_message_as_it_was(self, transport: Transport) -> None:
        await ensure(transport, "billing", "mail")
        sent = [message(n, body=bytes([n]) * n, headers={"X-A": "ü"}, deliver_at=n) for n in range(5)]
        assert await publish(transport, *sent) == [True] * 5
        for name in ("billing", "mail"):
            found = await receive(await transport.consume(DESTINATION, name), count=5)
            assert [item.message for item in found] == sent
            assert not any(item.suspect for item in found)

    async def test_a_big_body_arrives_byte_for_byte(self, transport: Transport) -> None:
        await ensure(transport, "billing")
        big = message(body=bytes(range(256)) * 4096)
        await publish(transport, big)
        (found,) = await receive(await transport.consume(DESTINATION, "billing"))
        assert found.message == big

    async def test_receive_waits_and_takes_no_more_than_asked(self, transport: Transport) -> None:
        await ensure(transport, "billing")
        consumer = await transport.consume(DESTINATION, "billing")
        waiting = asyncio.create_task(receive(consumer, 2))
        await asyncio.sleep(0)
        assert not waiting.done()
        await publish(transport, *(message(n) for n in range(5)))
        first = await waiting
        assert 1 <= len(first) <= 2
        rest = await receive(consumer, 2, count=5 - len(first))
        assert numbers(first + rest) == [f"order-{n}" for n in range(5)]

    async def test_cancelling_receive_loses_nothing(self, transport: Transport) -> None:
        await ensure(transport, "billing")
        consumer = await transport.consume(DESTINATION, "billing")
        for n in range(20):
            waiting = asyncio.create_task(consumer.receive(1))
            await asyncio.sleep(0)
            publishing = asyncio.create_task(publish(transport, message(n)))
            for _ in range(n):
                await asyncio.sleep(0)
            waiting.cancel()
            await publishing
            results = await asyncio.gather(waiting, return_exceptions=True)
            received = results[0] if isinstance(results[0], list) else await receive(consumer)
            assert numbers(received) == [f"order-{n}"]
            consumer.ack(received)

    async def test_what_is_acked_does_not_come_again(self, transport: Transport) -> None:
        await ensure(transport, "billing", "mail")
        await publish(transport, *(message(n) for n in range(3)))
        consumer = await transport.consume(DESTINATION, "billing")
        found = await receive(consumer, count=3)
        consumer.ack([found[1]])
        consumer.ack([found[1]])
        await consumer.close()
        again = await receive(await transport.consume(DESTINATION, "billing"), count=2)
        assert sorted(numbers(again)) == ["order-0", "order-2"]
        assert len(await receive(await transport.consume(DESTINATION, "mail"), count=3)) == 3

    async def test_what_is_released_comes_again(self, transport: Transport) -> None:
        await ensure(transport, "billing")
        await publish(transport, *(message(n) for n in range(4)))
        consumer = await transport.consume(DESTINATION, "billing")
        found = await receive(consumer, count=4)
        consumer.ack([found[0]])
        consumer.release(found[1:3])
        assert numbers(await receive(consumer, count=2)) == ["order-1", "order-2"]

    async def test_close_gives_back_what_is_held(self, transport: Transport) -> None:
        await ensure(transport, "billing")
        await publish(transport, *(message(n) for n in range(3)))
        first = await transport.consume(DESTINATION, "billing")
        found = await receive(first, count=3)
        first.release([found[2]])
        first.ack([found[0]])
        await first.close()
        again = await receive(await transport.consume(DESTINATION, "billing"), count=2)
        assert numbers(again) == ["order-1", "order-2"]

    async def test_a_subscription_takes_part_from_the_next_message_on(self, transport: Transport) -> None:
        await ensure(transport, "billing")
        await publish(transport, message(0))
        await ensure(transport, "mail")
        await ensure(transport, "billing", "mail")
        await publish(transport, message(1))
        assert numbers(await receive(await transport.consume(DESTINATION, "mail"))) == ["order-1"]
        assert len(await receive(await transport.consume(DESTINATION, "billing"), count=2)) == 2

    async def test_a_removed_queue_is_gone_and_may_be_made_anew(self, transport: Transport) -> None:
        await ensure(transport, "billing", "mail")
        await publish(transport, message(0))
        await transport.remove(DESTINATION, "mail")
        await transport.remove(DESTINATION, "mail")
        await eventually(lambda: set(transport.lags() or {}) == {(DESTINATION, "billing")})
        await ensure(transport, "mail")
        await publish(transport, message(1))
        assert numbers(await receive(await transport.consume(DESTINATION, "mail"))) == ["order-1"]

    async def test_a_consumer_of_a_removed_queue_harms_nobody(self, transport: Transport) -> None:
        await ensure(transport, "billing", "mail")
        await publish(transport, message(0), message(1), message(2))
        consumer = await transport.consume(DESTINATION, "mail")
        found = await receive(consumer, count=3)
        await transport.remove(DESTINATION, "mail")
        consumer.ack(found[:1])
        consumer.release(found[1:2])
        await consumer.close()
        assert len(await receive(await transport.consume(DESTINATION, "billing"), count=3)) == 3

    async def test_destinations_are_apart(self, transport: Transport) -> None:
        await ensure(transport, "billing")
        await ensure(transport, "billing", code="other")
        await publish(transport, message(0), message(1, destination="other"), message(2))
        assert numbers(await receive(await transport.consume(DESTINATION, "billing"), count=2)) == [
            "order-0",
            "order-2",
        ]
        assert numbers(await receive(await transport.consume("other", "billing"))) == ["order-1"]

    async def test_what_nobody_subscribed_to_is_confirmed(self, transport: Transport) -> None:
        assert await publish(transport, message(0), message(1)) == [True, True]
        assert await publish(transport) == []
        await ensure(transport, "billing")
        assert await publish(transport, message(2, destination="nowhere"), message(3)) == [True, True]
        assert numbers(await receive(await transport.consume(DESTINATION, "billing"))) == ["order-3"]

    async def test_lags_count_what_is_not_acked(self, transport: Transport) -> None:
        await ensure(transport, "billing")
        await eventually(lambda: lag_of(transport, "billing") == (0, None))
        first, second = message(0), message(5)
        await publish(transport, first, second)
        await eventually(lambda: _holds(lag_of(transport, "billing"), 2, first))
        consumer = await transport.consume(DESTINATION, "billing")
        found = await receive(consumer, count=2)
        await eventually(lambda: _holds(lag_of(transport, "billing"), 2, first))
        consumer.ack(found[:1])
        await eventually(lambda: _holds(lag_of(transport, "billing"), 1, second))
        consumer.ack(found[1:])
        await eventually(lambda: lag_of(transport, "billing") == (0, None))

    async def test_a_transport_that_works_has_no_trouble(self, transport: Transport) -> None:
        await ensure(transport, "billing")
        transport.check(ORDERS)
        assert not any(transport.conditions().values())

    async def test_a_delivery_of_another_transport_is_refused(self, transport: Transport) -> None:
        await ensure(transport, "billing")
        consumer = await transport.consume(DESTINATION, "billing")
        with pytest.raises(TypeError):
            consumer.ack([IncomingMessage(message(), object(), False)])


def _holds(lag: Lag | None, records: int, oldest: Message) -> bool:
    """Whether a transport says that it holds so many, none of them older than its bound."""
    return lag is not None and lag.records == records and lag.oldest is not None and lag.oldest <= oldest.received_at
