"""Leaders that move, partitions that take no messages or are gone, nsqds that die: nothing is lost, others go on."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import httpx
import pytest

from bus.errors import TransportRefused
from bus.ports.transport import OutgoingMessage
from bus.testing.quarantine import MemoryQuarantine
from bus.transports.nsq import NsqTransport
from bus.transports.nsq.partitions.layout import partition_of
from tests.doubles.youzan.running import NOT_EXIST, NOT_LEADER, YouzanDouble
from tests.harness.http import PLAIN
from tests.harness.waiting import until
from tests.integration.nsq_partitions.partition_world import (
    KEYS,
    config,
    first_deliveries,
    opened,
    outgoing,
    publish,
    wanted,
)


async def test_a_key_has_the_same_partition_always_and_others_go_where_least_is_on_its_way(
    shared: YouzanDouble, code: str
) -> None:
    shared.create_topic(code, partitions=4)
    async with opened(config(shared)) as transport:
        await transport.ensure(*wanted(code))
        consumer = await transport.consume(code, "billing")
        await publish(transport, outgoing(code, range(100)))
        expected = [0] * 4
        for number in range(100):
            expected[partition_of(KEYS[number % len(KEYS)], 4)] += 1
        assert [one["messages"] for one in shared.partitions(code)] == expected
        await publish(transport, outgoing(code, range(100, 356), keyed=False))
        await first_deliveries(consumer, range(356))
        assert min(one["messages"] for one in shared.partitions(code)) >= 64


async def test_who_publishes_finds_a_leader_that_moved_at_once(own: YouzanDouble, code: str) -> None:
    own.create_topic(code, partitions=2, replicas=2)
    async with opened(config(own, lookup_interval=600.0)) as transport:
        await transport.ensure(*wanted(code))
        await publish(transport, outgoing(code, range(20)))
        for partition in (0, 1):
            own.move_leader(code, partition, 3 - own.leader(code, partition))
        async with asyncio.timeout(10.0):
            await publish(transport, outgoing(code, range(20, 60)))
        assert sum(own.counters(nsqd).get(NOT_LEADER, 0) for nsqd in own.nsqds) >= 1


async def test_who_consumes_finds_a_leader_that_moved_at_once(own: YouzanDouble, code: str) -> None:
    own.create_topic(code, partitions=2, replicas=2)
    async with opened(config(own, lookup_interval=600.0)) as reading, opened(config(own)) as writing:
        for transport in (reading, writing):
            await transport.ensure(*wanted(code))
        consumer = await reading.consume(code, "billing")
        await publish(writing, outgoing(code, range(20)))
        await first_deliveries(consumer, range(20))
        for partition in (0, 1):
            own.move_leader(code, partition, 3 - own.leader(code, partition))
        await publish(writing, outgoing(code, range(20, 60)))
        async with asyncio.timeout(10.0):
            await first_deliveries(consumer, range(20, 60))


async def test_messages_without_a_key_avoid_a_partition_that_takes_none_and_its_keys_wait(
    shared: YouzanDouble, code: str
) -> None:
    shared.create_topic(code, partitions=2)
    async with opened(config(shared)) as transport:
        await transport.ensure(*wanted(code))
        consumer = await transport.consume(code, "billing")
        await publish(transport, outgoing(code, range(20)))
        shared.set_writable(code, 1, writable=False)
        await publish(transport, outgoing(code, range(20, 220), keyed=False))
        keyed = outgoing(code, range(220, 240))
        confirmed = await transport.publish(keyed)
        assert list(confirmed) == [partition_of(item.message.key, 2) == 0 for item in keyed]
        said = "1 of 2 partitions take no messages: 1; messages of their keys wait"
        name = f"nsq partitions of {code}"
        await until(lambda: str(transport.conditions().get(name)).startswith(said), what="it is told of")
        shared.set_writable(code, 1, writable=True)
        await publish(transport, [item for item, done in zip(keyed, confirmed, strict=True) if not done])
        await first_deliveries(consumer, range(240))
        await until(lambda: not any(transport.conditions().values()), what="nothing is wrong any more")


@pytest.mark.parametrize("error", [NOT_EXIST, NOT_LEADER])
async def test_a_partition_that_is_lost_and_comes_back_has_its_messages(
    shared: YouzanDouble, code: str, error: str
) -> None:
    shared.create_topic(code, partitions=2)
    async with opened(config(shared)) as transport:
        await transport.ensure(*wanted(code))
        await publish(transport, outgoing(code, range(20)))
        shared.lose(code, 0, error)
        consumer = await transport.consume(code, "billing")
        await publish(transport, outgoing(code, range(20, 40), keyed=False))
        publishing = asyncio.create_task(publish(transport, outgoing(code, range(40, 60))))
        await until(lambda: transport.conditions().get(f"nsq partitions of {code}"), what="it is told of")
        assert not publishing.done()
        shared.find(code, 0)
        await publishing
        await first_deliveries(consumer, range(60))


async def test_an_nsqd_that_is_killed_stops_its_partitions_alone_until_it_is_back(own: YouzanDouble, code: str) -> None:
    own.create_topic(code, partitions=2)
    async with opened(config(own)) as transport:
        await transport.ensure(*wanted(code))
        consumer = await transport.consume(code, "billing")
        await publish(transport, outgoing(code, range(20)))
        await first_deliveries(consumer, range(20))
        dead = own.leader(code, 0)
        own.kill_nsqd(dead)
        publishing = asyncio.create_task(publish(transport, outgoing(code, range(20, 60))))
        await publish(transport, outgoing(code, range(60, 80), keyed=False))
        assert not publishing.done()
        own.restart_nsqd(dead)
        await publishing
        await first_deliveries(consumer, range(20, 80))


async def test_a_copy_leads_when_its_leader_dies(own: YouzanDouble, code: str) -> None:
    async with opened(config(own, partitions=2, replication=2)) as transport:
        await transport.ensure(*wanted(code))
        consumer = await transport.consume(code, "billing")
        await publish(transport, outgoing(code, range(20)))
        dead = own.leader(code, 0)
        own.kill_nsqd(dead)
        # Read from the copy at once; it takes messages only when the other one has come back.
        await first_deliveries(consumer, range(20))
        await until(lambda: all(one["nsqds"][0] != dead for one in own.partitions(code)), what="the copies lead")
        publishing = asyncio.create_task(publish(transport, outgoing(code, range(20, 60))))
        own.restart_nsqd(dead)
        await publishing
        await first_deliveries(consumer, range(20, 60))


async def test_new_partitions_get_channels_before_messages(shared: YouzanDouble, code: str) -> None:
    shared.create_topic(code, partitions=1)
    async with opened(config(shared)) as transport:
        await transport.ensure(*wanted(code, "billing", "mail"))
        consumers = [await transport.consume(code, name) for name in ("billing", "mail")]
        await publish(transport, outgoing(code, range(20)))
        shared.expand(code, 4)
        await until(lambda: len(transport._routes.open_partitions(code)) == 4, what="all partitions are published to")
        await publish(transport, outgoing(code, range(20, 80)))
        assert all(one["messages"] for one in shared.partitions(code))
        for consumer in consumers:
            await first_deliveries(consumer, range(80))


@pytest.mark.parametrize("flag", ["registered_channels", "extended"])
async def test_topics_that_demand_something_of_clients_are_read(shared: YouzanDouble, code: str, flag: str) -> None:
    """One takes only channels that were registered, the other has headers before its bodies."""
    shared.create_topic(code, partitions=2, **{flag: True})
    async with opened(config(shared)) as transport:
        await transport.ensure(*wanted(code))
        consumer = await transport.consume(code, "billing")
        await publish(transport, outgoing(code, range(20)))
        await first_deliveries(consumer, range(20))


async def test_ids_that_hold_spaces_and_line_ends_are_finished(own: YouzanDouble, code: str) -> None:
    async with opened(config(own, partitions=1)) as transport:
        await transport.ensure(*wanted(code))
        consumer = await transport.consume(code, "billing")
        await publish(transport, outgoing(code, range(40), keyed=False))  # the tenth id ends in 0x0a, the 32nd in 0x20
        await first_deliveries(consumer, range(40))
        await until(lambda: own.counters(own.leader(code, 0)).get("finished") == 40, what="all are finished")


async def test_what_is_not_of_the_bus_is_set_aside_with_its_partition(shared: YouzanDouble, code: str) -> None:
    shared.create_topic(code, partitions=1)
    shelf = MemoryQuarantine()
    async with opened(config(shared), shelf) as transport:
        await transport.ensure(*wanted(code))
        consumer = await transport.consume(code, "billing")
        leader = shared.nsqds[shared.leader(code, 0)]
        await asyncio.to_thread(_put, leader.http, code)
        await publish(transport, outgoing(code, range(3)))
        await first_deliveries(consumer, range(3))
        await until(lambda: shelf.kept, what="it is set aside")
        assert f"nsqd 127.0.0.1:{leader.tcp} partition 0" in shelf.kept[0].place


async def test_a_removed_queue_is_gone_from_all_partitions(shared: YouzanDouble, code: str) -> None:
    shared.create_topic(code, partitions=2)
    async with opened(config(shared)) as transport:
        await transport.ensure(*wanted(code, "billing", "mail"))
        await transport.remove(code, "mail")
        assert shared.ask_lookupd("GET", "/channels", topic=code).json()["data"] == {"channels": ["billing"]}


async def test_a_process_that_never_published_removes_a_queue_and_one_that_is_nowhere(
    shared: YouzanDouble, code: str
) -> None:
    shared.create_topic(code, partitions=2)
    shared.create_channel(code, "mail")
    async with opened(config(shared)) as transport:
        await until(lambda: transport._routes.has_partitions, what="the cluster is known")
        await transport.remove(code, "mail")
        await transport.remove(code, "mail")
        await transport.remove(f"{code}-nowhere", "mail")
        assert not transport._routes.channels.removing
        assert shared.ask_lookupd("GET", "/channels", topic=code).json()["data"] == {"channels": []}


async def test_a_topic_that_no_cluster_can_make_is_refused_with_what_to_do(shared: YouzanDouble, code: str) -> None:
    async with opened(config(shared, replication=3)) as transport:
        with pytest.raises(TransportRefused) as refusal:
            await transport.ensure(*wanted(code))
        assert "not enough nsqd nodes" in str(refusal.value)
        assert "BUS_NSQ_REPLICATION" in str(refusal.value.hint)


async def test_changes_go_to_whichever_nsqlookupd_leads(tmp_path: Path, code: str) -> None:
    with YouzanDouble(tmp_path) as double:
        async with opened(config(double, lookup_interval=600.0)) as transport:
            await transport.ensure(*wanted(f"{code}-first"))
            double.set_lookupd(2, leads=True)
            await transport.ensure(*wanted(code))
            assert len(double.partitions(code)) == 2


def _put(port: int, code: str) -> None:
    httpx.post(f"http://127.0.0.1:{port}/pub", params={"topic": code}, content=b"hello", **PLAIN).raise_for_status()


async def test_an_nsqd_that_hangs_does_not_slow_what_goes_to_the_partitions_of_others(
    own: YouzanDouble, code: str
) -> None:
    own.create_topic(code, partitions=2)
    async with opened(config(own)) as transport:
        await transport.ensure(*wanted(code))
        consumer = await transport.consume(code, "billing")
        await publish(transport, outgoing(code, range(20)))
        await first_deliveries(consumer, range(20))
        hanging = own.leader(code, 0)
        own.hang_nsqd(hanging)
        stuck, others = await _apart(transport, outgoing(code, range(20, 220)))
        said = transport.conditions()[f"nsq partitions of {code}"]
        assert str(said).startswith(f"partition 0 at nsqd 127.0.0.1:{own.nsqds[hanging].tcp} takes no messages: ")
        began = time.monotonic()
        for n in range(0, len(others), 10):
            await publish(transport, others[n : n + 10])
            assert not any(await transport.publish(stuck[n : n + 10]))
        assert time.monotonic() - began < config(own).timeout
        await first_deliveries(consumer, [int(item.message.biz_id.removeprefix("order-")) for item in others])
        own.wake_nsqd(hanging)
        await publish(transport, stuck)
        await first_deliveries(consumer, [int(item.message.biz_id.removeprefix("order-")) for item in stuck])
        await until(lambda: not any(transport.conditions().values()), what="nothing is wrong any more")


async def test_a_partition_that_fails_to_write_is_told_of_until_it_writes(shared: YouzanDouble, code: str) -> None:
    shared.create_topic(code, partitions=1)
    async with opened(config(shared)) as transport:
        await transport.ensure(*wanted(code))
        shared.set_failing(code, 0, failing=True)
        publishing = asyncio.create_task(publish(transport, outgoing(code, range(20))))
        name = f"nsq partitions of {code}"
        await until(lambda: "E_PUB_FAILED" in str(transport.conditions().get(name, "")), what="it is told of")
        shared.set_failing(code, 0, failing=False)
        await publishing
        assert name not in transport.conditions()
        await first_deliveries(await transport.consume(code, "billing"), range(20))


async def _apart(
    transport: NsqTransport, batch: list[OutgoingMessage]
) -> tuple[list[OutgoingMessage], list[OutgoingMessage]]:
    """Publish once a message of each of two partitions, the first of which hangs, and return the rest by partition."""
    shares = [[item for item in batch if partition_of(item.message.key, 2) == number] for number in (0, 1)]
    assert await transport.publish([shares[0][0], shares[1].pop(0)]) == [False, True]
    return shares[0], shares[1]
