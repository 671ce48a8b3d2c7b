"""Readers of a group come, go and are cut off, and the order stays."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator
from pathlib import Path

import aio_pika
import pytest

from bus.ports.broker_group import GroupStatus
from bus.testing.contracts.broker_group import eventually, nothing_comes
from bus.transports.rabbitmq.strict.intake import PREFETCH
from tests.harness.process import Child, module
from tests.harness.waiting import until
from tests.integration.rabbitmq.group_world import (
    WHOLE,
    WHOLE_AND_EMPTY,
    GroupWorld,
    group_world,
    ids,
    read,
    read_all,
)
from tests.integration.rabbitmq.rabbitmq_world import receive, somebody_else
from tests.servers.rabbitmq_cluster import RabbitmqCluster
from tests.servers.rabbitmq_fixtures import cluster as shared

HOLDER = "tests.integration.rabbitmq.group_holder"


@pytest.fixture
def cluster() -> Iterator[RabbitmqCluster]:
    found = shared("a").start()
    yield found
    found.start()


async def cut(found: GroupWorld) -> None:
    """Close all connections of all nodes, and wait until the group has new ones."""
    for node in found.cluster.nodes:
        await asyncio.to_thread(node.cut)
    await until(lambda: not found.group.condition(), what="all nodes answer")


@pytest.mark.parametrize("how", [signal.SIGKILL, pytest.param(signal.SIGSTOP, marks=pytest.mark.proof)])
async def test_a_reader_whose_process_is_gone_is_replaced(
    cluster: RabbitmqCluster, tmp_path: Path, how: signal.Signals
) -> None:
    async with group_world(cluster) as found:
        await found.ensure()
        # More than one reader has at a time, so that what comes after what it had is to be seen.
        sent = found.messages(2 * PREFETCH)
        assert await (await found.writer()).write(sent) == len(sent)
        with Child(module(HOLDER, cluster.url, found.code, 10, 4), log=tmp_path / "holder.log") as holder:
            held = await asyncio.to_thread(holder.ready_line)
            assert held == {"held": ids(sent[:10])}
            reader = await found.reader()
            holder.signal(how)
            came = await read_all(found, reader)
        # Its last acks may not have arrived.
        assert came in ([*ids(sent[n:])] for n in range(5))


async def test_the_next_reader_passes_nothing_by(cluster: RabbitmqCluster) -> None:
    async with group_world(cluster) as found:
        await found.ensure()
        sent = found.messages(3 * PREFETCH)
        assert await (await found.writer()).write(sent) == len(sent)
        at = 0
        reader = await found.reader()
        for _ in range(3):
            assert await read(reader, 5) == ids(sent[at : at + 5])
            at += 5
            await receive(reader, 7)
            following = await found.reader()
            assert await nothing_comes(following)
            await reader.close()
            reader = following
        assert await read(reader, len(sent) - at) == ids(sent[at:])
        await eventually(reader.is_drained)


async def test_a_reader_that_is_cut_off_goes_on_in_order(cluster: RabbitmqCluster) -> None:
    async with group_world(cluster) as found:
        await found.ensure()
        sent = found.messages(2 * PREFETCH)
        assert await (await found.writer()).write(sent) == len(sent)
        reader = await found.reader()
        held = await receive(reader, 10)
        await cut(found)
        reader.ack(held[:3])
        reader.release(held[3:])
        came = await read_all(found, reader)
        # What was acked while nothing was connected has no effect, or counted for its repetition.
        assert came[-len(sent) + 10 :] == ids(sent[10:])
        assert came == ids(sent[len(sent) - len(came) :])


async def test_a_reader_tells_others_whether_it_is_drained(cluster: RabbitmqCluster) -> None:
    async with group_world(cluster) as found, group_world(cluster, code=found.code) as other:
        await found.ensure()
        reader = await found.reader()
        await other.stands(WHOLE_AND_EMPTY)
        assert await (await found.writer()).write(found.messages(2)) == 2
        held = await receive(reader, 2)
        assert await other.standing() == WHOLE
        reader.ack(held)
        await other.stands(WHOLE_AND_EMPTY)


async def test_a_reader_that_waits_is_not_drained(cluster: RabbitmqCluster) -> None:
    async with group_world(cluster) as found:
        await found.ensure()
        first = await found.reader()
        await eventually(first.is_drained)
        second = await found.reader()
        assert await nothing_comes(second)
        assert not await second.is_drained()
        await first.close()
        # The marks that it put there in vain come to nobody.
        await eventually(second.is_drained)


async def test_what_waits_for_nobody_is_not_empty(cluster: RabbitmqCluster) -> None:
    async with group_world(cluster) as found:
        await found.ensure()
        sent = found.messages(3)
        assert await (await found.writer()).write(sent) == 3
        for _ in range(3):
            assert await found.standing() == GroupStatus(is_whole=True, is_empty=False)
        assert await read(await found.reader(), 3) == ids(sent)


async def test_what_is_not_ours_is_set_aside(cluster: RabbitmqCluster) -> None:
    async with group_world(cluster) as found, somebody_else(cluster.nodes[0].url) as other:
        await found.ensure()
        found.quarantine.is_full = True
        await other.default_exchange.publish(aio_pika.Message(b"foreign"), found.queue)
        sent = found.messages(1)
        assert await (await found.writer()).write(sent) == 1
        reader = await found.reader()
        assert await read(reader, 1) == ids(sent)
        assert not await reader.is_drained()
        found.quarantine.is_full = False
        await eventually(reader.is_drained)
        assert [kept.payload for kept in found.quarantine.kept] == [b"foreign"]
