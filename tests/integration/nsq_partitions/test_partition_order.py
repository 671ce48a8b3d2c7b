"""Order of keys over partitions, through everything that a cluster goes through."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from bus.domain.destination import Destination, Ordering
from bus.domain.ordering.combining import check_order
from bus.errors import InvalidDestination, TransportRefused
from bus.ports.transport import Consumer
from bus.telemetry.metrics import REGISTRY
from bus.transports.nsq import NsqConfig, NsqTransport
from tests.doubles.youzan.running import YouzanDouble
from tests.harness.waiting import until
from tests.integration.nsq_partitions.partition_world import (
    PATIENCE,
    config,
    first_deliveries,
    opened,
    out_of_order,
    outgoing,
    publish,
    wanted,
)

BATCH = 10
COUNTED = {"subscription": "billing"}
KEPT = Ordering.KEY


async def test_ordered_destinations_have_ordered_topics_and_one_message_of_a_partition_under_way(
    shared: YouzanDouble, code: str
) -> None:
    async with opened(config(shared, partitions=2)) as transport:
        await transport.ensure(*wanted(code, ordering=KEPT))
        consumer = await transport.consume(code, "billing")
        await publish(transport, outgoing(code, range(40)))
        held = await consumer.receive(100)
        while len(held) < 2:
            held += await consumer.receive(100)
        assert len({item.token.buffer.source.partition for item in held}) == len(held) == 2
        consumer.release(held)
        assert out_of_order(await first_deliveries(consumer, range(40))) == []
        subscribed = [one for n in shared.nsqds for one in shared.commands(n, "SUB", "SUB_ORDERED")]
        assert {one["command"] for one in subscribed if one["params"][0] == code} == {"SUB_ORDERED"}
        assert not any(transport.conditions().values())


async def test_nothing_is_lost_and_no_key_out_of_order_while_leaders_move(own: YouzanDouble, code: str) -> None:
    own.create_topic(code, partitions=4, replicas=2, ordered=True)
    async with _through(own, code) as flow:
        for partition in (0, 1, 2, 3, 0, 1):
            own.move_leader(code, partition, 3 - own.leader(code, partition))
            await flow.flows()


async def test_nothing_is_lost_and_no_key_out_of_order_while_partitions_come_and_go(
    own: YouzanDouble, code: str
) -> None:
    own.create_topic(code, partitions=4, replicas=2, ordered=True)
    async with _through(own, code) as flow:
        for partition in range(4):
            own.set_writable(code, partition, writable=False)
            await flow.felt()
            own.lose(code, 3 - partition)
            await flow.felt()
            own.set_writable(code, partition, writable=True)
            own.find(code, 3 - partition)
            await flow.flows()


async def test_nothing_is_lost_and_no_key_out_of_order_while_nsqds_and_nsqlookupds_die(
    own: YouzanDouble, code: str
) -> None:
    own.create_topic(code, partitions=4, replicas=2, ordered=True)
    async with _through(own, code) as flow:
        for number in (1, 2):
            own.kill_nsqd(number)
            own.set_lookupd(number, running=False)
            await flow.felt()
            own.restart_nsqd(number)
            await flow.flows()
            own.set_lookupd(number, running=True)
            own.set_lookupd(number, fault="half")
            await flow.flows()
            own.set_lookupd(number, fault=None)


async def test_lost_answers_bring_duplicates_and_nothing_out_of_order(own: YouzanDouble, code: str) -> None:
    own.create_topic(code, partitions=2, replicas=2, ordered=True)
    async with _through(own, code) as flow:
        for partition in (0, 1, 0, 1):
            own.lose_answers(code, partition, 1)
            await flow.flows()
    written = sum(one["messages"] for one in own.partitions(code))
    assert flow.published < written <= flow.published + 4 * BATCH
    assert len(flow.all) >= written
    assert out_of_order(flow.all) == []


async def test_a_topic_and_a_destination_that_differ_in_their_order_are_told_of(
    shared: YouzanDouble, code: str
) -> None:
    shared.create_topic(f"{code}-free", partitions=2)
    shared.create_topic(f"{code}-strict", partitions=2, ordered=True)
    async with opened(config(shared)) as transport:
        await transport.ensure(*wanted(f"{code}-free", ordering=KEPT))
        await transport.ensure(*wanted(f"{code}-strict"))
        for name in ("free", "strict"):
            consumer = await transport.consume(f"{code}-{name}", "billing")
            await publish(transport, outgoing(f"{code}-{name}", range(20)))
            assert out_of_order(await first_deliveries(consumer, range(20))) == []
        said = {name: str(text) for name, text in transport.conditions().items()}
        assert "its topic was made without" in said[f"nsq order of {code}-free"]
        assert "set the destination's ordering to key" in said[f"nsq order of {code}-strict"]
        await transport.ensure(*wanted(f"{code}-strict", ordering=KEPT))
        assert f"nsq order of {code}-strict" not in transport.conditions()


@pytest.mark.parametrize(("demand", "refusal"), [("ordered", "E_SUB_ORDER_IS_MUST"), ("extended", "E_SUB_EXTEND_NEED")])
async def test_who_only_consumes_learns_from_the_refusal_what_a_topic_demands(
    shared: YouzanDouble, code: str, demand: str, refusal: str
) -> None:
    """Lookups for reading have no metadata, which tells of it."""
    shared.create_topic(code, partitions=2, **{demand: True})
    shared.create_channel(code, "billing")
    async with opened(config(shared)) as producing, opened(config(shared, lookup_interval=600.0)) as consuming:
        await producing.ensure(*wanted(code))
        before = [shared.counters(nsqd).get(refusal, 0) for nsqd in shared.nsqds]
        consumer = await consuming.consume(code, "billing")
        await publish(producing, outgoing(code, range(20)))
        async with asyncio.timeout(10.0):
            assert out_of_order(await first_deliveries(consumer, range(20))) == []
        assert [shared.counters(nsqd).get(refusal, 0) for nsqd in shared.nsqds] > before
        await until(lambda: not any(consuming.conditions().values()), what="nothing is wrong any more")


async def test_what_an_ordered_partition_sends_again_is_counted(shared: YouzanDouble, code: str) -> None:
    async with opened(config(shared, partitions=1)) as transport:
        await transport.ensure(*wanted(code, ordering=KEPT))
        await publish(transport, outgoing(code, range(3)))
        first = await transport.consume(code, "billing")
        await first.receive(1)
        await first.close()
        second = await transport.consume(code, "billing")
        again = await second.receive(1)
        assert [(item.message.biz_id, item.suspect) for item in again] == [("order-0", True)]
        assert REGISTRY.get_sample_value("bus_ordered_redeliveries_total", COUNTED | {"destination": code}) == 1


async def test_an_order_needs_a_cluster_with_partitions(shared: YouzanDouble, code: str) -> None:
    destination = Destination(code=code, transport="nsq", ordering=KEPT)
    check_order(None, destination, [])
    async with opened(NsqConfig()) as transport:
        with pytest.raises(InvalidDestination) as refusal:
            transport.check(destination)
        assert (refusal.value.field, "only in partitions" in str(refusal.value)) == ("ordering", True)
        with pytest.raises(TransportRefused):
            await transport.ensure(*wanted(code, ordering=KEPT))
        assert await transport.publish(outgoing(code, range(2))) == [False, False]
    async with opened(config(shared)) as transport:
        await until(lambda: _allows(transport, destination), what="the cluster is known")


def _allows(transport: NsqTransport, destination: Destination) -> bool:
    try:
        transport.check(destination)
    except InvalidDestination:
        return False
    return True


class _Flow:
    """Messages of many keys that are published and consumed until the flow is ended."""

    def __init__(self, transport: NsqTransport, code: str, consumer: Consumer) -> None:
        self._transport = transport
        self._code = code
        self._consumer = consumer
        self._goes_on = True
        self.published = 0
        self.all: list[tuple[str, int]] = []
        self.first: dict[int, str] = {}

    async def produce(self) -> None:
        while self._goes_on:
            await publish(self._transport, outgoing(self._code, range(self.published, self.published + BATCH)))
            self.published += BATCH

    async def consume(self) -> None:
        while True:
            items = await self._consumer.receive(100)
            for item in items:
                number = int(item.message.biz_id.removeprefix("order-"))
                self.all.append((item.message.key, number))
                self.first.setdefault(number, item.message.key)
            self._consumer.ack(items)

    async def felt(self) -> None:
        """Return when messages went all the way, or when publishing is held up."""
        published, first = self.published, len(self.first)
        await until(
            lambda: (self.published > published and len(self.first) > first) or self._is_held_up(), what="it is felt"
        )

    async def flows(self) -> None:
        """Return when messages of all keys were published and delivered."""
        aim = self.published + 3 * BATCH
        await until(lambda: self.published >= aim and len(self.first) >= aim, what="messages flow", state=self.state)

    def state(self) -> str:
        return f"published {self.published}, delivered {len(self.first)}, {self._transport.conditions()}"

    async def end(self, producing: asyncio.Task[None]) -> None:
        """Publish no more, and return when all of it was delivered."""
        self._goes_on = False
        await producing
        await until(lambda: len(self.first) == self.published, what="nothing is lost", state=self.state)

    def _is_held_up(self) -> bool:
        conditions = self._transport.conditions()
        return any(text for name, text in conditions.items() if name.startswith("nsq partitions"))


@asynccontextmanager
async def _through(double: YouzanDouble, code: str) -> AsyncIterator[_Flow]:
    """Have many keys flow while the caller's steps happen; nothing is lost and no key comes out of order."""
    async with opened(config(double, lookupds=(1, 2))) as transport, asyncio.timeout(PATIENCE):
        await transport.ensure(*wanted(code, ordering=KEPT))
        flow = _Flow(transport, code, await transport.consume(code, "billing"))
        async with asyncio.TaskGroup() as group:
            producing = group.create_task(flow.produce())
            consuming = group.create_task(flow.consume())
            await flow.flows()
            yield flow
            await flow.end(producing)
            consuming.cancel()
        assert out_of_order((key, number) for number, key in flow.first.items()) == []
