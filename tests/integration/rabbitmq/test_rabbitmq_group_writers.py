"""Confirmations by a writer of a group, and its end."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import suppress

import pytest
from msgspec.structs import replace

from bus.clock import SystemClock
from bus.domain.destination import Destination
from bus.errors import TransportRefused, TransportUnavailable
from bus.testing.quarantine import ForbiddenQuarantine
from bus.transports.rabbitmq import ClusterUrl, parse_cluster
from bus.transports.rabbitmq.strict import RabbitmqGroup
from tests.harness.waiting import until
from tests.integration.rabbitmq.group_world import QUICK, group_world, ids, read, read_all
from tests.integration.rabbitmq.rabbitmq_world import new_code, somebody_else
from tests.servers.rabbitmq_cluster import RabbitmqCluster
from tests.servers.rabbitmq_fixtures import cluster as shared
from tests.servers.rabbitmq_fixtures import local


@pytest.fixture
def cluster() -> Iterator[RabbitmqCluster]:
    found = shared("a").start()
    yield found
    found.start()


@pytest.mark.parametrize("turns", range(1, 8))
async def test_a_writer_that_is_cancelled_is_over(cluster: RabbitmqCluster, turns: int) -> None:
    async with group_world(cluster) as found:
        await found.ensure()
        writer, sent = await found.writer(), found.messages(20)
        writing = asyncio.create_task(writer.write(sent))
        for _ in range(turns):
            await asyncio.sleep(0)
        writing.cancel()
        with suppress(asyncio.CancelledError):
            await writing
        assert await writer.write(found.messages(1)) == 0
        more = found.messages(2)
        assert await (await found.writer()).write(more) == 2
        came = await read_all(found, await found.reader())
        assert came == ids(sent[: len(came) - 2]) + ids(more)


async def test_a_writer_that_is_cut_off_is_over(cluster: RabbitmqCluster) -> None:
    async with group_world(cluster) as found:
        await found.ensure()
        writer, sent = await found.writer(), found.messages(500)
        writing = asyncio.create_task(writer.write(sent))
        reader = await found.reader()
        came = await read(reader, 1)
        for node in cluster.nodes:
            await asyncio.to_thread(node.cut)
        confirmed = await writing
        more = found.messages(2)
        assert await (await found.writer()).write(more) == 2
        came = list(dict.fromkeys(came + await read_all(found, reader)))
        assert came in (ids(sent[:confirmed] + more), ids(sent[: confirmed + 1] + more))


async def test_what_no_pattern_takes_is_written_and_what_comes_back_is_not(cluster: RabbitmqCluster) -> None:
    async with group_world(cluster) as found, somebody_else(cluster.nodes[0].url) as other:
        await found.ensure(pattern="eu.#")
        writer = await found.writer()
        aside, taken, late = found.messages(3)
        aside, taken, late = (
            replace(one, routing_key=key) for one, key in ((aside, "us"), (taken, "eu.x"), (late, "eu"))
        )
        assert await writer.write([aside, taken]) == 2
        assert await read(await found.reader(), 1) == ids([taken])
        await other.queue_delete(found.queue)
        assert await writer.write([late]) == 0
        assert await writer.write([aside]) == 0


async def test_a_message_that_rabbitmq_cannot_name_is_not_written(cluster: RabbitmqCluster) -> None:
    async with group_world(cluster) as found:
        await found.ensure()
        assert (
            await (await found.writer()).write([replace(one, routing_key="ü" * 200) for one in found.messages(1)]) == 0
        )


async def test_other_than_three_nodes_are_refused(cluster: RabbitmqCluster) -> None:
    url = parse_cluster(cluster.url, "test")
    with pytest.raises(TransportRefused, match="2 nodes"):
        await ensured(url._replace(hosts=url.hosts[:2]))


async def test_nodes_of_two_clusters_are_no_group(cluster: RabbitmqCluster) -> None:
    url, other = parse_cluster(cluster.url, "test"), parse_cluster(local("primary").url, "test")
    with pytest.raises(TransportUnavailable, match="of two clusters"):
        await ensured(url._replace(hosts=(*url.hosts[:2], *other.hosts)))


async def test_nothing_is_made_while_a_node_is_away(cluster: RabbitmqCluster) -> None:
    cluster.nodes[2].kill()
    with pytest.raises(TransportUnavailable):
        await ensured(parse_cluster(cluster.url, "test"))


async def ensured(url: ClusterUrl) -> None:
    group = RabbitmqGroup("a", url, ForbiddenQuarantine(), SystemClock(), lambda: 0.5, QUICK)
    running = asyncio.create_task(group.run())
    try:
        await group.ensure(Destination(code=new_code()), [])
    finally:
        running.cancel()
        await asyncio.wait([running])
        await group.close()


async def test_a_writer_stays_over_when_the_node_is_back(cluster: RabbitmqCluster) -> None:
    async with group_world(cluster) as found:
        await found.ensure()
        writer = await found.writer()
        await found.remembered()
        cluster.nodes[2].kill()
        await until(found.group.condition, what="a node is missed")
        await asyncio.to_thread(cluster.start)
        await until(lambda: not found.group.condition(), what="all nodes answer")
        assert await writer.write(found.messages(1)) == 0
