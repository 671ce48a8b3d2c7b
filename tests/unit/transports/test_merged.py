"""Several transports meet at one subscription without losing or mixing up anything."""

from __future__ import annotations

import asyncio

import pytest

from bus.domain.destination import TransportName
from bus.ports.transport import IncomingMessage
from bus.testing.contracts.transport import ensure, lag_of, numbers, publish, receive
from bus.testing.transport import MemoryTransport
from bus.testing.writes import DESTINATION, message
from bus.transports.merged import MergedConsumer


class Meeting:
    def __init__(self) -> None:
        self.old, self.new = MemoryTransport(TransportName.KAFKA), MemoryTransport(TransportName.NSQ)
        self.merged = MergedConsumer()

    async def let_in(self, *transports: MemoryTransport) -> None:
        for transport in transports:
            await ensure(transport, "billing")
            self.merged.add(transport.name, await transport.consume(DESTINATION, "billing"))

    def left(self, transport: MemoryTransport) -> int:
        lag = lag_of(transport, "billing")
        return -1 if lag is None else lag.records


@pytest.fixture
async def meeting() -> Meeting:
    return Meeting()


async def test_messages_of_all_transports_arrive_and_each_is_acked_on_its_own(meeting: Meeting) -> None:
    await meeting.let_in(meeting.old, meeting.new)
    await publish(meeting.old, message(0), message(1))
    await publish(meeting.new, message(2))
    found = await receive(meeting.merged, count=3)
    assert sorted(numbers(found)) == ["order-0", "order-1", "order-2"]
    meeting.merged.ack([item for item in found if item.message.biz_id != "order-1"])
    assert (meeting.left(meeting.old), meeting.left(meeting.new)) == (1, 0)
    meeting.merged.release([item for item in found if item.message.biz_id == "order-1"])
    assert numbers(await receive(meeting.merged)) == ["order-1"]


async def test_no_more_than_asked_is_handed_out_and_the_rest_comes_next(meeting: Meeting) -> None:
    await meeting.let_in(meeting.old, meeting.new)
    await publish(meeting.old, *(message(n) for n in range(3)))
    await publish(meeting.new, *(message(n) for n in range(3, 6)))
    found: list[IncomingMessage] = []
    while len(found) < 6:
        some = await receive(meeting.merged, 2)
        assert 1 <= len(some) <= 2
        found += some
    assert sorted(numbers(found)) == [f"order-{n}" for n in range(6)]


async def test_a_silent_transport_holds_up_no_other(meeting: Meeting) -> None:
    await meeting.let_in(meeting.old, meeting.new)
    for n in range(5):
        await publish(meeting.new, message(n))
        assert numbers(await receive(meeting.merged)) == [f"order-{n}"]


async def test_a_transport_is_let_in_while_another_is_waited_for(meeting: Meeting) -> None:
    await meeting.let_in(meeting.old)
    waiting = asyncio.create_task(meeting.merged.receive(10))
    await asyncio.sleep(0)
    await meeting.let_in(meeting.new)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    await publish(meeting.new, message(0))
    assert numbers(await receive(meeting.merged)) == ["order-0"]
    await publish(meeting.old, message(1))
    assert numbers(await receive(meeting.merged)) == ["order-1"]


async def test_cancelling_receive_loses_nothing_of_either_transport(meeting: Meeting) -> None:
    await meeting.let_in(meeting.old, meeting.new)
    for n in range(20):
        waiting = asyncio.create_task(meeting.merged.receive(1))
        await asyncio.sleep(0)
        publishing = asyncio.create_task(publish((meeting.old, meeting.new)[n % 2], message(n)))
        for _ in range(n // 2):
            await asyncio.sleep(0)
        waiting.cancel()
        await publishing
        results = await asyncio.gather(waiting, return_exceptions=True)
        found = results[0] if isinstance(results[0], list) else await receive(meeting.merged)
        assert numbers(found) == [f"order-{n}"]
        meeting.merged.ack(found)


@pytest.mark.parametrize("taken", [0, 1])
async def test_what_a_dropped_transport_gave_comes_again_there(meeting: Meeting, taken: int) -> None:
    await meeting.let_in(meeting.old, meeting.new)
    await publish(meeting.old, message(0), message(1))
    await publish(meeting.new, message(2))
    if taken:
        await receive(meeting.merged, 1)
    await meeting.merged.drop(TransportName.KAFKA)
    assert meeting.merged.transports == {TransportName.NSQ}
    again = await receive(await meeting.old.consume(DESTINATION, "billing"), count=2)
    assert sorted(numbers(again)) == ["order-0", "order-1"]


async def test_close_gives_everything_back(meeting: Meeting) -> None:
    await meeting.let_in(meeting.old, meeting.new)
    await publish(meeting.old, message(0), message(1))
    await publish(meeting.new, message(2), message(3))
    await receive(meeting.merged, 1)
    await meeting.merged.close()
    assert len(await receive(await meeting.old.consume(DESTINATION, "billing"), count=2)) == 2
    assert len(await receive(await meeting.new.consume(DESTINATION, "billing"), count=2)) == 2


async def test_a_delivery_of_another_merged_consumer_is_refused(meeting: Meeting) -> None:
    await meeting.let_in(meeting.old)
    with pytest.raises(TypeError):
        meeting.merged.ack([IncomingMessage(message(), object(), False)])
