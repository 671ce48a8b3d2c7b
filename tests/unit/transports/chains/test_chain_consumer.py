"""Messages for a subscription of a strictly ordered destination, over groups that fail."""

from __future__ import annotations

import asyncio

import msgspec
import pytest
from msgspec.structs import replace

from bus.domain.catalog import Catalog
from bus.domain.destination import TransportName
from bus.domain.ordering.chain import Role
from bus.domain.ordering.document import COLLECTION, encode_chain
from bus.domain.ordering.tenure import terms_of
from bus.errors import NotLeader, TransportUnavailable
from bus.ports.store import Document
from bus.testing.broker_group import MemoryGroup
from bus.testing.cluster import over_groups
from tests.unit.transports.chains.chains_world import (
    BOTH,
    CODE,
    ORDERS,
    bodies,
    catalog_of,
    passing,
    received,
    world_of,
)


async def test_the_messages_of_a_group_that_failed_come_before_those_of_the_next() -> None:
    async with world_of() as world:
        chains = await world.begin("one")
        consumer = chains.consumer(CODE, "billing")
        assert len(await chains.send(CODE, world.messages(3))) == 3
        world.groups["a"].set_copies(2)
        assert len(await chains.send(CODE, world.messages(2))) == 2
        assert bodies(await received(consumer, world.clock, 5)) == [0, 1, 2, 3, 4]
        assert [segment.group for segment in (await world.chain()).consume] == ["b"]


async def test_what_comes_behind_a_dead_group_waits_until_that_is_back() -> None:
    async with world_of() as world:
        chains = await world.begin("one")
        consumer = chains.consumer(CODE, "billing")
        await chains.send(CODE, world.messages(2))
        world.groups["a"].set_copies(0)
        await chains.send(CODE, world.messages(2))
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1.5):
                await passing(consumer.receive(1), world.clock)
        world.groups["a"].set_copies(3)
        assert bodies(await received(consumer, world.clock, 4)) == [0, 1, 2, 3]


async def test_a_group_joins_again_once_it_is_whole_and_drained() -> None:
    async with world_of() as world:
        chains = await world.begin("one")
        consumer = chains.consumer(CODE, "billing")
        for _ in range(3):  # each time the one that takes messages fails, and the other one takes over
            await chains.send(CODE, world.messages(1))
            current = (await world.chain()).send[0]
            world.groups[current].set_copies(2)
            await chains.send(CODE, world.messages(1))
            world.groups[current].set_copies(3)
            await received(consumer, world.clock, 2)
            await world.clock.advance(12)
            assert set((await world.chain()).send) == {"a", "b"}


async def test_where_all_others_still_have_something_the_last_group_goes_on() -> None:
    async with world_of("billing", "mail") as world:
        chains = await world.begin("one")
        billing, mail = chains.consumer(CODE, "billing"), chains.consumer(CODE, "mail")
        for group in ("a", "b"):
            await chains.send(CODE, world.messages(1))
            world.groups[group].set_copies(2)
        assert len(await chains.send(CODE, world.messages(1))) == 0, "nobody knows whether it is held"
        world.groups["b"].set_copies(3)
        assert len(await chains.send(CODE, world.messages(1))) == 1
        assert [segment.group for segment in (await world.chain()).consume] == ["a", "b", "b"]
        world.groups["a"].set_copies(3)
        for consumer in (billing, mail):
            assert bodies(await received(consumer, world.clock, 3)) == [0, 1, 3]
        await passing(world.clock.sleep(12), world.clock)
        assert len(await chains.send(CODE, world.messages(1))) == 1
        assert bodies(await received(mail, world.clock, 1)) == [4]


async def test_each_subscription_drains_a_group_for_itself() -> None:
    async with world_of("billing", "mail") as world:
        chains = await world.begin("one")
        billing, mail = chains.consumer(CODE, "billing"), chains.consumer(CODE, "mail")
        await chains.send(CODE, world.messages(2))
        world.groups["a"].set_copies(2)
        await chains.send(CODE, world.messages(1))
        assert bodies(await received(billing, world.clock, 3)) == [0, 1, 2]
        (first, second) = (await world.chain()).consume
        assert (first.group, first.drained, second.group) == ("a", ("billing",), "b")
        assert bodies(await received(mail, world.clock, 3)) == [0, 1, 2]


@pytest.mark.parametrize("cut_off", range(6))
async def test_cancelling_loses_none(cut_off: int) -> None:
    async with world_of() as world:
        chains = await world.begin("one")
        consumer = chains.consumer(CODE, "billing")
        await chains.send(CODE, world.messages(4))
        task = asyncio.create_task(consumer.receive(4))
        for _ in range(cut_off):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        first = [] if task.cancelled() else task.result()
        consumer.ack(first)
        assert bodies([*first, *await received(consumer, world.clock, 4 - len(first))]) == [0, 1, 2, 3]


@pytest.mark.parametrize("turns", range(12))
async def test_who_is_closed_while_it_reads_reads_no_more_and_keeps_nobody_from_it(turns: int) -> None:
    async with world_of() as world:
        chains = await world.begin("one")
        consumer = chains.consumer(CODE, "billing")
        await chains.send(CODE, world.messages(3))
        reading = asyncio.create_task(consumer.receive(2))
        for _ in range(turns):
            await asyncio.sleep(0)
        closing = asyncio.create_task(consumer.close())
        await asyncio.sleep(0)
        closing.cancel()  # its own end may be cut off as well
        await asyncio.wait([closing])
        await consumer.close()
        await world.clock.advance(1)
        reading.cancel()
        await asyncio.wait([reading])
        assert reading.cancelled() or len(reading.result()) <= 2
        other = chains.consumer(CODE, "billing")
        assert bodies(await received(other, world.clock, 3)) == [0, 1, 2]


async def test_a_reader_is_closed_also_when_that_was_cut_off() -> None:
    """Else it would keep from all others what the group gets when it takes messages again."""
    async with world_of() as world:
        chains = await world.begin("one")
        consumer = chains.consumer(CODE, "billing")
        await chains.send(CODE, world.messages(1))
        await received(consumer, world.clock, 1)
        (queue,) = world.groups["a"]._queues.values()
        (reader,) = queue.readers
        close, reader.close = reader.close, asyncio.Event().wait  # type: ignore[method-assign]
        closing = asyncio.create_task(consumer.close())
        await world.clock.settle()
        closing.cancel()
        await asyncio.wait([closing])
        reader.close = close  # type: ignore[method-assign]
        await consumer.close()
        assert not queue.readers


async def test_who_goes_on_drains_a_group_also_when_the_one_before_leaves_later() -> None:
    async with world_of() as world:
        chains = await world.begin("one")
        await chains.send(CODE, world.messages(1))
        before, after = chains.consumer(CODE, "billing"), chains.consumer(CODE, "billing")
        await received(before, world.clock, 1)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.3):
                await passing(after.receive(1), world.clock)
        await before.close()
        world.groups["a"].set_copies(2)
        await chains.send(CODE, world.messages(1))
        assert bodies(await received(after, world.clock, 1)) == [1]


async def test_what_is_given_back_comes_again_in_order() -> None:
    async with world_of() as world:
        chains = await world.begin("one")
        consumer = chains.consumer(CODE, "billing")
        await chains.send(CODE, world.messages(4))
        items = await passing(consumer.receive(3), world.clock)
        consumer.ack(items[:1])
        consumer.release(items[1:])
        assert bodies(await received(consumer, world.clock, 3)) == [1, 2, 3]


async def test_a_message_that_lands_late_is_written_again_behind_all_others() -> None:
    async with world_of() as world:
        chains = await world.begin("one")
        consumer = chains.consumer(CODE, "billing")
        late, *others = world.messages(3)
        await chains.send(CODE, [others[0]])
        await received(consumer, world.clock, 1)
        await consumer.close()
        old = await world.groups["a"].writer(CODE)
        await world.begin("two", frozenset({Role.SENDER}))
        await world.end("one")
        reader = await world.begin("three", frozenset({Role.READER}))
        await world.clock.advance(10)
        sender = world.processes["two"]
        assert sender.sends(CODE)
        assert reader.reads(CODE)
        consumer = reader.consumer(CODE, "billing")
        await sender.send(CODE, [others[1]])
        assert bodies(await received(consumer, world.clock, 1)) == [2]
        world.groups["a"].fences = False  # as RabbitMQ, which shuts nobody out
        await old.write([late])
        again = await received(consumer, world.clock, 1)
        assert bodies(again) == [0]
        assert again[0].message.is_late


async def test_a_chain_that_was_put_back_from_a_backup_goes_on() -> None:
    """Its epochs are smaller than those of messages that are on groups, and that were given."""
    async with world_of() as world:
        chains = await world.begin("one")
        await chains.send(CODE, world.messages(1))
        before = encode_chain(await world.chain())
        for _ in range(3):
            await world.end("one")
            chains = await world.begin("one")
        await chains.send(CODE, world.messages(1))
        await world.end("one")
        await world.store.delete(COLLECTION, CODE)
        await world.store.put(COLLECTION, CODE, before, version=0)
        chains = await world.begin("one")
        consumer = chains.consumer(CODE, "billing")
        await chains.send(CODE, world.messages(1))
        assert bodies(await received(consumer, world.clock, 3)) == [0, 1, 2]
        await chains.send(CODE, world.messages(2))
        assert bodies(await received(consumer, world.clock, 2)) == [3, 4]


async def test_a_destination_that_is_made_anew_begins_with_nothing() -> None:
    """Else it would wait for groups that only the one before it had."""
    async with world_of() as world:
        other = {"c": MemoryGroup("c"), "d": MemoryGroup("d")}
        chains = await world.begin("one")
        chains._groups = {"kafka": world.groups, "rabbitmq": other}
        await chains.send(CODE, world.messages(1))
        anew = Catalog([replace(ORDERS, transport=TransportName.RABBITMQ)], catalog_of("billing").of(CODE))
        removed = catalog_of("billing").changed(
            without=[CODE], unsubscribed=[(CODE, "billing")], removed=frozenset({CODE, f"{CODE}/billing"})
        )
        for one in other.values():
            await one.ensure(ORDERS, catalog_of("billing").of(CODE))
        await chains.apply(removed)
        assert ((await world.chain()).consume, (await world.chain()).send) == ((), ())
        await chains.apply(anew)
        assert len(await chains.send(CODE, world.messages(1))) == 1
        assert bodies(await received(chains.consumer(CODE, "billing"), world.clock, 1)) == [1]


async def test_who_changes_its_transport_meanwhile_goes_on_with_that() -> None:
    """A process may have missed that a destination was removed and made anew."""
    async with world_of() as world:
        other = {"c": MemoryGroup("c"), "d": MemoryGroup("d")}
        chains = await world.begin("one")
        chains._groups = {"kafka": world.groups, "rabbitmq": other}
        for one in other.values():
            await one.ensure(ORDERS, catalog_of("billing").of(CODE))
        await chains.apply(Catalog([replace(ORDERS, transport=TransportName.RABBITMQ)], catalog_of("billing").of(CODE)))
        assert len(await chains.send(CODE, world.messages(1))) == 1
        assert (await world.chain()).send[0] == "c"


async def test_who_stood_still_gives_nothing_that_another_one_may_have_given() -> None:
    async with world_of() as world:
        first = await world.begin("one")
        second = await world.begin("two")
        consumer = first.consumer(CODE, "billing")
        await first.send(CODE, world.messages(2))
        world.clock._elapsed += 10_000_000  # nobody has run meanwhile
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.4):
                await consumer.receive(1)
        await consumer.close()
        await world.clock.advance(20)
        (reads,) = [chains for chains in (first, second) if chains.reads(CODE)]
        assert bodies(await received(reads.consumer(CODE, "billing"), world.clock, 2)) == [0, 1]


async def test_another_process_takes_over_what_one_left_without_a_word() -> None:
    async with world_of() as world:
        first, second = await world.begin("one"), await world.begin("two")
        assert first.sends(CODE)
        assert first.reads(CODE)
        await first.send(CODE, world.messages(1))
        with pytest.raises(NotLeader) as refused:
            await second.send(CODE, world.messages(1))
        assert refused.value.url == "http://one"
        await world.end("one")
        await world.clock.advance(4)
        assert not second.sends(CODE), "the lease of the first one may still last"
        await world.clock.advance(4)
        assert len(await second.send(CODE, world.messages(1))) == 1
        assert bodies(await received(second.consumer(CODE, "billing"), world.clock, 2)) == [0, 2]


@pytest.mark.parametrize("of_the_other", [2, 30])
async def test_a_role_is_taken_over_after_the_time_that_its_owner_set(of_the_other: float) -> None:
    async with world_of() as world:
        await world.begin("one", takeover=2)
        other = await world.begin("two", takeover=of_the_other)
        await world.clock.advance(5)
        assert (await world.chain()).sender.owner == "one"
        await world.end("one")
        await world.clock.advance(1.5)
        assert not other.sends(CODE), "a process that stands still for 1 s is not replaced"
        await world.clock.advance(1 + 2 * terms_of(of_the_other).every)
        assert other.sends(CODE)
        assert (await world.chain()).reader.owner == "two"


async def test_a_role_lasts_though_an_earlier_version_drops_its_time() -> None:
    async with world_of() as world:
        one = await world.begin("one", takeover=30)
        two = await world.begin("two", takeover=30)
        chain = await world.chain()
        bare = msgspec.structs.replace(chain.sender, takeover_after=0.0)
        await world.store.put(COLLECTION, CODE, encode_chain(msgspec.structs.replace(chain, sender=bare)))
        await world.clock.advance(12)
        assert (await world.chain()).sender.takeover_after == 30
        assert one.sends(CODE)
        assert not two.sends(CODE)


async def test_a_process_without_groups_neither_sends_nor_reads() -> None:
    async with world_of() as world:
        await world.begin("one")
        lacking = over_groups(world.store, world.clock, {}, BOTH)
        await lacking.apply(catalog_of("billing"))
        assert lacking.is_strict(CODE)
        assert not lacking.sends(CODE)
        assert not lacking.reads(CODE)
        with pytest.raises(NotLeader):
            await lacking.send(CODE, world.messages(1))


async def test_roles_are_kept_while_somebody_is_told_of_them() -> None:
    """A dispatcher that begins may have to wait for what its workers did before."""
    async with world_of() as world:
        first, second = await world.begin("one"), await world.begin("two")
        told = asyncio.Event()

        async def listener() -> None:
            told.set()
            await asyncio.Event().wait()

        second.listen(listener)
        await world.end("one")
        await world.clock.advance(10)
        assert told.is_set()
        await world.clock.advance(10)
        assert second.reads(CODE)
        assert not first.reads(CODE)


async def test_a_role_that_was_away_for_a_moment_is_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was to begin in that moment did not, and would not without it."""
    async with world_of() as world:
        chains = await world.begin("one", frozenset({Role.READER}))
        await world.clock.advance(1.5)
        told: list[bool] = []

        async def listener() -> None:
            told.append(chains.reads(CODE))

        chains.listen(listener)
        get = world.store.get

        async def slow(collection: str, key: str) -> Document | None:
            await world.clock.sleep(4.5)
            return await get(collection, key)

        monkeypatch.setattr(world.store, "get", slow)
        await world.clock.advance(4)
        assert not chains.reads(CODE)
        monkeypatch.setattr(world.store, "get", get)
        await world.clock.advance(6)
        assert chains.reads(CODE)
        assert told[-1:] == [True]


async def test_who_could_not_be_told_of_a_role_is_told_again() -> None:
    async with world_of() as world:
        await world.begin("one")
        second = await world.begin("two")
        told: list[bool] = []

        async def listener() -> None:
            told.append(second.reads(CODE))
            if len(told) == 1:
                raise TransportUnavailable("not now")

        second.listen(listener)
        await world.end("one")
        await world.clock.advance(20)
        assert told == [True, True]


async def test_who_leaves_keeps_nobody_waiting() -> None:
    async with world_of() as world:
        first, second = await world.begin("one"), await world.begin("two")
        await world.end("one")
        await first.leave()
        await world.clock.advance(1.5)
        assert second.sends(CODE)
        assert second.reads(CODE)
