"""Messages in flight when nsqd's time-out for them ends.

nsqd looks after the time-outs of a new channel only after up to five seconds, so these tests take channels that were
made when the session began.
"""

from __future__ import annotations

import asyncio
import time

from bus.transports.nsq.codec import wrap
from bus.transports.nsq.config import Address
from bus.transports.nsq.connection import connect
from bus.transports.nsq.protocol import commands
from bus.transports.nsq.protocol.frames import MESSAGE_HEAD
from tests.integration.nsq.nsq_world import (
    config,
    eventually,
    in_flight,
    numbers,
    opened,
    outgoing,
    publish,
    receive,
    stop,
    subscribed,
)
from tests.servers import nsq


def timeouts(nsqd: nsq.NsqdServer, code: str) -> int:
    return nsqd.stats(code, "billing")["timeout_count"]


async def test_what_is_held_for_longer_than_nsqds_time_out_does_not_come_again(
    shared: nsq.NsqServers, aged: str
) -> None:
    nsqd = shared.nsqds[0]
    async with opened(config([nsqd], msg_timeout=2.5)) as transport:
        await transport.ensure(*subscribed(aged, "billing"))
        await publish(transport, aged, range(3))
        consumer = await transport.consume(aged, "billing")
        held = await receive(consumer, 3, ack=False)
        began = time.monotonic()
        again = asyncio.create_task(consumer.receive(10))
        while time.monotonic() - began < 6:
            assert not again.done()
            await asyncio.sleep(0.1)
        assert timeouts(nsqd, aged) == 0
        assert in_flight(nsqd, aged) == 3
        consumer.ack(held)
        await eventually(lambda: in_flight(nsqd, aged) == 0)
        await stop(again)


async def test_what_a_dispatcher_that_died_held_comes_to_another_one_as_suspect(
    shared: nsq.NsqServers, aged: str
) -> None:
    nsqd = shared.nsqds[0]
    async with opened(config([nsqd], msg_timeout=1.0)) as transport:
        await transport.ensure(*subscribed(aged, "billing"))
        await publish(transport, aged, range(3))
        dead = await connect(Address("127.0.0.1", int(nsqd.tcp.rpartition(":")[2])), config(msg_timeout=1.0))
        dead.deliver = lambda _: None
        await dead.ask(commands.sub(aged, "billing"))
        dead.send(commands.rdy(2))
        await eventually(lambda: in_flight(nsqd, aged) == 2)
        consumer = await transport.consume(aged, "billing")
        await dead.close()
        found = await receive(consumer, 3)
        assert {n: item.suspect for n, item in zip(numbers(found), found, strict=True)} == {0: True, 1: True, 2: False}


async def test_what_is_still_held_when_a_connection_is_lost_is_not_handed_out_twice(
    shared: nsq.NsqServers, aged: str
) -> None:
    nsqd = shared.nsqds[0]
    async with opened(config([nsqd], msg_timeout=1.0)) as transport:
        await transport.ensure(*subscribed(aged, "billing"))
        await publish(transport, aged, range(2))
        consumer = await transport.consume(aged, "billing")
        held = await receive(consumer, 2, limit=2, ack=False)
        (buffer,) = consumer._buffers.values()
        buffer._connection._transport.abort()
        again = asyncio.create_task(consumer.receive(10))
        await eventually(lambda: timeouts(nsqd, aged) >= 2 and in_flight(nsqd, aged) == 2)
        await eventually(lambda: all(item.token.connection is buffer._connection for item in held))
        assert not again.done()
        consumer.ack(held)
        await eventually(lambda: in_flight(nsqd, aged) == 0)
        await publish(transport, aged, [2])
        assert numbers(await again) == [2]


async def test_what_is_finished_on_a_lost_connection_is_finished_when_it_comes_again(
    shared: nsq.NsqServers, aged: str
) -> None:
    nsqd = shared.nsqds[0]
    async with opened(config([nsqd], msg_timeout=1.0)) as transport:
        await transport.ensure(*subscribed(aged, "billing"))
        await publish(transport, aged, range(3))
        consumer = await transport.consume(aged, "billing")
        held = await receive(consumer, 3, ack=False)
        (buffer,) = consumer._buffers.values()
        buffer._connection._transport.abort()
        await eventually(lambda: not buffer.linked)
        consumer.ack(held[:2])
        consumer.release(held[2:])
        again = await receive(consumer, 1)
        assert (numbers(again), again[0].suspect) == ([2], True)
        await eventually(lambda: (transport.lags() or {}).get((aged, "billing")) == (0, None))


async def test_what_was_published_with_a_delay_comes_later(shared: nsq.NsqServers, aged: str) -> None:
    nsqd = shared.nsqds[0]
    address = Address("127.0.0.1", int(nsqd.tcp.rpartition(":")[2]))
    connection = await connect(address, config(msg_timeout=60.0))
    arrived: list[bytes] = []
    connection.deliver = arrived.extend
    await connection.ask(commands.sub(aged, "billing"))
    connection.send(commands.rdy(10))
    other = await connect(address, config())
    assert await other.ask(f"DPUB {aged} 400\n\0\0\0\x04late".encode()) == b"OK"
    assert await other.ask(commands.mpub(aged, [b"early"])) == b"OK"
    await eventually(lambda: len(arrived) == 1)
    assert nsqd.stats(aged, "billing")["deferred_count"] == 1
    await eventually(lambda: len(arrived) == 2)
    assert [payload[MESSAGE_HEAD:] for payload in arrived] == [b"early", b"late"]
    await connection.close()
    await other.close()


async def test_what_is_given_back_with_a_delay_comes_again_then(shared: nsq.NsqServers, aged: str) -> None:
    for one in outgoing(aged, [0]):
        shared.nsqds[0].call("/topic/create", topic=aged)
        shared.nsqds[0].call("/pub", wrap(one.payload), topic=aged)
    address = Address("127.0.0.1", int(shared.nsqds[0].tcp.rpartition(":")[2]))
    connection = await connect(address, config())
    arrived: list[bytes] = []
    connection.deliver = arrived.extend
    await connection.ask(commands.sub(aged, "billing"))
    connection.send(commands.rdy(1))
    await eventually(lambda: arrived)
    began = time.monotonic()
    connection.send(commands.req(arrived[0][10:26], 300))
    await eventually(lambda: len(arrived) == 2)
    assert time.monotonic() - began >= 0.3
    connection.send(commands.fin(arrived[1][10:26]))
    # An error for what cannot be finished any more belongs to no question, and ends nothing.
    connection.send(commands.fin(arrived[1][10:26]))
    connection.send(commands.touch(arrived[1][10:26]))
    assert await connection.ask(commands.CLS) == b"CLOSE_WAIT"
    await connection.close()
