"""Several proxies move topics together: none is ahead of the others, and each goes on without the store."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from bus.domain.routing.steps import Step
from bus.ports.store import Document
from tests.unit.lookup.migration_world import Proxy, World, topic, turn, until


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def at(proxy: Proxy, step: Step) -> bool:
    return proxy.migrations.latest()[0].step is step


async def test_each_step_is_in_force_in_all_before_the_next_is_taken(world: World) -> None:
    one, two = world.proxy("p1"), world.proxy("p2")
    await turn(one, two)
    await one.start()
    await until(lambda: at(one, Step.PRODUCERS_STOPPED), one, two)
    await one.migrator.follow()
    assert one.route == ((), ("a",))
    assert two.route == (("a",), ("a",))
    for _ in range(60):  # the second one does not follow
        await turn(one)
    assert at(one, Step.PRODUCERS_STOPPED)
    assert (await one.call("GET", "/migrations/orders-1")).json()["waits"] == [
        "the proxy node-p2 (p2) has not said that it answers so"
    ]
    await turn(one, two)
    began = world.clock.monotonic()
    await until(lambda: at(two, Step.DRAINING_SOURCE), one, two)
    assert world.clock.monotonic() - began > 10.0
    await until(lambda: at(one, Step.DONE), one, two)
    await turn(one, two)
    assert one.route == two.route == (("b",), ("b",))
    assert [(taken.step, taken.by) for taken in one.migrations.latest()[0].history][1:] == [
        (Step.PRODUCERS_STOPPED, ""),
        (Step.DRAINING_SOURCE, ""),
        (Step.DONE, ""),
    ]


async def test_one_that_is_cut_off_from_the_store_blocks_until_it_is_gone(world: World) -> None:
    one, two = world.proxy("p1"), world.proxy("p2")
    await turn(one, two)
    await one.start()
    two.documents.is_away = True
    for _ in range(30):
        await turn(one)
        await two.migrator.follow()
    assert at(one, Step.PREPARE)
    assert two.route == (("a",), ("a",))
    world.members = [one.member]
    await until(lambda: at(one, Step.DONE), one)


async def test_one_that_started_again_has_to_say_so_again(world: World) -> None:
    one, two = world.proxy("p1"), world.proxy("p2")
    await turn(one, two)
    await one.start()
    await until(lambda: at(one, Step.PRODUCERS_STOPPED), one, two)
    await turn(one, two)
    await world.clock.advance(0.001)
    again = world.proxy("p2")
    for _ in range(30):
        await turn(one)
    assert at(one, Step.PRODUCERS_STOPPED)
    await until(lambda: at(one, Step.DRAINING_SOURCE), one, again)


async def test_without_the_store_routes_stay_also_after_a_restart(world: World) -> None:
    one = world.proxy()
    await turn(one)
    await one.start()
    await until(lambda: at(one, Step.PRODUCERS_STOPPED), one)
    await turn(one)
    one.documents.is_away = True
    for _ in range(30):
        await one.migrator.begin()
        await one.migrator.move()
        await world.clock.advance(1)
    assert one.route == ((), ("a",))
    again = world.proxy(is_away=True)
    assert again.route == ((), ("a",))
    await again.migrator.begin()
    assert again.route == ((), ("a",))
    again.documents.is_away = False
    await until(lambda: at(again, Step.DONE), again)


async def test_a_proxy_whose_file_has_another_route_blocks_the_beginning(world: World) -> None:
    one, two = world.proxy("p1"), world.proxy("p2", produce="c")
    await turn(one, two)
    await one.start()
    for _ in range(10):
        await turn(one, two)
    assert at(one, Step.PREPARE)
    waits = (await one.call("GET", "/migrations/orders-1")).json()["waits"]
    assert waits == ["the proxy node-p2 (p2) has another route for it in its file"]


async def test_the_last_route_stays_until_all_files_give_it(world: World) -> None:
    one, two = world.proxy("p1"), world.proxy("p2")
    await turn(one, two)
    await one.start()
    await until(lambda: at(one, Step.DONE), one, two)
    for proxy in (one, two):
        assert not proxy.migrations.latest()[0].is_settled
        proxy.write("b")
        await proxy.routing._follow()
        await turn(one, two)
    await until(lambda: two.migrations.latest()[0].is_settled, one, two)
    for proxy in (one, two):
        proxy.write("c")
        await proxy.routing._follow()
    await turn(one, two)
    assert one.route == two.route == (("c",), ("c",))


async def test_a_topic_moves_on_from_where_it_was_moved_to(world: World) -> None:
    one = world.proxy()
    await turn(one)
    await one.start()
    await until(lambda: at(one, Step.DONE), one)
    await turn(one)
    back = await one.start(to="a")
    assert (back["id"], back["from"]) == ("orders-2", "b")
    await until(lambda: at(one, Step.DONE), one)
    await turn(one)
    assert one.route == (("a",), ("a",))


async def test_what_the_target_lacks_is_made_and_a_refusal_is_told(world: World) -> None:
    world.sights["b"] = topic("b")
    world.refusal = "b refuses: no"
    one = world.proxy()
    await turn(one)
    await one.start()
    for _ in range(3):
        await turn(one)
    shown = (await one.call("GET", "/migrations/orders-1")).json()
    assert (shown["step"], shown["trouble"]) == ("prepare", "b refuses: no")
    assert "b lacks channels: billing" in shown["waits"]
    world.refusal = ""
    await until(lambda: at(one, Step.PRODUCERS_STOPPED), one)
    assert world.made[-1][0] == "b"
    world.sights["a"] = topic("a", "billing", "audit")  # somebody subscribes meanwhile
    await until(lambda: "audit" in world.sights["b"].channels, one)


async def test_no_step_is_taken_of_one_that_is_paused(world: World) -> None:
    one = world.proxy()
    await turn(one)
    await one.start()
    assert (await one.call("POST", "/migrations/orders-1/pause", {})).json()["paused"]
    for _ in range(30):
        await turn(one)
    assert at(one, Step.PREPARE)
    assert not (await one.call("POST", "/migrations/orders-1/resume")).json()["paused"]
    await until(lambda: at(one, Step.DONE), one)


async def test_what_another_version_wrote_has_no_effect(world: World) -> None:
    await world.store.put("lookup_migrations", "orders-1", b"{}")
    one = world.proxy()
    await turn(one)
    assert one.migrations.all == []
    assert one.route == (("a",), ("a",))


async def test_the_nsqds_of_stock_clusters_are_remembered(world: World) -> None:
    for name in "ab":
        world.sights[name] = msgspec.structs.replace(topic(name, "billing"), meta=None, partitions=0)
    one = world.proxy()
    await turn(one)
    await one.start(kind="unordered")
    await until(lambda: at(one, Step.CONSUMERS_ON_BOTH), one)
    assert dict(one.migrations.latest()[0].nodes) == {"a": ("a:1/0", "a:1/1"), "b": ("b:1/0", "b:1/1")}


async def test_a_store_that_was_wiped_gets_the_migrations_back(world: World) -> None:
    one = world.proxy()
    await turn(one)
    await one.start()
    await until(lambda: at(one, Step.PRODUCERS_STOPPED), one)
    await turn(one)
    for collection in ("lookup_migrations", "lookup_confirmed"):
        found: list[Document] = await world.store.list(collection)
        for document in found:
            await world.store.delete(collection, document.key)
    await until(lambda: at(one, Step.DONE), one)
