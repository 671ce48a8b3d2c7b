"""Copies of a group are killed, paused and stopped: what it says then, what it takes, and what can be read."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from bus.errors import TransportUnavailable
from bus.ports.broker_group import AWAY
from bus.testing.contracts.broker_group import eventually
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
from tests.servers.rabbitmq import RabbitmqServer
from tests.servers.rabbitmq_cluster import RabbitmqCluster
from tests.servers.rabbitmq_fixtures import cluster as shared


@pytest.fixture
def cluster() -> Iterator[RabbitmqCluster]:
    found = shared("a").start()
    yield found
    found.start()


async def missed(found: GroupWorld) -> None:
    """Wait until the group misses a node."""
    await until(found.group.condition, what="a node is missed")


async def nodes_of(found: GroupWorld, *, leader: bool) -> RabbitmqServer:
    """Return the node that leads the queue, or one that does not."""
    leading = await found.leader()
    return leading if leader else next(node for node in found.cluster.nodes if node is not leading)


@pytest.mark.parametrize("leader", [True, pytest.param(False, marks=pytest.mark.proof)], ids=["leader", "follower"])
async def test_with_a_node_killed_it_takes_nothing_and_drains(cluster: RabbitmqCluster, leader: bool) -> None:
    async with group_world(cluster) as found:
        await found.ensure()
        writer, sent = await found.writer(), found.messages(20)
        assert await writer.write(sent) == 20
        assert await found.standing() == WHOLE
        await found.remembered()
        (await nodes_of(found, leader=leader)).kill()
        await missed(found)
        assert await writer.write(found.messages(1)) == 0
        with pytest.raises(TransportUnavailable):
            await found.group.writer(found.code)
        assert await found.standing() == AWAY
        reader = await found.reader()
        assert await read(reader, 20) == ids(sent)
        await eventually(reader.is_drained)
        assert await found.standing() == AWAY
        await asyncio.to_thread(cluster.start)
        await found.stands(WHOLE_AND_EMPTY)
        more = found.messages(2)
        assert await (await found.writer()).write(more) == 2
        assert await read(reader, 2) == ids(more)


async def test_with_two_killed_it_blocks_until_one_is_back(cluster: RabbitmqCluster) -> None:
    async with group_world(cluster) as found:
        await found.ensure()
        writer, sent = await found.writer(), found.messages(10)
        assert await writer.write(sent) == 10
        reader = await found.reader()
        assert await read(reader, 4) == ids(sent[:4])
        await found.remembered()
        for node in cluster.nodes[1:]:
            node.kill()
        await missed(found)
        assert await writer.write(found.messages(1)) == 0
        assert not await reader.is_drained()
        assert await found.standing() == AWAY
        await asyncio.to_thread(cluster.nodes[1].start)
        assert (await read_all(found, reader))[-6:] == ids(sent[4:])
        assert await found.standing() == AWAY


async def test_what_was_confirmed_comes_in_order_after_all_were_killed(cluster: RabbitmqCluster) -> None:
    async with group_world(cluster) as found:
        await found.ensure()
        writer, sent = await found.writer(), found.messages(10)
        assert await writer.write(sent) == 10
        await found.remembered()
        # One more is under way as they go: it may be held or not.
        writing = asyncio.create_task(writer.write(found.messages(1)))
        await asyncio.sleep(0)
        for node in cluster.nodes:
            node.kill()
        assert await writing in (0, 1)
        assert await found.standing() == AWAY
        await asyncio.to_thread(cluster.start)
        await found.stands(WHOLE)
        more = found.messages(3)
        assert await (await found.writer()).write(more) == 3
        came = await read_all(found, await found.reader())
        assert came in (ids([*sent, *more]), [*ids(sent), "10", *ids(more)])


@pytest.mark.parametrize("leader", [pytest.param(True, marks=pytest.mark.proof), False], ids=["leader", "follower"])
async def test_a_paused_node_is_missed_too(cluster: RabbitmqCluster, leader: bool) -> None:
    async with group_world(cluster) as found:
        await found.ensure()
        writer, sent = await found.writer(), found.messages(3)
        assert await writer.write(sent) == 3
        (await nodes_of(found, leader=leader)).pause()
        assert await found.standing() == AWAY
        await missed(found)
        assert await writer.write(found.messages(1)) == 0
        reader = await found.reader()
        assert await read(reader, 3) == ids(sent)
        await eventually(reader.is_drained)
        assert await found.standing() == AWAY
        await asyncio.to_thread(cluster.start)
        await found.stands(WHOLE_AND_EMPTY)


async def test_a_copy_that_stands_still_on_a_node_that_answers_is_not_whole(cluster: RabbitmqCluster) -> None:
    async with group_world(cluster) as found:
        await found.ensure()
        await found.stands(WHOLE_AND_EMPTY)
        member = f"{{'%2F_{found.queue}', node()}}"
        node = await nodes_of(found, leader=False)
        await asyncio.to_thread(node.eval, f"ra:stop_server(quorum_queues, {member})")
        assert await found.standing() == AWAY
        await asyncio.to_thread(node.eval, f"ra:restart_server(quorum_queues, {member})")
        await found.stands(WHOLE_AND_EMPTY)
