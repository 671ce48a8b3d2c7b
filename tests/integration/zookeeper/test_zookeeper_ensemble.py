"""Three servers: what a majority has goes on without the leader, and is read from each of the others."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import AsyncExitStack

import pytest

from bus.coordinators.zookeeper import ZookeeperDocuments
from bus.errors import StoreUnavailable
from bus.ports.store import Document
from tests.harness.waiting import until
from tests.integration.zookeeper.counting import Counting, all_are_refused, all_go_on, insist
from tests.servers import need
from tests.servers.zookeeper import ZookeeperMember, ensemble
from tests.servers.zookeeper_fixtures import place_on


@pytest.fixture(scope="module")
def members(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[ZookeeperMember]]:
    """An ensemble; every test leaves all of it running."""
    with ensemble(need("zookeeper"), tmp_path_factory.mktemp("ensemble")) as made:
        yield made


def leader_of(members: list[ZookeeperMember]) -> ZookeeperMember:
    return next(member for member in members if member.mode() == "leader")


def all_of(members: list[ZookeeperMember]) -> str:
    return place_on(",".join(member.address for member in members))


async def test_each_member_gives_what_was_acknowledged_through_another(members: list[ZookeeperMember]) -> None:
    path = place_on("")
    async with AsyncExitStack() as opened:
        clients = [ZookeeperDocuments(member.address + path) for member in members]
        for client in clients:
            opened.push_async_callback(client.close)
        written = 0
        for number in range(150):
            written = await insist(lambda: clients[number % 3].put("c", "k", b"", version=written))  # noqa: B023
            assert await clients[(number + 1) % 3].get("c", "k") == Document("k", written, b"")
            assert await clients[(number + 2) % 3].list("c") == [Document("k", written, b"")]


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("fault", ["killed", "paused"])
async def test_what_a_majority_has_goes_on_without_the_leader(members: list[ZookeeperMember], fault: str) -> None:
    documents = ZookeeperDocuments(all_of(members))
    counting = [Counting(documents, f"k{number}") for number in range(3)]
    async with asyncio.TaskGroup() as tasks:
        for each in counting:
            tasks.create_task(each.run())
        await all_go_on(counting)
        leader = await asyncio.to_thread(leader_of, members)
        if fault == "killed":
            leader.kill()
            await all_go_on(counting)
            await asyncio.to_thread(leader.start)
        else:
            leader.pause()
            try:
                await all_go_on(counting)
            finally:
                leader.resume()
        await all_go_on(counting)
        for each in counting:
            each.over = True
    for each in counting:
        await each.check(documents)
    await documents.close()
    await until(lambda: all(member.answers() for member in members), what="all serve again")


@pytest.mark.usefixtures("quick")
async def test_a_leader_that_stood_still_gives_nothing_old(members: list[ZookeeperMember]) -> None:
    path = place_on("")
    leader = await asyncio.to_thread(leader_of, members)
    through_it = ZookeeperDocuments(leader.address + path)
    through_others = ZookeeperDocuments(",".join(each.address for each in members if each is not leader) + path)
    await insist(lambda: through_it.put("c", "k", b"old"))
    leader.pause()
    try:
        await insist(lambda: through_others.put("c", "k", b"new"))
        asking = [asyncio.create_task(insist(lambda: through_it.get("c", "k"))) for _ in range(5)]
        await asyncio.sleep(0)
    finally:
        leader.resume()
    for found in await asyncio.gather(*asking):
        assert found is not None
        assert found.value == b"new"
    await asyncio.gather(through_it.close(), through_others.close())
    await until(lambda: all(member.answers() for member in members), what="all serve again")


@pytest.mark.usefixtures("quick")
async def test_without_a_majority_nothing_is_acknowledged(members: list[ZookeeperMember]) -> None:
    documents = ZookeeperDocuments(all_of(members))
    counting = [Counting(documents, "k")]
    counted = asyncio.create_task(counting[0].run())
    await all_go_on(counting)

    def kill_most() -> None:
        for member in members[:2]:
            member.kill()

    await all_are_refused(counting, kill_most)
    await until(lambda: not members[2].answers(), what="the one that is left notices it")
    acknowledged = counting[0].acknowledged
    with pytest.raises(StoreUnavailable):
        await documents.get("c", "k")
    assert counting[0].acknowledged == acknowledged
    for member in members[:2]:
        await asyncio.to_thread(member.child.start)
    await all_go_on(counting)
    counting[0].over = True
    await counted
    await counting[0].check(documents)
    await documents.close()
    await until(lambda: all(member.answers() for member in members), what="all serve again")
