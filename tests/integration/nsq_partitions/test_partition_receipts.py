"""Receipts in a message's trace: its nsqd, its partition, and the content of its frame."""

from __future__ import annotations

import asyncio
import logging

import pytest

from bus.clock import SystemClock
from bus.domain.destination import Ordering
from bus.domain.identity import trace_number
from bus.ports.transport import Consumer, IncomingMessage
from bus.transports.merged import MergedConsumer
from tests.doubles.youzan.running import YouzanDouble
from tests.integration.nsq_partitions.partition_world import PATIENCE, config, opened, outgoing, publish, wanted

_FIRST_ID = 1 << 50


@pytest.mark.parametrize("ordering", [Ordering.NONE, Ordering.KEY])
async def test_a_receipt_has_nsqd_partition_id_time_and_attempts(
    shared: YouzanDouble, code: str, ordering: Ordering
) -> None:
    async with opened(config(shared)) as transport:
        await transport.ensure(*wanted(code, ordering=ordering))
        shared_key = outgoing(code, [0, 20, 40])
        before = SystemClock().now()
        await publish(transport, shared_key)
        merged = MergedConsumer()
        merged.add("nsq", await transport.consume(code, "billing"))
        found: list[IncomingMessage] = []
        while len(found) < 3:
            items = await merged.receive(1)
            merged.ack(items)
            found += items
        partition = next(one for one in shared.partitions(code) if one["messages"])
        receipts = [item.receipt for item in found if item.receipt is not None]
        number = partition["partition"]
        assert [int(one.id) for one in receipts] == [number * _FIRST_ID + n for n in (1, 2, 3)]
        assert {(one.server, one.partition, one.times, one.trace_id) for one in receipts} == {
            (f"127.0.0.1:{shared.nsqds[partition['nsqds'][0]].tcp}", number, 1, "")
        }
        assert all(before <= one.at <= SystemClock().now() for one in receipts)
        if ordering is Ordering.NONE:
            assert {(one.offset, one.size) for one in receipts} == {(None, None)}
        else:
            sizes = [one.size or 0 for one in receipts]
            assert [one.offset for one in receipts] == [0, sizes[0], sizes[0] + sizes[1]]
        await merged.close()


async def test_a_message_that_is_sent_again_says_so(shared: YouzanDouble, code: str) -> None:
    async with opened(config(shared, partitions=1)) as transport:
        await transport.ensure(*wanted(code))
        await publish(transport, outgoing(code, [0]))
        first = await transport.consume(code, "billing")
        await first.receive(1)
        await first.close()
        (again,) = await (await transport.consume(code, "billing")).receive(1)
        assert again.receipt is not None
        assert (again.receipt.times, again.suspect) == (2, True)


@pytest.mark.parametrize("ordering", [Ordering.NONE, Ordering.KEY])
async def test_a_traced_destination_has_its_messages_traced_as_long_as_it_is(
    shared: YouzanDouble, code: str, ordering: Ordering, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "bus.transports.nsq.partitions.outlet")
    async with opened(config(shared, partitions=1)) as transport:
        await transport.ensure(*wanted(code, ordering=ordering, traced=True))
        consumer = await transport.consume(code, "billing")
        sent = outgoing(code, range(3), keyed=False)
        await publish(transport, sent)
        found = await _received(consumer, 3)
        receipts = [item.receipt for item in found if item.receipt is not None]
        assert [one.trace_id for one in receipts] == [str(trace_number(item.message.id)) for item in found]
        answered = [
            f"message {one.id} with trace id {one.trace_id} has {one.size} bytes at {one.offset}" for one in receipts
        ]
        assert [record.getMessage().partition(": ")[2] for record in caplog.records] == answered
        await transport.ensure(*wanted(code, ordering=ordering))
        await publish(transport, outgoing(code, range(3, 6), keyed=False))
        untraced = [item.receipt.trace_id for item in await _received(consumer, 3) if item.receipt is not None]
        assert untraced == ["", "", ""]
        leader = shared.leader(code, 0)
        commands = [one["command"] for one in shared.commands(leader) if one["params"][:1] == [code]]
        assert [name for name in commands if "PUB" in name] == ["PUB_TRACE"] * 3 + ["MPUB"]
        ways = ["SUB_ORDERED"] if ordering is Ordering.KEY else ["SUB_ADVANCED", "SUB"]
        assert [name for name in commands if "SUB" in name] == ways


async def _received(consumer: Consumer, count: int) -> list[IncomingMessage]:
    found: list[IncomingMessage] = []
    async with asyncio.timeout(PATIENCE):
        while len(found) < count:
            items = await consumer.receive(100)
            consumer.ack(items)
            found += items
    return found
