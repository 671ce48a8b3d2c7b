"""nsqds and nsqlookupds that are killed, stopped, paused and wiped while messages flow."""

from __future__ import annotations

import asyncio
import time

import pytest

from bus.errors import TransportUnavailable
from bus.transports.nsq import NsqTransport, parse_lookupd, parse_nsqd
from tests.integration.nsq.nsq_world import (
    config,
    eventually,
    numbers,
    opened,
    outgoing,
    publish,
    receive,
    source,
    subscribed,
    well,
)
from tests.servers import nsq


class Reader:
    """Receives and acks all the time."""

    def __init__(self, transport: NsqTransport, code: str) -> None:
        self._transport = transport
        self._code = code
        self.found = []

    async def run(self) -> None:
        consumer = await self._transport.consume(self._code, "billing")
        while True:
            items = await consumer.receive(20)
            self.found += items
            consumer.ack(items)
            await asyncio.sleep(0.005)

    @property
    def numbers(self) -> set[int]:
        return set(numbers(self.found))


async def test_a_killed_nsqd_stops_nobody_and_the_other_one_loses_nothing(own: nsq.NsqServers, code: str) -> None:
    survivor, victim = own.nsqds
    async with opened(config(own.nsqds)) as transport, asyncio.TaskGroup() as group:
        await transport.ensure(*subscribed(code, "billing"))
        reader = Reader(transport, code)
        reading = group.create_task(reader.run())
        for batch in range(60):
            await publish(transport, code, range(batch * 20, batch * 20 + 20))
            if batch == 30:
                await eventually(lambda: {source(item) for item in reader.found} == {survivor.tcp, victim.tcp})
                victim.kill()
        assert any("nsqd" in name and text for name, text in transport.conditions().items())
        await eventually(lambda: _is_empty(survivor, code))
        from_survivor = [item for item in reader.found if source(item) == survivor.tcp]
        assert len(set(numbers(from_survivor))) == survivor.stats(code, "billing")["message_count"] >= 30 * 20 - 100
        # The killed one may have lost what it had; it is used again all the same.
        victim.start()
        await eventually(lambda: well(transport))
        before = len(reader.found)
        await publish(transport, code, range(5000, 5020))
        await publish(transport, code, range(5020, 5040))
        await eventually(lambda: {source(item) for item in reader.found[before:]} == {survivor.tcp, victim.tcp})
        await eventually(lambda: _is_empty(survivor, code) and _is_empty(victim, code))
        reading.cancel()


async def test_a_restarted_nsqd_loses_nothing(alone: nsq.NsqdServer, code: str) -> None:
    async with opened(config([alone])) as transport, asyncio.TaskGroup() as group:
        await transport.ensure(*subscribed(code, "billing"))
        reader = Reader(transport, code)
        reading = group.create_task(reader.run())
        for batch in range(30):
            await publish(transport, code, range(batch * 20, batch * 20 + 20))
            if batch in (10, 20):
                await asyncio.to_thread(alone.stop)
                assert await transport.publish(outgoing(code, [9999])) == [False]
                await asyncio.to_thread(alone.start)
        await eventually(lambda: reader.numbers >= set(range(600)))
        reading.cancel()


async def test_a_paused_nsqd_is_noticed_and_publishing_stays_bounded(own: nsq.NsqServers, code: str) -> None:
    async with opened(config(own.nsqds)) as transport:
        await transport.ensure(*subscribed(code, "billing"))
        consumer = await transport.consume(code, "billing")
        await publish(transport, code, [0, 1])
        await receive(consumer, 2)
        own.nsqds[1].pause()
        try:
            for n in range(2, 6):
                began = time.monotonic()
                assert await transport.publish(outgoing(code, [n])) == [True]
                assert time.monotonic() - began < 15
            assert set(numbers(await receive(consumer, 4))) == {2, 3, 4, 5}
            await eventually(lambda: transport.conditions()[f"nsqd {own.nsqds[1].tcp}"])
        finally:
            own.nsqds[1].resume()
        await eventually(lambda: well(transport))
        await publish(transport, code, range(10, 30))
        assert set(range(10, 30)) <= set(numbers(await receive(consumer, 20)))


async def test_a_silent_nsqd_is_noticed_by_its_heartbeats(alone: nsq.NsqdServer, code: str) -> None:
    async with opened(config([alone], stats_interval=60.0, timeout=30.0)) as transport:
        await transport.ensure(*subscribed(code, "billing"))
        alone.pause()
        try:
            await eventually(lambda: "silent" in str(transport.conditions()[f"nsqd {alone.tcp}"]))
            began = time.monotonic()
            assert await transport.publish(outgoing(code, [0])) == [False]
            assert time.monotonic() - began < 15
            assert transport.lags() is None
        finally:
            alone.resume()
        await eventually(lambda: well(transport))


async def test_a_wiped_nsqd_has_its_channels_again_before_anything_is_published(
    alone: nsq.NsqdServer, code: str
) -> None:
    async with opened(config([alone])) as transport:
        await transport.ensure(*subscribed(code, "billing", "mail"))
        for life in range(3):
            await publish(transport, code, [life])
            await asyncio.to_thread(alone.wipe)
            await publish(transport, code, [100 + life])
            for name in ("billing", "mail"):
                await eventually(lambda name=name: alone.stats(code, name)["message_count"] == 1)
        for name in ("billing", "mail"):
            assert numbers(await receive(await transport.consume(code, name), 1)) == [102]


async def test_an_nsqd_that_comes_later_gets_the_channels_first(own: nsq.NsqServers, code: str) -> None:
    early, late = own.nsqds
    late.kill()
    async with opened(config(own.nsqds)) as transport:
        await transport.ensure(*subscribed(code, "billing"))
        late.start()
        await eventually(lambda: well(transport))
        early.kill()
        await publish(transport, code, range(10))
        await eventually(lambda: late.stats(code, "billing")["depth"] == 10)
        consumer = await transport.consume(code, "billing")
        assert set(numbers(await receive(consumer, 10))) == set(range(10))


async def test_a_channel_that_somebody_deleted_is_made_again(alone: nsq.NsqdServer, code: str) -> None:
    async with opened(config([alone])) as transport:
        await transport.ensure(*subscribed(code, "billing", "mail"))
        alone.call("/channel/delete", topic=code, channel="mail")
        await eventually(lambda: alone.stats(code, "mail"))
        alone.call("/topic/delete", topic=code)
        await eventually(lambda: alone.stats(code, "mail") and alone.stats(code, "billing"))


async def test_without_an_nsqd_nothing_is_confirmed_and_everything_comes_later(
    alone: nsq.NsqdServer, code: str
) -> None:
    alone.kill()
    async with opened(config([alone], timeout=30.0)) as transport:
        with pytest.raises(TransportUnavailable, match="no nsqd answers; nothing was lost: nsqd 127"):
            await transport.ensure(*subscribed(code, "billing"))
        began = time.monotonic()
        assert await transport.publish(outgoing(code, range(3))) == [False] * 3
        assert time.monotonic() - began < 15
        assert transport.lags() is None
        with pytest.raises(TransportUnavailable):
            await transport.remove(code, "mail")
        consumer = await transport.consume(code, "billing")
        alone.start()
        await publish(transport, code, range(3))
        assert numbers(await receive(consumer, 3)) == [0, 1, 2]


async def test_a_queue_removed_while_an_nsqd_is_away_is_deleted_when_it_is_back(own: nsq.NsqServers, code: str) -> None:
    async with opened(config(own.nsqds)) as transport:
        await transport.ensure(*subscribed(code, "billing", "mail"))
        await asyncio.to_thread(own.nsqds[1].stop)
        await transport.remove(code, "mail")
        assert not own.nsqds[0].stats(code, "mail")
        await asyncio.to_thread(own.nsqds[1].start)
        await eventually(lambda: well(transport))
        await eventually(lambda: not own.nsqds[1].stats(code, "mail"))
        await transport.remove(code, "billing")
        await eventually(lambda: not own.nsqds[1].stats(code, "billing"))


async def test_a_removed_queue_is_not_made_again_by_its_own_consumer_or_by_nsqlookupd(
    own: nsq.NsqServers, code: str
) -> None:
    async with opened(config(lookupds=own.lookupds)) as transport:
        await transport.ensure(*subscribed(code, "billing", "mail"))
        consumer = await transport.consume(code, "mail")
        await publish(transport, code, range(4))
        await receive(consumer, 4)
        await transport.remove(code, "mail")
        await asyncio.to_thread(own.nsqds[0].wipe)
        await eventually(lambda: well(transport) and all(nsqd.stats(code, "billing") for nsqd in own.nsqds))
        assert not any(nsqd.stats(code, "mail") for nsqd in own.nsqds)
        await transport.ensure(*subscribed(code, "mail"))
        await publish(transport, code, range(10, 14))
        assert set(numbers(await receive(consumer, 4))) == set(range(10, 14))


async def test_removing_the_last_queue_leaves_the_topic_in_which_others_may_make_one_meanwhile(
    shared: nsq.NsqServers, code: str
) -> None:
    nsqd = shared.nsqds[0]
    async with opened(config([nsqd])) as transport:
        await transport.ensure(*subscribed(code, "billing"))
        await transport.remove(code, "billing")
        assert not nsqd.stats(code, "billing")
        assert code in nsqd.topics()


async def test_one_nsqlookupd_is_enough_and_none_is_enough_to_go_on(own: nsq.NsqServers, code: str) -> None:
    async with opened(config(lookupds=own.lookupds)) as transport:
        await transport.ensure(*subscribed(code, "billing"))
        consumer = await transport.consume(code, "billing")
        own.lookupds[0].kill()
        await eventually(lambda: transport.conditions()[f"nsqlookupd {own.lookupds[0].http}"])
        await publish(transport, code, range(10))
        await receive(consumer, 10)
        own.lookupds[1].pause()
        await eventually(lambda: transport.conditions()[f"nsqlookupd {own.lookupds[1].http}"])
        await publish(transport, code, range(10, 20))
        later = await transport.consume(code, "mail")
        await transport.ensure(*subscribed(code, "mail"))
        await publish(transport, code, range(20, 24))
        await receive(consumer, 14)
        assert set(numbers(await receive(later, 4))) == {20, 21, 22, 23}
        # The last good answer is kept: an nsqd that restarts meanwhile is found again.
        own.nsqds[0].kill()
        own.nsqds[0].start()
        await eventually(lambda: not transport.conditions()[f"nsqd {own.nsqds[0].tcp}"])
        own.lookupds[1].resume()
        own.lookupds[0].start()
        await eventually(lambda: well(transport))


async def test_nsqds_are_found_as_they_come_and_forgotten_when_they_are_gone(own: nsq.NsqServers, code: str) -> None:
    first, second = own.nsqds
    second.kill()
    async with opened(config(lookupds=own.lookupds)) as transport:
        await transport.ensure(*subscribed(code, "billing"))
        consumer = await transport.consume(code, "billing")
        await eventually(lambda: f"nsqd {second.tcp}" not in transport.conditions())
        second.start()
        await eventually(lambda: transport.conditions().get(f"nsqd {second.tcp}") == "")
        await publish(transport, code, range(4))
        await publish(transport, code, range(4, 8))
        found = await receive(consumer, 8)
        assert {source(item) for item in found} == {first.tcp, second.tcp}
        second.kill()
        await eventually(lambda: f"nsqd {second.tcp}" not in transport.conditions())
        assert well(transport)


async def test_without_anything_known_it_says_so(own: nsq.NsqServers, code: str) -> None:
    for server in (*own.nsqds, *own.lookupds):
        server.kill()
    async with opened(config(lookupds=own.lookupds)) as transport:
        with pytest.raises(TransportUnavailable, match="nsqlookupd 127"):
            await transport.ensure(*subscribed(code, "billing"))
        assert await transport.publish(outgoing(code, [0])) == [False]
        own.lookupds[0].start()
        await eventually(lambda: not transport.conditions()[f"nsqlookupd {own.lookupds[0].http}"])
        assert transport.conditions()["nsqd"]
        own.nsqds[0].start()
        await publish(transport, code, [0])


async def test_other_nsqds_with_the_topic_are_read_as_well(own: nsq.NsqServers, code: str) -> None:
    mine, other = own.nsqds
    async with opened(config([other])) as elsewhere:
        await elsewhere.ensure(*subscribed(code, "billing"))
        await publish(elsewhere, code, range(5))
    async with opened(config([mine], own.lookupds)) as transport:
        await transport.ensure(*subscribed(code, "billing", "mail"))
        consumer = await transport.consume(code, "billing")
        assert set(numbers(await receive(consumer, 5))) == set(range(5))
        await publish(transport, code, range(10, 20))
        await eventually(lambda: mine.stats(code, "billing")["message_count"] == 10)
        # Others publish there, so the new subscription's channel is needed there too.
        await eventually(lambda: other.stats(code, "mail"))
        await receive(consumer, 10)
        await eventually(lambda: (transport.lags() or {}).get((code, "billing")) == (0, None))


async def test_an_nsqd_known_by_two_names_is_used_once(own: nsq.NsqServers, code: str) -> None:
    place = own.nsqds[0].place.replace("127.0.0.1", "localhost")
    asked: list[asyncio.StreamReader] = []

    async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(reader)
        writer.close()
        await writer.wait_closed()

    # The nsqlookupds are asked together, so one that counts tells how often the others were asked.
    server = await asyncio.start_server(hang_up, "127.0.0.1", 0)
    counting = parse_lookupd("{}:{}".format(*server.sockets[0].getsockname()))
    settings = config(lookupds=own.lookupds)
    settings = settings._replace(nsqd=parse_nsqd(place), lookupd=(*settings.lookupd, *counting))
    async with server, opened(settings) as transport:
        await transport.ensure(*subscribed(code, "billing"))
        await publish(transport, code, range(3))
        await eventually(lambda: (transport.lags() or {}).get((code, "billing")) == (3, 0))
        consumer = await transport.consume(code, "billing")
        await receive(consumer, 3)
        before = len(asked)
        await eventually(lambda: len(asked) >= before + 3)
        assert [name for name in transport.conditions() if name.startswith("nsqd")] == [
            f"nsqd {place.partition('/')[0]}"
        ]
        assert len(own.nsqds[0].stats(code, "billing")["clients"]) == 1


def _is_empty(nsqd: nsq.NsqdServer, code: str) -> bool:
    found = nsqd.stats(code, "billing")
    return bool(found) and not any(found[part] for part in ("depth", "in_flight_count", "deferred_count"))
