"""Obstacles of a strictly ordered destination are shown wherever the bus shows faults, and are counted."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from bus.domain.ordering.chain import Role, Segment
from bus.domain.ordering.document import COLLECTION, decode_chain, encode_chain
from bus.errors import StoreUnavailable
from bus.serving.gauges import measured
from bus.telemetry.metrics import CHAIN_MOVES, CHAIN_ROLE, DEGRADED, WRITTEN_AGAIN
from bus.testing.cluster import over_groups
from bus.testing.writes import message
from bus.transports.chains.condition import CoordinatorWatch
from tests.unit.admin.admin_world import FickleStore, World
from tests.unit.admin.chain_shapes import shape, strict_world

PART = "strict order of orders"


@asynccontextmanager
async def at_work() -> AsyncIterator[World]:
    """Give a world in which this process sends and reads; what it does in the background waits for the clock."""
    world = await strict_world("g1", "g2", works_as=tuple(Role))
    working = asyncio.create_task(world.context.chains.run())
    try:
        yield world
    finally:
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)


async def told(world: World) -> str:
    """Return what is wrong; the API's health, the members' troubles and the alarms say the same."""
    said = str(world.introspection.own_conditions()[PART])
    async with world.client() as client:
        checks = {check["name"]: check for check in (await client.get("/health")).json()["checks"]}
        await world.clock.advance(1)
        alarms = [alarm["what"] for alarm in (await client.get("/overview")).json()["alarms"]]
    assert (checks[PART]["ok"], checks[PART]["detail"]) == (not said, said)
    assert any(alarm.startswith(f"{PART} is not well on node-1: {said}") for alarm in alarms) is bool(said)
    return said


async def changed(world: World, **changes: Any) -> None:
    """Have the coordinator's chain be another one, under the same leases."""
    found = await world.store.get(COLLECTION, "orders")
    assert found is not None
    chain = decode_chain(found.value)
    fields = {name: getattr(chain, name) for name in chain.__struct_fields__}
    await shape(world, encode_chain(type(chain)(**{**fields, **changes})))
    await world.clock.advance(1)


async def test_senders_that_wait_are_told() -> None:
    async with at_work() as world:
        assert await told(world) == ""
        for group in world.groups.values():
            group.set_copies(1)
        assert (await told(world)).startswith("no group of brokers takes messages to orders")
        world.groups["g2"].set_copies(3)
        assert await told(world) == ""


async def test_consumers_that_wait_are_told_with_what_to_do() -> None:
    async with at_work() as world:
        await changed(world, send=("g2",), consume=(Segment("g1", 5, ("mail",)), Segment("g2", 6)))
        assert await told(world) == ""
        world.groups["g1"].set_copies(1)
        said = await told(world)
        assert said.startswith("billing of orders wait for group g1, which does not answer; senders went on with g2; ")
        assert said.endswith("bus ordering abandon orders g1")


async def test_a_coordinator_that_does_not_answer_is_told() -> None:
    async with at_work() as world:
        world.store.down = True
        await world.clock.advance(1)
        assert "does not give the chain of orders" in str(world.introspection.own_conditions()[PART])
        world.store.down = False
        await world.clock.advance(1)
        assert await told(world) == ""


async def test_a_chain_of_another_version_is_told() -> None:
    async with at_work() as world:
        await shape(world, b'{"epoch":"later"}')
        await world.clock.advance(1)
        assert "another version of the bus wrote it" in await told(world)


async def test_a_process_that_only_looks_on_tells_nothing() -> None:
    world = await strict_world()
    for group in world.groups.values():
        group.set_copies(0)
    assert world.introspection.own_conditions()[PART] == ""


@pytest.mark.parametrize("is_apart", [True, False])
async def test_a_coordinator_apart_from_the_store_has_a_line_of_its_own(is_apart: bool) -> None:
    store, world = FickleStore(), World()
    chains = over_groups(store, world.clock, {}, is_apart=is_apart)
    assert ("coordinator" in chains.conditions()) is is_apart
    watch = CoordinatorWatch(store, world.clock)
    store.down = True
    await watch.look()
    assert str(watch.trouble) == str(StoreUnavailable("down"))
    store.down = False
    await watch.look()
    assert watch.trouble == ""


async def test_roles_moves_and_what_is_written_again_are_counted() -> None:
    async with at_work() as world:
        chains = world.context.chains
        moves, again = CHAIN_MOVES.labels("orders"), WRITTEN_AGAIN.labels("orders")
        before = moves._value.get(), again._value.get()
        assert len(await chains.send("orders", [message(1, destination="orders")])) == 1
        assert moves._value.get() == before[0] + 1
        world.groups["g1"].set_copies(2)
        assert len(await chains.send("orders", [message(2, destination="orders")])) == 1
        assert moves._value.get() == before[0] + 2
        assert await chains.send_again("orders", message(3, destination="orders"))
        assert again._value.get() == before[1] + 1
        for fill in await measured(world.context, world.introspection):
            fill()
        assert [CHAIN_ROLE.labels("orders", role.value)._value.get() for role in Role] == [1, 1]
        assert DEGRADED.labels(PART)._value.get() == 0
