"""A group whose nodes lost their disks is distinguished from one that is empty, or whose nodes are down."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from bus.testing.contracts.broker_group import eventually
from tests.integration.rabbitmq.group_world import WHOLE_AND_EMPTY, GroupWorld, group_world
from tests.servers import need
from tests.servers.rabbitmq_cluster import RabbitmqCluster

pytestmark = pytest.mark.timeout(240)


@pytest.fixture(scope="module")
def apart(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RabbitmqCluster]:
    """Run nodes that these tests alone have, since they lose what they hold."""
    home, data = need("rabbitmq"), need("rabbitmq_cluster")
    with RabbitmqCluster(home, tmp_path_factory.mktemp("marks"), data) as cluster:
        yield cluster


async def written(found: GroupWorld) -> str:
    """Write something; return the mark of the group's data."""
    await found.ensure()
    writer = await found.writer()
    assert await writer.write(found.messages(3)) == 3
    await writer.close()
    mark = await found.group.mark(found.code)
    assert await found.group.has_mark(found.code, mark) is True
    assert await found.group.mark(found.code, mark) == mark
    return mark


def allow(cluster: RabbitmqCluster, made: str) -> None:
    """Permit the user to make what is named so."""
    who = f'<<"guest">>, <<"/">>, <<"{made}">>, <<".*">>, <<".*">>, <<"tests">>'
    cluster.nodes[0].eval(f"rabbit_auth_backend_internal:set_permissions({who})")


async def told(found: GroupWorld, mark: str) -> bool:
    """Return what is said of a mark once the group can say anything."""

    async def says() -> bool:
        return await found.group.has_mark(found.code, mark) is not None

    await eventually(says)
    return bool(await found.group.has_mark(found.code, mark))


async def test_a_mark_is_found_as_long_as_one_node_has_its_disk(apart: RabbitmqCluster) -> None:
    async with group_world(apart) as found:
        mark = await written(found)
        await found.remembered()
        for node in apart.nodes:
            node.kill()
        assert await found.group.has_mark(found.code, mark) is None
        await asyncio.to_thread(apart.start)
        assert await told(found, mark)
        apart.nodes[0].kill()
        assert await told(found, mark)
        await asyncio.to_thread(apart.start)


async def test_definitions_that_are_exported_lack_the_mark(apart: RabbitmqCluster) -> None:
    async with group_world(apart) as found:
        await written(found)
        exported = 'io_lib:format("~0p", [maps:get(exchanges, rabbit_definitions:all_definitions())])'
        apart.nodes[0].eval(f'{{match, _}} = re:run({exported}, "pier-strict"), ok')
        apart.nodes[0].eval(f'nomatch = re:run({exported}, "pier-strict-mark"), ok')


async def test_a_mark_that_is_refused_is_told(apart: RabbitmqCluster) -> None:
    async with group_world(apart) as found:
        await found.ensure()
        allow(apart, "^$")
        assert await found.group.mark(found.code) == ""
        assert "pier-strict-mark" in str(found.group.condition())
        allow(apart, ".*")
        assert await found.group.mark(found.code)
        assert not found.group.condition()


async def test_disks_that_are_lost_are_told(apart: RabbitmqCluster) -> None:
    async with group_world(apart) as found:
        mark = await written(found)
        for node in apart.nodes:
            node.erase()
        await asyncio.to_thread(apart.start)
        assert not await told(found, mark)
        await found.ensure()
        await found.stands(WHOLE_AND_EMPTY)
        assert await found.group.has_mark(found.code, await written(found)) is True
        assert await found.group.has_mark(found.code, mark) is False
