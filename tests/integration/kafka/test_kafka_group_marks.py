"""A topic whose brokers lost their disks is distinguished from one that is empty, or whose brokers are down."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Iterator

import pytest

from bus.transports.kafka.strict import KafkaGroup
from tests.integration.kafka.kafka_group_world import (
    DESTINATION,
    NAME,
    ensure,
    eventually,
    opened_writer,
    run,
    stands_whole,
)
from tests.servers import need
from tests.servers.kafka_cluster import KafkaCluster
from tests.servers.kafka_cluster_fixtures import opened_group, settings

pytestmark = pytest.mark.timeout(180)


@pytest.fixture(scope="module")
def apart(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    """Run brokers that these tests alone have, since they lose what they hold."""
    with KafkaCluster(need("kafka"), tmp_path_factory.mktemp("marks")) as cluster:
        yield cluster


@pytest.fixture
async def group(apart: KafkaCluster) -> AsyncIterator[KafkaGroup]:
    async with opened_group(settings(apart)) as group:
        await ensure(group, NAME)
        await stands_whole(group)
        yield group


async def written(group: KafkaGroup) -> str:
    """Write something; return the mark that the topic has then."""
    writer = await opened_writer(group)
    assert await writer.write(run(0, 3)) == 3
    await writer.close()
    mark = await group.mark(DESTINATION)
    assert await group.has_mark(DESTINATION, mark) is True
    return mark


async def told(group: KafkaGroup, mark: str) -> bool:
    """Return what is said of a mark first, once the group can say anything."""
    said: list[bool | None] = []

    async def says() -> bool:
        said.append(await group.has_mark(DESTINATION, mark))
        return said[-1] is not None

    await eventually(says)
    return bool(said[-1])


def harm(cluster: KafkaCluster, nodes: Collection[int], *, controller: bool = False) -> None:
    """SIGKILL all, and have some begin with empty disks."""
    for node in (cluster.controller, *cluster.copies):
        node.kill()
    for node in cluster.copies:
        if node.node_id in nodes:
            node.erase()
    if controller:
        cluster.controller.erase()


async def test_brokers_that_were_killed_have_lost_nothing(apart: KafkaCluster, group: KafkaGroup) -> None:
    mark = await written(group)
    harm(apart, ())
    assert await group.has_mark(DESTINATION, mark) is None
    await asyncio.to_thread(apart.start)
    assert await told(group, mark)


@pytest.mark.parametrize("controller", [True, pytest.param(False, marks=pytest.mark.proof)])
async def test_disks_that_are_lost_are_told(apart: KafkaCluster, group: KafkaGroup, *, controller: bool) -> None:
    mark = await written(group)
    harm(apart, (1, 2), controller=controller)
    await asyncio.to_thread(apart.start)
    assert not await told(group, mark)
    await stands_whole(group)
    assert await group.has_mark(DESTINATION, await written(group)) is True


async def test_what_was_confirmed_since_the_mark_is_told_too(apart: KafkaCluster, group: KafkaGroup) -> None:
    mark = await group.mark(DESTINATION)
    writer = await opened_writer(group)
    assert await writer.write(run(0, 3)) == 3
    await writer.close()
    harm(apart, (1, 2))
    await asyncio.to_thread(apart.start)
    await stands_whole(group)
    assert not await told(group, mark)
    assert await told(group, await group.mark(DESTINATION))


async def test_a_broker_that_is_away_may_have_it(apart: KafkaCluster, group: KafkaGroup) -> None:
    mark = await written(group)
    harm(apart, (1,))
    for node in (apart.controller, apart.brokers[1]):
        await asyncio.to_thread(node.start)

    async def one_answers() -> bool:
        assert await group.has_mark(DESTINATION, mark) is None
        return "1 of 2 brokers" in str(group.condition())

    await eventually(one_answers)
    assert await group.has_mark(DESTINATION, mark) is None
