"""A wait until a time of a clock that was ahead is no longer than it was meant to be."""

from __future__ import annotations

import pytest

from bus.domain.times import DAY
from compensator.rewinding import ClockRewind
from tests.unit.compensator.compensator_world import World


@pytest.fixture
async def world() -> World:
    world = World()
    await world.destination()
    await world.subscription("billing")
    return world


async def test_a_retry_that_was_set_a_day_ahead_is_due_after_its_own_wait(world: World) -> None:
    world.clock.jump(DAY)
    at = world.clock.now()
    sent = await world.failed(1, at=at, due_at=at + 5_000)
    world.clock.jump(-DAY)
    rewinding = ClockRewind(world.store, world.members, world.clock)
    assert await rewinding.step() == 1
    await world.clock.advance(4)
    await world.compensator.step()
    assert world.dispatching.ids == []
    await world.clock.advance(2)
    await world.compensator.step()
    assert world.dispatching.ids == [sent.id]
    assert await rewinding.step() == 0


async def test_a_lease_of_a_process_that_is_gone_ends_though_the_clock_was_put_back(world: World) -> None:
    world.clock.jump(DAY)
    sent = await world.failed(1, at=world.clock.now(), due_at=world.clock.now())
    await world.compensator.step()
    assert world.dispatching.ids == [sent.id]
    world.clock.jump(-DAY)
    await ClockRewind(world.store, world.members, world.clock).step()
    await world.clock.advance(61)
    await world.compensator.step()
    assert world.dispatching.ids == [sent.id] * 2


async def test_clocks_of_two_processes_that_differ_by_a_little_change_nothing(world: World) -> None:
    at = world.clock.now() + 9_000
    await world.failed(1, at=at, due_at=at + 5_000)
    assert await ClockRewind(world.store, world.members, world.clock).step() == 0


async def test_what_another_compensator_sets_or_leases_whose_clock_is_ahead_is_left_to_it(world: World) -> None:
    other = await world.other("compensator", ahead=30_000)
    await world.failed(1, at=other.now(), due_at=other.now() + 5_000)
    rewinding = ClockRewind(world.store, world.members, world.clock)
    assert await rewinding.step() == 0
    other.ahead = 0
    await other.tell()
    assert await rewinding.step() == 1


async def test_what_a_dispatcher_sets_whose_clock_is_ahead_is_due_after_its_own_wait(world: World) -> None:
    """It does not take it again itself."""
    other = await world.other("dispatcher", ahead=DAY)
    await world.failed(1, at=other.now(), due_at=other.now() + 5_000)
    assert await ClockRewind(world.store, world.members, world.clock).step() == 1
    assert await world.store.next_due() == world.clock.now() + 5_000
