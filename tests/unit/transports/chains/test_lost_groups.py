"""A group that comes back without what it had is told, and nothing is passed over in silence."""

from __future__ import annotations

import asyncio
from functools import partial

import msgspec
import pytest

from bus.domain.ordering.chain import abandoned
from bus.domain.ordering.document import COLLECTION, encode_chain
from bus.transports.chains.chains import Chains
from bus.transports.chains.consumer import ChainConsumer
from tests.unit.transports.chains.chains_world import CODE, ChainsWorld, bodies, passing, received, world_of


async def nothing_comes(world: ChainsWorld, consumer: ChainConsumer) -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(1.5):
            await passing(consumer.receive(1), world.clock)


async def decided(world: ChainsWorld, group: str) -> None:
    """Have a person abandon a group, beside the processes that write the chain."""
    found = await world.store.get(COLLECTION, CODE)
    assert found is not None
    wanted = encode_chain(abandoned(await world.chain(), group))
    await world.store.put(COLLECTION, CODE, wanted, version=found.version)


async def repaired(world: ChainsWorld, chains: Chains) -> None:
    """Have made again what groups lack."""
    assert chains.behind == {(CODE, "a")}
    await world.transports["one"]._repair()
    assert not chains.behind


def said(chains: Chains) -> str:
    return str(chains.conditions()[f"strict order of {CODE}"])


async def test_what_a_group_lost_stops_readers_until_a_person_decides() -> None:
    async with world_of() as world:
        chains = await world.begin("one")
        consumer = chains.consumer(CODE, "billing")
        first = await chains.send(CODE, world.messages(3))
        assert bodies(await received(consumer, world.clock, 1)) == [0]
        world.groups["a"].set_copies(0)
        await chains.send(CODE, world.messages(2))
        world.groups["a"].lose_disks()
        world.groups["a"].set_copies(3)
        await nothing_comes(world, consumer)
        lost, current = (await world.chain()).consume
        assert (lost.group, lost.is_lost, current.group, current.is_lost) == ("a", True, "b", False)
        assert "group a lost its disks: what it took of orders from 2026-" in said(chains)
        assert "billing had not read" in said(chains)
        await decided(world, "a")
        assert bodies(await received(consumer, world.clock, 2)) == [3, 4]
        assert said(chains) == ""
        (gap,) = (await world.chain()).gaps
        assert {gap.epoch <= epoch < gap.before for epoch in first} == {True}


async def test_a_loss_is_found_while_the_group_takes_messages_and_nobody_sends() -> None:
    async with world_of() as world:
        chains = await world.begin("one")
        await chains.send(CODE, world.messages(2))
        world.groups["a"].lose_disks()
        await world.clock.advance(12)
        assert [one.is_lost for one in (await world.chain()).consume] == [True]
        await repaired(world, chains)
        assert len(await chains.send(CODE, world.messages(1))) == 1
        assert [(one.group, one.is_lost) for one in (await world.chain()).consume] == [("a", True), ("b", False)]
        await world.clock.advance(12)
        assert (await world.chain()).send == ("b", "a"), "it may take messages again"
        consumer = chains.consumer(CODE, "billing")
        await nothing_comes(world, consumer)
        await decided(world, "a")
        assert bodies(await received(consumer, world.clock, 1)) == [2]


async def test_who_takes_over_finds_a_loss_before_it_writes() -> None:
    async with world_of() as world:
        first = await world.begin("one")
        await first.send(CODE, world.messages(2))
        await world.end("one")
        world.groups["a"].lose_disks()
        second = await world.begin("two")
        await world.clock.advance(8)
        assert len(await second.send(CODE, world.messages(1))) == 1
        assert [(one.group, one.is_lost) for one in (await world.chain()).consume] == [
            ("a", True),
            ("b", False),
        ], "what it lacks is made again first"


async def test_a_group_that_does_not_answer_has_lost_nothing() -> None:
    async with world_of() as world:
        chains = await world.begin("one")
        consumer = chains.consumer(CODE, "billing")
        await chains.send(CODE, world.messages(2))
        for copies in (0, 1):
            world.groups["a"].set_copies(copies)
            await chains.send(CODE, world.messages(1))
            await world.clock.advance(12)
        assert not any(one.is_lost for one in (await world.chain()).consume)
        world.groups["a"].set_copies(3)
        assert bodies(await received(consumer, world.clock, 2)) == [0, 1]


async def test_a_group_with_empty_disks_and_a_copy_away_may_still_have_it() -> None:
    async with world_of() as world:
        chains = await world.begin("one")
        consumer = chains.consumer(CODE, "billing")
        await chains.send(CODE, world.messages(2))
        world.groups["a"].set_copies(2)
        await chains.send(CODE, world.messages(1))
        world.groups["a"].lose_disks()
        await nothing_comes(world, consumer)
        assert not any(one.is_lost for one in (await world.chain()).consume)


async def test_a_group_that_an_earlier_version_wrote_to_is_taken_at_its_word() -> None:
    async with world_of() as world:
        chains = await world.begin("one")
        consumer = chains.consumer(CODE, "billing")
        await chains.send(CODE, world.messages(2))
        world.groups["a"].set_copies(2)
        await chains.send(CODE, world.messages(1))
        bare = msgspec.structs.replace(await world.chain(), marks={})
        await world.store.put(COLLECTION, CODE, encode_chain(bare))
        world.groups["a"].lose_disks()
        world.groups["a"].set_copies(3)
        assert bodies(await received(consumer, world.clock, 1)) == [2]


async def test_a_group_that_held_nothing_is_no_loss_and_takes_part_again() -> None:
    async with world_of() as world:
        chains = await world.begin("one")
        consumer = chains.consumer(CODE, "billing")
        take = partial(received, consumer, world.clock)
        await chains.send(CODE, world.messages(1))
        await take(1)
        world.groups["a"].set_copies(2)
        await chains.send(CODE, world.messages(1))
        await take(1)
        world.groups["a"].lose_disks()
        world.groups["a"].set_copies(3)
        await passing(world.clock.sleep(12), world.clock)
        assert (await world.chain()).send == ("b", "a")
        await repaired(world, chains)
        world.groups["b"].set_copies(2)
        await chains.send(CODE, world.messages(1))
        assert bodies(await take(1)) == [2]
        assert (await world.chain()).gaps == ()
