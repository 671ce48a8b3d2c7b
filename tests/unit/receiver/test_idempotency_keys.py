"""An Idempotency-Key stands for its first message for a day, whatever happens meanwhile."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace

from bus.domain.times import DAY, HOUR
from bus.errors import Conflict, SpoolFull, TransportUnavailable
from bus.http.draft import Draft
from bus.http.messages import AcceptedMessage
from bus.security.principals import ANYONE, Principal
from receiver.placement import Place
from tests.harness.gated_spool import GatedSpool, once
from tests.unit.receiver.receiver_world import World
from tests.unit.receiver.strict_world import receivers


@pytest.fixture
async def world() -> World:
    world = World()
    await world.destination("orders", "billing", "mail")
    return world


async def test_an_idempotency_key_stands_for_its_first_message(world: World) -> None:
    first = await world.send(b"1", idempotency_key="once")
    assert await world.send(b"1", idempotency_key="once") == AcceptedMessage(first.id, True)
    assert await world.send(b"1", id=world.id(), idempotency_key="once") == AcceptedMessage(first.id, True)
    with pytest.raises(Conflict, match=first.id):
        await world.send(b"2", idempotency_key="once")
    assert not (await world.send(b"1", idempotency_key="other")).duplicate
    assert len(world.stored) == 2
    assert world.stored[0].idempotency_key == "once"


async def test_an_idempotency_key_is_per_destination_and_key(world: World) -> None:
    await world.destination("mails")
    shop = Principal("1", "key shop", ("producer",), ())
    twin = Principal("2", "key shop", ("producer",), ())
    for principal in (ANYONE, shop, twin):
        for destination in ("orders", "mails"):
            draft = Draft(destination, b"1", idempotency_key="once")
            assert not (await world.ingest.accept_one(draft, principal)).duplicate
            assert (await world.ingest.accept_one(draft, principal)).duplicate
    assert len(world.stored) == 6


async def test_an_idempotency_key_holds_for_a_day_and_over_a_restart(world: World) -> None:
    first = await world.send(b"1", idempotency_key="once")
    for hours in (0, 12, 11.9):
        await world.clock.advance(hours * 3600)
        assert await world.send(b"1", idempotency_key="once") == AcceptedMessage(first.id, True)
        world.restart()
        assert await world.send(b"1", idempotency_key="once") == AcceptedMessage(first.id, True)
    await world.clock.advance(3600)
    second = await world.send(b"2", idempotency_key="once")
    assert not second.duplicate
    world.restart()
    assert await world.send(b"2", idempotency_key="once") == AcceptedMessage(second.id, True)


@pytest.mark.parametrize("name", ["id", "idempotency_key"])
async def test_what_an_earlier_life_accepted_is_known_before_the_store_has_it(world: World, name: str) -> None:
    world.store.down = True
    fields = {name: world.id()}
    first = await world.send(b"1", **fields)
    world.restart()
    await world.ingest.recover([(world.spool, "store")])
    assert await world.send(b"1", **fields) == AcceptedMessage(first.id, True)
    with pytest.raises(Conflict):
        await world.send(b"2", **fields)
    assert len(world.stored) == 1


async def test_a_twin_by_key_waits_until_the_first_is_durable(world: World) -> None:
    world.spool.gate.clear()
    first = asyncio.create_task(world.send(b"1", idempotency_key="once"))
    await world.clock.settle()
    same = asyncio.create_task(world.send(b"1", idempotency_key="once"))
    other = asyncio.create_task(world.send(b"2", idempotency_key="once"))
    await world.clock.settle()
    assert not same.done()
    assert not other.done()
    world.spool.gate.set()
    assert await same == AcceptedMessage((await first).id, True)
    with pytest.raises(Conflict):
        await other
    assert len(world.stored) == 1


async def test_a_twin_by_key_of_one_that_failed_is_stored_itself(world: World) -> None:
    world.spool.gate.clear()
    world.spool.refuse = once(SpoolFull("full"))
    first = asyncio.create_task(world.send(b"1", idempotency_key="once"))
    await world.clock.settle()
    second = asyncio.create_task(world.send(b"2", idempotency_key="once"))
    await world.clock.settle()
    world.spool.gate.set()
    with pytest.raises(SpoolFull):
        await first
    assert not (await second).duplicate
    assert [one.body for one in world.stored] == [b"2"]


async def test_of_a_key_used_twice_at_once_one_is_stored(world: World) -> None:
    answers = await asyncio.gather(*(world.send(b"1", idempotency_key="once") for _ in range(5)))
    assert sum(not answer.duplicate for answer in answers) == 1
    assert len({answer.id for answer in answers}) == 1
    assert len(world.stored) == 1


async def test_a_key_twice_in_a_batch(world: World) -> None:
    batch = [Draft("orders", body, idempotency_key="once") for body in (b"1", b"1", b"2")]
    first, second, third = await world.ingest.accept(batch, ANYONE)
    assert isinstance(first, AcceptedMessage)
    assert second == AcceptedMessage(first.id, True)
    assert isinstance(third, Conflict)


async def test_a_batch_of_which_a_part_was_stored_is_sent_again(world: World) -> None:
    """A queue that is full refuses the whole call; what another queue has stored of it is known."""
    await world.destination("ledger")
    full = GatedSpool("publish", "store")
    full.refuse = once(SpoolFull("full"))
    world.ingest._places = lambda _: {"orders": Place(world.spool, None), "ledger": Place(full, None)}
    batch = [Draft(code, b"1", id=world.id(), idempotency_key=code) for code in ("orders", "ledger")]
    with pytest.raises(SpoolFull):
        await world.ingest.accept(batch, ANYONE)
    (first,) = world.stored
    async with asyncio.timeout(10):
        again = await world.ingest.accept([replace(one, id="") for one in batch], ANYONE)
        assert again[0] == AcceptedMessage(first.id, True)
        assert [one.duplicate for one in again] == [True, False]
        assert (await world.ingest.accept_one(batch[0], ANYONE)).duplicate
    assert len(world.stored) == 1


async def test_a_call_that_fails_leaves_nothing_to_wait_for(world: World) -> None:
    batch = [Draft("orders", b"1", idempotency_key=key) for key in ("once", "twice")]
    take = world.ingest._quotas.take
    world.ingest._quotas.take = lambda *of: take(*of) if not of[-1] else 1 / 0  # type: ignore[method-assign]
    with pytest.raises(ZeroDivisionError):
        await world.ingest.accept(batch, ANYONE)
    async with asyncio.timeout(10):
        assert not (await world.ingest.accept_one(batch[0], ANYONE)).duplicate


async def test_a_key_does_not_stand_for_a_message_that_no_group_of_brokers_holds() -> None:
    async with receivers("one") as ((here,), groups):
        for group in groups.values():
            group.set_copies(0)
        for _ in range(2):
            with pytest.raises(TransportUnavailable):
                await here.send(b"1", idempotency_key="once")
        for group in groups.values():
            group.set_copies(3)
        await here.clock.advance(30)
        first = await here.send(b"1", idempotency_key="once")
        assert not first.duplicate
        assert await here.send(b"1", idempotency_key="once") == AcceptedMessage(first.id, True)


async def test_a_batch_of_keys_is_kept_together(world: World) -> None:
    """One commit of the store, and not a thousand one after the other."""
    running = most = 0
    plain = world.store.put

    async def put(*args, **kwargs):
        nonlocal running, most
        running += 1
        most = max(most, running)
        try:
            return await plain(*args, **kwargs)
        finally:
            running -= 1

    world.store.put = put
    await world.ingest.accept([Draft("orders", b"", idempotency_key=str(n)) for n in range(100)], ANYONE)
    assert most == 100


async def test_a_key_is_known_for_a_day_whatever_is_done_to_the_clock(world: World) -> None:
    first = await world.send(b"1", idempotency_key="once")
    for jump in (3 * DAY, -4 * DAY, DAY):
        world.clock.jump(jump)
        assert await world.send(b"1", idempotency_key="once") == AcceptedMessage(first.id, True)
    await world.clock.advance(86_400)
    world.store.down = True
    assert not (await world.send(b"1", idempotency_key="once")).duplicate


async def test_a_slow_write_of_a_first_use_leaves_no_later_key_unchecked(world: World) -> None:
    put = world.store.put

    async def slow(*args: Any, **options: Any) -> int:
        await world.clock.sleep(0.15)
        return await put(*args, **options)

    world.store.put = slow
    first = asyncio.create_task(world.send(b"1", idempotency_key="once"))
    await world.clock.advance(0.2)
    assert not (await first).unchecked
    assert not (await world.send(b"1", idempotency_key="other")).unchecked


async def test_a_later_use_that_another_receiver_accepted_replaces_one_that_is_over(world: World) -> None:
    here, there = world, World(world.store, world.clock)
    await there.registry.load()
    await here.send(b"1", idempotency_key="once")
    await here.clock.advance(25 * 3600)
    second = await there.send(b"1", idempotency_key="once")
    assert await here.send(b"1", idempotency_key="once") == AcceptedMessage(second.id, True)


async def test_a_key_of_a_clock_that_was_ahead_over_midnight_is_found(world: World) -> None:
    world.clock.jump(DAY - world.clock.now() % DAY - HOUR // 2)
    world.clock.jump(HOUR)
    first = await world.send(b"1", idempotency_key="once")
    world.clock.jump(-HOUR)
    world.restart()
    assert await world.send(b"1", idempotency_key="once") == AcceptedMessage(first.id, True)
