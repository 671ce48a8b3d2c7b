"""Every transport keeps the contract; and the suite catches transports that do not."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bus.domain.message import encode_message
from bus.errors import SpoolError
from bus.ports.spool import NewRecord
from bus.ports.transport import OutgoingMessage, Transport
from bus.spool import AsyncSpool, Options
from bus.testing.contracts.transport import TransportContract, ensure, numbers, publish, receive
from bus.testing.spool import MemorySpool
from bus.testing.transport import MemoryTransport
from bus.testing.writes import DESTINATION, message
from bus.transports.direct import DirectTransport


class TestMemoryTransport(TransportContract):
    @pytest.fixture
    async def transport(self) -> MemoryTransport:
        return MemoryTransport()


class TestDirectTransport(TransportContract):
    @pytest.fixture
    async def transport(self, tmp_path: Path) -> AsyncIterator[DirectTransport]:
        async with await AsyncSpool.open(tmp_path, Options(consumers=())) as queue:
            yield DirectTransport(queue)

    async def test_a_restart_keeps_what_was_not_acked_and_suspects_what_was_held(self, tmp_path: Path) -> None:
        spool = tmp_path / "again"
        async with await AsyncSpool.open(spool, Options(consumers=())) as queue:
            transport = DirectTransport(queue)
            await ensure(transport, "billing")
            await publish(transport, *(message(n) for n in range(4)))
            consumer = await transport.consume(DESTINATION, "billing")
            found = await receive(consumer, 3, count=3)
            consumer.ack(found[:2])
            await consumer.close()
        async with await AsyncSpool.open(spool, Options(consumers=())) as queue:
            transport = DirectTransport(queue)
            await ensure(transport, "billing")
            again = await receive(await transport.consume(DESTINATION, "billing"), count=2)
            assert [item.message for item in again] == [message(2), message(3)]

    async def test_a_queue_that_is_full_confirms_nothing_and_keeps_what_it_has(self) -> None:
        queue = MemorySpool(consumers=(), limit=4000)
        transport = DirectTransport(queue)
        await ensure(transport, "billing")
        big = message(1, body=bytes(5000))
        assert await publish(transport, big, message(2, destination="nowhere")) == [None, True]
        assert await publish(transport, message(4)) == [True]
        assert await publish(transport, message(5), big) == [True, None]
        found = await receive(await transport.consume(DESTINATION, "billing"), count=2)
        assert numbers(found) == ["order-4", "order-5"]

    async def test_what_fills_the_share_of_its_destination_stays_with_the_receiver(self) -> None:
        queue = MemorySpool(consumers=(), limit=10_000)
        transport = DirectTransport(queue, lambda _: 0.5)
        await ensure(transport, "billing")
        await ensure(transport, "billing", code="other")
        bodies = [message(number, body=bytes(2000)) for number in range(4)]
        assert await publish(transport, *bodies) == [True, True, None, None]
        assert await publish(transport, bodies[2]) == [None]
        assert await publish(transport, message(9, destination="other")) == [True]
        consumer = await transport.consume(DESTINATION, "billing")
        consumer.ack(await receive(consumer, count=2))
        assert await publish(transport, bodies[2]) == [True]

    async def test_what_waits_elsewhere_may_fill_the_share_of_its_destination_and_no_more(self) -> None:
        transport = DirectTransport(MemorySpool(consumers=(), limit=10_000), lambda _: 0.5)
        await ensure(transport, "billing", "shop")
        waiting = [
            OutgoingMessage(one, encode_message(one)) for one in (message(n, body=bytes(1000)) for n in range(4))
        ]
        assert await transport.move_in("billing", waiting[:2])
        assert not await transport.move_in("shop", waiting)
        assert await transport.move_in("shop", waiting[:1])
        assert not await transport.move_in("nobody", waiting[:1])
        found = [
            await receive(await transport.consume(DESTINATION, name), count=count)
            for name, count in (("billing", 2), ("shop", 1))
        ]
        assert [numbers(one) for one in found] == [["order-0", "order-1"], ["order-0"]]

    async def test_what_has_no_room_lets_nothing_behind_it_pass_and_is_told_once(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        transport = DirectTransport(MemorySpool(consumers=(), limit=20_000), lambda _: 0.4)
        await ensure(transport, "billing")
        await ensure(transport, "billing", code="other")
        consumer = await transport.consume(DESTINATION, "billing")
        coming = (message(number, body=bytes(1000)) for number in itertools.count(1))
        await publish(transport, *itertools.islice(coming, 6))
        held = [message(0, body=bytes(5000))]
        for tries in range(20):
            held += itertools.islice(coming, 3)
            beside = message(tries, destination="other")
            *taken, is_beside_taken = await publish(transport, *held, beside)
            assert is_beside_taken
            if taken[0]:
                break
            held = [one for one, done in zip(held, taken, strict=True) if not done]
            consumer.ack(await receive(consumer, 1))
        assert 4 <= tries <= 10
        assert caplog.text.count("fills its share") == 1

    async def test_a_destination_that_is_full_again_and_again_is_told_once(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        transport = DirectTransport(MemorySpool(consumers=(), limit=20_000), lambda _: 0.4)
        await ensure(transport, "billing")
        consumer = await transport.consume(DESTINATION, "billing")
        body = bytes(1000)
        for _ in range(5):
            while all(await publish(transport, message(1, body=body))):
                pass
            consumer.ack(await receive(consumer, 1))
        assert caplog.text.count("fills its share") == 1
        consumer.ack(await receive(consumer, 100, count=5))
        while all(await publish(transport, message(1, body=body))):
            pass
        assert caplog.text.count("fills its share") == 2

    @pytest.mark.parametrize("ticks", [1, 0], ids=["asked each time", "asked once"])
    async def test_on_a_disk_smaller_than_its_limit_a_destination_leaves_room_to_its_neighbours(
        self, tmp_path: Path, ticks: int
    ) -> None:
        spools: list[AsyncSpool] = []
        settings = {
            "limit": 1 << 30,
            "reserve": 1_000_000,
            "free_space": lambda _: 10_000_000 - sum(spool.stats().bytes for spool in spools),
            "now": itertools.count(1, ticks).__next__,
        }
        async with (
            await AsyncSpool.open(tmp_path / "direct", Options(consumers=(), **settings)) as queue,
            await AsyncSpool.open(tmp_path / "receiver", Options(consumers=("publish",), **settings)) as receiver,
        ):
            spools += [queue, receiver]
            transport = DirectTransport(queue, lambda _: 0.66)
            for code in (DESTINATION, "other"):
                await ensure(transport, "billing", code=code)
            kept = [n for n in range(100) if not all(await publish(transport, message(n, body=bytes(100_000))))]
            assert 0.6 < queue.room(DESTINATION).held / 9_000_000 <= 0.66
            for _ in kept:
                if receiver.room(DESTINATION).takes(0.66, 100_000):
                    await receiver.append([NewRecord(DESTINATION, bytes(100_000), 1)])
            assert not receiver.room(DESTINATION).takes(0.66, 100_000)
            assert receiver.room("other").takes(0.66, 100_000)
            await receiver.append([NewRecord("other", bytes(100_000), 1)])
            assert await publish(transport, message(1, destination="other", body=bytes(100_000))) == [True]

    async def test_with_the_disk_at_its_reserve_a_little_of_each_destination_flows_on(self) -> None:
        queue = MemorySpool(consumers=())
        transport = DirectTransport(queue, lambda _: 0.66)
        await ensure(transport, "billing")
        await ensure(transport, "billing", code="other")
        await publish(transport, *(message(number, body=bytes(1000)) for number in range(1100)))
        queue.full = True
        assert not any(await publish(transport, message(1200)))
        few = [message(number, destination="other") for number in range(10)]
        assert await publish(transport, *few) == [True] * 10

    async def test_a_record_of_another_version_stays_in_view_and_holds_up_nothing(self) -> None:
        queue = MemorySpool(consumers=())
        transport = DirectTransport(queue)
        await ensure(transport, "billing")
        await publish(transport, message(0))
        (position,) = [record.position for record in await queue.claim("billing", 1, DESTINATION)]
        queue._lanes[DESTINATION].records[position] = queue._lanes[DESTINATION].records[position]._replace(payload=b"?")
        queue.release("billing", [queue._lanes[DESTINATION].records[position]])
        await publish(transport, message(1))
        transport._recent.clear()
        assert numbers(await receive(await transport.consume(DESTINATION, "billing"))) == ["order-1"]
        assert (transport.lags() or {})[DESTINATION, "billing"].records == 2


class LosesOnCancel(MemoryTransport):
    async def consume(self, destination, subscription):
        consumer = await super().consume(destination, subscription)
        plain = consumer.receive

        async def slow(limit):
            found = await plain(limit)
            await asyncio.sleep(0)
            return found

        consumer.receive = slow
        return consumer


class AckForgets(MemoryTransport):
    async def consume(self, destination, subscription):
        consumer = await super().consume(destination, subscription)
        consumer.ack = lambda _: None
        return consumer


class KeepsOnClose(MemoryTransport):
    async def consume(self, destination, subscription):
        consumer = await super().consume(destination, subscription)
        consumer.close = lambda: asyncio.sleep(0)
        return consumer


class ConfirmsWithoutHolding(MemoryTransport):
    async def publish(self, batch):
        return (await super().publish(batch[:1]))[:1] * len(batch)


class OneQueueForAll(MemoryTransport):
    async def consume(self, destination, subscription):  # noqa: ARG002
        return await super().consume(destination, min(name for _, name in self._queues))


class CountsWaitingOnly(MemoryTransport):
    def _lag(self, queue):
        held, queue.held = queue.held, {}
        try:
            return super()._lag(queue)
        finally:
            queue.held = held


@pytest.mark.parametrize(
    ("broken", "check"),
    [
        (LosesOnCancel, "test_cancelling_receive_loses_nothing"),
        (AckForgets, "test_what_is_acked_does_not_come_again"),
        (AckForgets, "test_lags_count_what_is_not_acked"),
        (KeepsOnClose, "test_close_gives_back_what_is_held"),
        (ConfirmsWithoutHolding, "test_every_subscription_gets_every_message_as_it_was"),
        (OneQueueForAll, "test_every_subscription_gets_every_message_as_it_was"),
        (CountsWaitingOnly, "test_lags_count_what_is_not_acked"),
    ],
)
async def test_the_contract_catches(broken: type[Transport], check: str, monkeypatch: pytest.MonkeyPatch) -> None:
    await getattr(TransportContract(), check)(MemoryTransport())
    monkeypatch.setattr("bus.testing.contracts.transport.PATIENCE", 0.05)
    with pytest.raises((AssertionError, TimeoutError)):
        await getattr(TransportContract(), check)(broken())


async def test_a_spool_that_is_closed_is_not_a_confirmation() -> None:
    queue = MemorySpool(consumers=())
    transport = DirectTransport(queue)
    await ensure(transport, "billing")
    await queue.close()
    assert await publish(transport, message()) == [False]
    with pytest.raises(SpoolError):
        await ensure(transport, "mail")
