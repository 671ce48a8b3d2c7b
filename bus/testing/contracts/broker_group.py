"""The contract of groups of brokers. Subclass ``BrokerGroupContract`` and give a ``group`` fixture.

The fixture yields a group that has no queues of the destinations ``orders`` and ``other``, all of whose copies are up,
with its ``run`` running. What a group does when copies fail is tested where they can be harmed.
"""

# ruff: noqa: D102, S101, PLR2004

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from msgspec.structs import replace

from bus.domain.destination import Destination, Ordering
from bus.domain.message import Message
from bus.ports.broker_group import BrokerGroup, GroupReader, GroupStatus
from bus.ports.transport import IncomingMessage
from bus.testing.contracts.transport import PATIENCE, numbers, receive, subscription
from bus.testing.writes import DESTINATION, message

WHOLE_AND_EMPTY = GroupStatus(is_whole=True, is_empty=True)


async def ensure(group: BrokerGroup, *names: str, code: str = DESTINATION) -> None:
    """Make the queues of a strictly ordered destination's subscriptions."""
    await group.ensure(Destination(code=code, ordering=Ordering.STRICT), [subscription(name, code) for name in names])


async def write(group: BrokerGroup, messages: Sequence[Message], code: str = DESTINATION) -> int:
    """Write messages with a writer of their own."""
    writer = await group.writer(code)
    try:
        return await writer.write(messages)
    finally:
        await writer.close()


async def nothing_comes(reader: GroupReader) -> bool:
    """Whether a reader that others stand before gets nothing, while they do."""
    waiting = asyncio.create_task(reader.receive(10))
    done, _ = await asyncio.wait([waiting], timeout=0.5)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    return not done


async def eventually(check: Callable[[], Awaitable[bool]]) -> None:
    """Wait until what a group says is as it should be."""
    async with asyncio.timeout(PATIENCE):
        while not await check():  # noqa: ASYNC110 - brokers tell nobody when something changed
            await asyncio.sleep(0.05)


async def standing(group: BrokerGroup, wanted: GroupStatus, *names: str) -> None:
    """Wait until a group stands so."""

    async def stands() -> bool:
        return await group.standing(DESTINATION, names) == wanted

    await eventually(stands)


class BrokerGroupContract:
    """The behaviour of ``bus.ports.broker_group.BrokerGroup`` while all copies are up."""

    async def test_each_subscription_reads_all_in_order_as_it_was_written(self, group: BrokerGroup) -> None:
        await ensure(group, "billing", "mail")
        sent = [message(n, body=bytes([n]) * n, headers={"X-A": "ü"}, epoch=7) for n in range(30)]
        assert await write(group, sent) == 30
        for name in ("billing", "mail"):
            reader = await group.reader(DESTINATION, name)
            found = await receive(reader, 7, count=30)
            assert [item.message for item in found] == sent

    async def test_a_big_body_arrives_byte_for_byte(self, group: BrokerGroup) -> None:
        await ensure(group, "billing")
        big = message(body=bytes(range(256)) * 4096)
        assert await write(group, [big]) == 1
        (found,) = await receive(await group.reader(DESTINATION, "billing"))
        assert found.message == big

    async def test_what_is_written_while_a_reader_waits_comes(self, group: BrokerGroup) -> None:
        await ensure(group, "billing")
        reader = await group.reader(DESTINATION, "billing")
        waiting = asyncio.create_task(receive(reader))
        writer = await group.writer(DESTINATION)
        assert await writer.write([message(1)]) == 1
        assert numbers(await waiting) == ["order-1"]
        assert await writer.write([message(2), message(3)]) == 2
        assert numbers(await receive(reader, count=2)) == ["order-2", "order-3"]
        await writer.close()

    async def test_the_next_reader_begins_with_what_was_not_acked(self, group: BrokerGroup) -> None:
        await ensure(group, "billing")
        await write(group, [message(n) for n in range(10)])
        first = await group.reader(DESTINATION, "billing")
        found = await receive(first, 10, count=10)
        first.ack(found[:4])
        await first.close()
        second = await group.reader(DESTINATION, "billing")
        assert numbers(await receive(second, 10, count=6)) == [f"order-{n}" for n in range(4, 10)]

    async def test_a_second_reader_waits_for_the_first(self, group: BrokerGroup) -> None:
        await ensure(group, "billing")
        await write(group, [message(n) for n in range(3)])
        first = await group.reader(DESTINATION, "billing")
        assert numbers(await receive(first, 1)) == ["order-0"]
        second = await group.reader(DESTINATION, "billing")
        assert await nothing_comes(second)
        await first.close()
        assert numbers(await receive(second, 10, count=3)) == [f"order-{n}" for n in range(3)]

    async def test_what_is_released_comes_again_in_its_place(self, group: BrokerGroup) -> None:
        await ensure(group, "billing")
        await write(group, [message(n) for n in range(4)])
        reader = await group.reader(DESTINATION, "billing")
        found = await receive(reader, 2, count=2)
        reader.release(found)
        assert numbers(await receive(reader, 10, count=4)) == [f"order-{n}" for n in range(4)]

    async def test_cancelling_receive_loses_nothing(self, group: BrokerGroup) -> None:
        await ensure(group, "billing")
        reader = await group.reader(DESTINATION, "billing")
        writer = await group.writer(DESTINATION)
        received: list[IncomingMessage] = []
        for n in range(10):
            waiting = asyncio.create_task(reader.receive(1))
            await asyncio.sleep(0)
            await writer.write([message(n)])
            waiting.cancel()
            (result,) = await asyncio.gather(waiting, return_exceptions=True)
            received += result if isinstance(result, list) else []
        received += await receive(reader, 10, count=10 - len(received)) if len(received) < 10 else []
        assert numbers(received) == [f"order-{n}" for n in range(10)]

    async def test_drained_is_what_all_is_acked_of(self, group: BrokerGroup) -> None:
        await ensure(group, "billing")
        reader = await group.reader(DESTINATION, "billing")
        await write(group, [message(n) for n in range(3)])
        found = await receive(reader, 10, count=3)
        reader.ack(found[:2])
        reader.release(found[2:])
        assert not await reader.is_drained()
        (left,) = await receive(reader)
        assert left.message.biz_id == "order-2"
        reader.ack([left])
        await eventually(reader.is_drained)
        await write(group, [message(4)])
        assert numbers(await receive(reader)) == ["order-4"]

    async def test_a_group_stands_empty_when_every_subscription_has_acked_all(self, group: BrokerGroup) -> None:
        await ensure(group, "billing", "mail")
        await standing(group, WHOLE_AND_EMPTY, "billing", "mail")
        await write(group, [message(1)])
        for name in ("billing", "mail"):
            await standing(group, GroupStatus(is_whole=True, is_empty=False), "billing", "mail")
            reader = await group.reader(DESTINATION, name)
            reader.ack(await receive(reader))
            await reader.close()
        await standing(group, WHOLE_AND_EMPTY, "billing", "mail")

    async def test_what_is_unacked_is_not_empty(self, group: BrokerGroup) -> None:
        await ensure(group, "billing")
        await write(group, [message(1)])
        reader = await group.reader(DESTINATION, "billing")
        await receive(reader)
        await standing(group, GroupStatus(is_whole=True, is_empty=False), "billing")

    async def test_a_destination_that_was_not_ensured_is_not_whole(self, group: BrokerGroup) -> None:
        await ensure(group, "billing")
        assert not (await group.standing(DESTINATION, ["billing", "mail"])).is_whole

    async def test_of_two_writers_what_the_first_writes_is_refused_or_told_apart(self, group: BrokerGroup) -> None:
        await ensure(group, "billing")
        old = await group.writer(DESTINATION)
        assert await old.write([message(1, epoch=1)]) == 1
        new = await group.writer(DESTINATION)
        assert await new.write([message(2, epoch=2)]) == 1
        late = await old.write([message(3, epoch=1)])
        assert await new.write([message(4, epoch=2)]) == 1
        found = await receive(await group.reader(DESTINATION, "billing"), 10, count=3 + late)
        assert [(item.message.biz_id, item.message.epoch) for item in found] == [
            ("order-1", 1),
            ("order-2", 2),
            *([("order-3", 1)] if late else []),
            ("order-4", 2),
        ]
        await old.close()
        await new.close()

    async def test_a_subscription_takes_part_from_when_it_is_ensured(self, group: BrokerGroup) -> None:
        await ensure(group, "billing")
        await write(group, [message(1)])
        await ensure(group, "billing", "mail")
        await write(group, [message(2)])
        assert numbers(await receive(await group.reader(DESTINATION, "mail"))) == ["order-2"]
        assert numbers(await receive(await group.reader(DESTINATION, "billing"), count=2)) == ["order-1", "order-2"]

    async def test_a_removed_subscription_holds_nothing(self, group: BrokerGroup) -> None:
        await ensure(group, "billing", "mail")
        await write(group, [message(1)])
        await group.remove(DESTINATION, "mail")
        await group.remove(DESTINATION, "mail")
        await ensure(group, "billing", "mail")
        await write(group, [message(2)])
        assert numbers(await receive(await group.reader(DESTINATION, "mail"))) == ["order-2"]

    async def test_destinations_do_not_mix(self, group: BrokerGroup) -> None:
        await ensure(group, "billing")
        await ensure(group, "billing", code="other")
        await write(group, [message(1)])
        await write(group, [replace(message(2), destination="other")], "other")
        assert numbers(await receive(await group.reader("other", "billing"))) == ["order-2"]
        assert numbers(await receive(await group.reader(DESTINATION, "billing"))) == ["order-1"]

    async def test_data_has_the_mark_that_it_was_given(self, group: BrokerGroup) -> None:
        await ensure(group, "billing")
        mark = await group.mark(DESTINATION)
        assert mark
        await write(group, [message(1)])
        later = await group.mark(DESTINATION, mark)
        assert await group.has_mark(DESTINATION, mark)
        assert await group.has_mark(DESTINATION, later)

    async def test_lags_tell_what_waits(self, group: BrokerGroup) -> None:
        await ensure(group, "billing")
        await write(group, [message(n) for n in range(3)])

        async def tells() -> bool:
            lag = (group.lags() or {}).get((DESTINATION, "billing"))
            return lag is not None and lag.records == 3

        await eventually(tells)
