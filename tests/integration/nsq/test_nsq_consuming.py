"""Messages in flight at a consumer: time-outs, lost connections, foreign messages, shares."""

from __future__ import annotations

import asyncio
import itertools
import time

import pytest

from bus.testing.quarantine import MemoryQuarantine
from bus.transports.nsq import Compression, NsqTransport
from bus.transports.nsq.buffer import NodeBuffer
from bus.transports.nsq.codec import HEADER, wrap
from tests.integration.nsq.nsq_world import (
    PATIENCE,
    config,
    eventually,
    in_flight,
    numbers,
    opened,
    publish,
    receive,
    source,
    stop,
    subscribed,
)
from tests.servers import nsq


def ready(nsqd: nsq.NsqdServer, code: str) -> int:
    clients = nsqd.stats(code, "billing").get("clients") or [{"ready_count": 0}]
    return clients[0]["ready_count"]


async def test_what_nobody_asks_for_goes_back_for_another_dispatcher(
    alone: nsq.NsqdServer, code: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(config([alone], msg_timeout=3.0)) as transport:
        await transport.ensure(*subscribed(code, "billing"))
        slow = await transport.consume(code, "billing")
        asking = asyncio.create_task(slow.receive(10))
        await publish(transport, code, [0])
        held = await asking
        await publish(transport, code, range(1, 6))
        await eventually(lambda: in_flight(alone, code) == 6)
        monkeypatch.setattr("bus.transports.nsq.consumer._IDLE_AFTER", 0.5)
        quick = await transport.consume(code, "billing")
        assert set(numbers(await receive(quick, 5))) == {1, 2, 3, 4, 5}
        await eventually(lambda: in_flight(alone, code) == 1)
        slow.ack(held)
        asking = asyncio.create_task(receive(slow, 1))
        await quick.close()
        await publish(transport, code, [6])
        assert numbers(await asking) == [6]


async def test_giving_back_again_and_again_waits_longer_each_time(
    shared: nsq.NsqServers, code: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bus.transports.nsq.consumer._FIRST_PAUSE", 0.25)
    async with opened(config(shared.nsqds)) as transport:
        await transport.ensure(*subscribed(code, "billing"))
        await publish(transport, code, range(2))
        consumer = await transport.consume(code, "billing")
        times = []
        for _ in range(6):
            found = await receive(consumer, 2, ack=False)
            times.append(time.monotonic())
            consumer.release(found)
        waits = [later - earlier for earlier, later in itertools.pairwise(times)]
        # Each may be shortened by up to a half.
        assert all(wait >= 0.125 * 2**n for n, wait in enumerate(waits[1:]))
        consumer.ack(await receive(consumer, 2, ack=False))
        await publish(transport, code, range(2, 4))
        began = time.monotonic()
        found = await receive(consumer, 2, ack=False)
        consumer.release(found)
        await receive(consumer, 2)
        assert time.monotonic() - began < waits[-1]


async def test_messages_in_flight_are_shared_out_over_the_nsqds(shared: nsq.NsqServers, code: str) -> None:
    first, second = shared.nsqds

    async with opened(config(shared.nsqds, max_in_flight=50)) as transport:
        await transport.ensure(*subscribed(code, "billing"))
        consumer = await transport.consume(code, "billing")
        asking = asyncio.create_task(receive(consumer, 400, limit=40))
        await eventually(lambda: ready(first, code) == ready(second, code) == 20)
        async with opened(config([first])) as one:
            await one.ensure(*subscribed(code, "billing"))
            for batch in range(10):
                await publish(one, code, range(batch * 40, batch * 40 + 40))
        assert {source(item) for item in await asking} == {first.tcp}
        # While nothing comes from the second one, the first may have nearly all; any is still noticed.
        async with opened(config([first])) as one, asyncio.timeout(PATIENCE):
            await one.ensure(*subscribed(code, "billing"))
            for number in itertools.count(1000):
                asking = asyncio.create_task(consumer.receive(40))
                await asyncio.sleep(0)  # it asks
                if (ready(first, code), ready(second, code)) == (39, 1):
                    break
                await publish(one, code, [number])
                consumer.ack(await asking)
        async with opened(config([second])) as other:
            await other.ensure(*subscribed(code, "billing"))
            await publish(other, code, [999])
        found = await asking
        assert {source(item) for item in found} == {second.tcp}


async def test_no_more_is_in_flight_than_allowed(shared: nsq.NsqServers, code: str) -> None:
    async with opened(config(shared.nsqds, max_in_flight=10)) as transport:
        await transport.ensure(*subscribed(code, "billing"))
        consumer = await transport.consume(code, "billing")
        receiving = asyncio.create_task(receive(consumer, 8, limit=500, ack=False))
        await eventually(lambda: [ready(nsqd, code) for nsqd in shared.nsqds] == [5, 5])
        for batch in range(6):
            await publish(transport, code, range(batch * 20, batch * 20 + 20))
        held = await receiving
        # While shares move from one nsqd to the other, what is on its way already counts for both.
        assert sum(in_flight(nsqd, code) for nsqd in shared.nsqds) <= 20
        consumer.ack(held)
        assert len(held) + len(await receive(consumer, 120 - len(held))) == 120


async def test_what_is_not_ours_is_set_aside_and_the_others_go_on(shared: nsq.NsqServers, code: str) -> None:
    shelf = MemoryQuarantine()
    nsqd = shared.nsqds[0]
    async with opened(config(shared.nsqds), shelf) as transport:
        await transport.ensure(*subscribed(code, "billing"))
        strange = [b"{}", wrap(b"\xc1"), HEADER[:-1] + b"\x07later", b"\x00"]
        for body in strange:
            nsqd.call("/pub", body, topic=code)
        await publish(transport, code, [1])
        consumer = await transport.consume(code, "billing")
        assert numbers(await receive(consumer, 1)) == [1]
        waiting = asyncio.create_task(consumer.receive(1))
        await eventually(lambda: len(shelf.kept) == 4)
        await eventually(lambda: in_flight(nsqd, code) == 0)
        await stop(waiting)
        assert sorted(foreign.payload for foreign in shelf.kept) == sorted(strange)
        reasons = {foreign.payload: foreign.reason for foreign in shelf.kept}
        assert "does not begin with the bus's mark" in reasons[b"{}"]
        assert "damaged" in reasons[strange[1]]
        assert "version 7" in reasons[strange[2]]
        kept = shelf.kept[0]
        assert kept.transport == "nsq"
        assert kept.headers["attempts"] == "1"
        assert f"topic {code}, channel billing, nsqd {nsqd.tcp}, message " in kept.place


async def test_what_cannot_be_set_aside_stays_in_nsq(alone: nsq.NsqdServer, code: str) -> None:
    shelf = MemoryQuarantine(is_full=True)
    async with opened(config([alone], msg_timeout=1.0), shelf) as transport:
        await transport.ensure(*subscribed(code, "billing"))
        alone.call("/pub", b"strange", topic=code)
        consumer = await transport.consume(code, "billing")
        waiting = asyncio.create_task(consumer.receive(10))
        await eventually(lambda: shelf.tries > 2)
        assert in_flight(alone, code) == 1
        await consumer.close()
        await stop(waiting)
        await eventually(lambda: alone.stats(code, "billing")["depth"] == 1)
        shelf.is_full = False
        waiting = asyncio.create_task((await transport.consume(code, "billing")).receive(10))
        await eventually(lambda: [foreign.payload for foreign in shelf.kept] == [b"strange"])
        await eventually(lambda: in_flight(alone, code) == alone.stats(code, "billing")["depth"] == 0)
        await stop(waiting)


async def test_what_cannot_be_set_aside_does_not_stop_the_others(alone: nsq.NsqdServer, code: str) -> None:
    shelf = MemoryQuarantine(is_full=True)
    async with opened(config([alone]), shelf) as transport:
        await transport.ensure(*subscribed(code, "billing"))
        for _ in range(25):
            alone.call("/pub", b"strange", topic=code)
        await publish(transport, code, [1])
        consumer = await transport.consume(code, "billing")
        assert numbers(await receive(consumer, 1, limit=10)) == [1]
        assert in_flight(alone, code) >= 25
        shelf.is_full = False
        await eventually(lambda: len(shelf.kept) == 25 and in_flight(alone, code) == 0)


async def test_two_dispatchers_share_the_messages(shared: nsq.NsqServers, code: str) -> None:
    async with opened(config(shared.nsqds)) as one, opened(config(shared.nsqds)) as two:
        await one.ensure(*subscribed(code, "billing"))
        found: list[list[int]] = [[], []]

        async def work(transport: NsqTransport, mine: list[int]) -> None:
            consumer = await transport.consume(code, "billing")
            while True:
                items = await consumer.receive(8)
                mine += numbers(items)
                consumer.ack(items)
                await asyncio.sleep(0.001)

        async with asyncio.TaskGroup() as group:
            working = [
                group.create_task(work(transport, mine)) for transport, mine in zip((one, two), found, strict=True)
            ]
            for batch in range(20):
                await publish(one, code, range(batch * 50, batch * 50 + 50))
            await eventually(lambda: sum(map(len, found)) >= 1000)
            for task in working:
                task.cancel()
        assert sorted(found[0] + found[1]) == list(range(1000))
        assert min(map(len, found)) > 100


@pytest.mark.parametrize("compression", list(Compression))
async def test_a_single_message_does_not_wait_in_a_buffer(
    shared: nsq.NsqServers, code: str, compression: Compression
) -> None:
    async with opened(config(shared.nsqds, compression=compression)) as transport:
        await transport.ensure(*subscribed(code, "billing"))
        consumer = await transport.consume(code, "billing")
        asking = asyncio.create_task(receive(consumer, 1, limit=32))
        times = []
        for n in range(20):
            began = time.monotonic()
            await publish(transport, code, [n])
            await asking
            times.append(time.monotonic() - began)
            asking = asyncio.create_task(receive(consumer, 1, limit=32))
        await stop(asking)
        # nsqd's own buffering would be 250 ms; with compression it is 25 ms at least.
        assert sorted(times)[10] < (0.02 if compression is Compression.NONE else 0.1)


async def test_closing_that_is_cancelled_leaves_nothing_behind(shared: nsq.NsqServers, code: str) -> None:
    async with opened(config(shared.nsqds)) as transport:
        await transport.ensure(*subscribed(code, "billing"))
        await publish(transport, code, range(4))
        consumer = await transport.consume(code, "billing")
        await receive(consumer, 4, ack=False)
        closing = asyncio.create_task(consumer.close())
        await asyncio.sleep(0)
        await stop(closing)
        await eventually(lambda: all(not nsqd.stats(code, "billing")["client_count"] for nsqd in shared.nsqds), 5)


async def test_what_is_acked_twice_in_one_call_counts_once(shared: nsq.NsqServers, code: str) -> None:
    async with opened(config(shared.nsqds[:1])) as transport:
        await transport.ensure(*subscribed(code, "billing"))
        consumer = await transport.consume(code, "billing")
        await publish(transport, code, range(5))
        held = await receive(consumer, 5, limit=5, ack=False)
        consumer.ack([held[0]] * 5)
        # Four are still held, so that twelve may be in flight when eight more are asked for.
        asking = asyncio.create_task(consumer.receive(8))
        await eventually(lambda: ready(shared.nsqds[0], code) == 12)
        await stop(asking)
        consumer.release([held[1], held[1], *held[2:]])
        again = await receive(consumer, 4)
        assert sorted(numbers(again)) == [1, 2, 3, 4]
        assert len(again) == 4


def double_on_disk(nsqd: nsq.NsqdServer, code: str) -> None:
    """Put every message of a channel into its queue on disk twice, as a crash before nsqd's next sync can."""
    name = f"{code}:billing.diskqueue"
    (content,) = nsqd.data.glob(f"{name}.000000.dat")
    meta = nsqd.data / f"{name}.meta.dat"
    depth, reading, _ = meta.read_text().splitlines()
    queued = content.read_bytes()
    content.write_bytes(queued * 2)
    meta.write_text(f"{2 * int(depth)}\n{reading}\n0,{2 * len(queued)}\n")


async def test_copies_of_one_message_in_flight_do_not_use_up_what_is_allowed(alone: nsq.NsqdServer, code: str) -> None:
    async with opened(config([alone])) as transport:
        await transport.ensure(*subscribed(code, "billing"))
        await publish(transport, code, range(3))
    alone.stop()
    double_on_disk(alone, code)
    alone.start()
    async with opened(config([alone], max_in_flight=6)) as transport:
        await transport.ensure(*subscribed(code, "billing"))
        consumer = await transport.consume(code, "billing")
        held = await receive(consumer, 3)
        await eventually(lambda: alone.stats(code, "billing")["depth"] == 0)
        consumer.ack(held)
        await publish(transport, code, range(3, 33))
        async with asyncio.timeout(PATIENCE):
            left = set(range(3, 33))
            while left:
                found = await consumer.receive(1)
                left -= set(numbers(found))
                consumer.ack(found)
        await eventually(lambda: alone.stats(code, "billing")["depth"] == 0 and not in_flight(alone, code))


async def test_a_copy_in_flight_at_another_consumer_does_not_use_up_what_is_allowed(
    alone: nsq.NsqdServer, code: str
) -> None:
    async with opened(config([alone])) as transport:
        await transport.ensure(*subscribed(code, "billing"))
        await publish(transport, code, [0])
    alone.stop()
    double_on_disk(alone, code)
    alone.start()
    one_each = config([alone], max_in_flight=1)
    async with opened(one_each) as one, opened(one_each) as two, asyncio.timeout(PATIENCE):
        await one.ensure(*subscribed(code, "billing"))
        consumers = [await transport.consume(code, "billing") for transport in (one, two)]
        copies = await asyncio.gather(*[consumer.receive(1) for consumer in consumers])
        assert [numbers(copy) for copy in copies] == [[0], [0]]
        for consumer, copy in zip(consumers, copies, strict=True):
            consumer.ack(copy)
        asking = [asyncio.create_task(consumer.receive(1)) for consumer in consumers]
        await publish(one, code, [1, 2])
        found = await asyncio.gather(*asking)
        assert sorted(number for items in found for number in numbers(items)) == [1, 2]
        for consumer, items in zip(consumers, found, strict=True):
            consumer.ack(items)
        await eventually(lambda: alone.stats(code, "billing")["depth"] == 0)


async def test_what_nsqd_gave_up_waiting_for_allows_no_more_in_flight(
    alone: nsq.NsqdServer, code: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bus.transports.nsq.buffer.NodeBuffer._touch", lambda *_: None)
    refused: list[bytes] = []
    refuse = NodeBuffer._refused

    def seen(buffer: NodeBuffer, message_id: bytes) -> None:
        refuse(buffer, message_id)
        refused.append(message_id)

    monkeypatch.setattr(NodeBuffer, "_refused", seen)
    one_each = config([alone], max_in_flight=1, msg_timeout=1.0)
    async with opened(one_each) as one, opened(one_each) as two, asyncio.timeout(PATIENCE):
        await one.ensure(*subscribed(code, "billing"))
        slow, quick = [await transport.consume(code, "billing") for transport in (one, two)]
        asking = asyncio.create_task(slow.receive(1))
        await publish(one, code, [0])
        held = await asking
        slow.rest()  # so that it comes to the other one when its time is over
        quick.ack(await quick.receive(1))
        slow.ack(held)
        await eventually(lambda: len(refused) == 1)
        asking = asyncio.create_task(slow.receive(1))
        await eventually(lambda: [one["ready_count"] for one in alone.stats(code, "billing")["clients"]] == [1, 1])
        await stop(asking)
