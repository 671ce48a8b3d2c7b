"""Leaders of a destination's order: one at a time, until nothing of it is left there."""

from __future__ import annotations

import pytest

from bus.cluster.leaders import COLLECTION, Lead, Leaders, Task
from bus.cluster.member import Member
from bus.domain.catalog import Catalog
from bus.domain.destination import Destination, Ordering
from bus.errors import Conflict, StoreUnavailable
from bus.testing.clock import NOON, ManualClock
from bus.testing.store import MemoryStore

BOTH = ("receiver", "dispatcher")
ACCEPTING, DELIVERING = Task.ACCEPTING, Task.DELIVERING


class Crowd:
    """The members that a process sees."""

    def __init__(self, me: Member, everybody: list[Member]) -> None:
        self.me = me
        self.missed_at = float("-inf")
        self._everybody = everybody

    @property
    def all(self) -> list[Member]:
        return [self.me, *(one for one in self._everybody if one.owner != self.me.owner)]


class World:
    def __init__(self) -> None:
        self.clock = ManualClock()
        self.store = MemoryStore()
        self.alive: list[Member] = []
        self.held: set[tuple[str, str]] = set()
        self.told: list[str] = []

    async def process(self, owner: str, *roles: str, codes: tuple[str, ...] = ("orders",)) -> Leaders:
        """Start a process, with these destinations ordered."""
        me = Member(owner=owner, node=owner, url=f"http://{owner}", roles=roles or BOTH, version="1", started_at=0)
        self.alive.append(me)
        members = Crowd(me, self.alive)
        leaders = Leaders(self.store, members, lambda code: (owner, code) in self.held, self.clock)  # type: ignore[arg-type]

        async def listener() -> None:
            self.told.append(owner)

        leaders.listen(listener)
        await leaders.apply(catalog(*codes))
        return leaders

    def dies(self, owner: str) -> None:
        self.alive[:] = [one for one in self.alive if one.owner != owner]


def catalog(*codes: str) -> Catalog:
    destinations = [Destination(code=code, ordering=Ordering.KEY) for code in codes]
    return Catalog([*destinations, Destination(code="free")])


@pytest.fixture
def world() -> World:
    return World()


async def test_the_first_takes_both_tasks_and_no_other_gets_them(world: World) -> None:
    first = await world.process("a")
    second = await world.process("b")
    for leaders in (first, second):
        await leaders.step()
        for task in Task:
            found = leaders.leader(task, "orders")
            assert found is not None
            assert found.owner == "a"
    assert first.leads(ACCEPTING, "orders")
    assert not second.leads(ACCEPTING, "orders")
    assert first.is_ordered("orders")
    assert not first.is_ordered("free")
    assert first.leader(ACCEPTING, "free") is None
    assert world.told == ["a"]
    assert not first.trouble


async def test_roles_apart_have_a_task_each(world: World) -> None:
    receiver = await world.process("r", "receiver")
    dispatcher = await world.process("d", "dispatcher")
    await world.process("x", "admin")
    assert receiver.leads(ACCEPTING, "orders")
    assert dispatcher.leads(DELIVERING, "orders")
    assert not receiver.leads(DELIVERING, "orders")


async def test_who_has_the_queue_delivers(world: World) -> None:
    first = await world.process("a", codes=())
    second = await world.process("b", codes=())
    await first._put("orders/accepting", Lead("a", 1))
    await second.apply(catalog("orders"))
    assert not second.leads(DELIVERING, "orders")
    await first.apply(catalog("orders"))
    assert first.leads(DELIVERING, "orders")


async def test_nobody_takes_the_tasks_of_one_that_is_gone_until_its_queues_are_empty(world: World) -> None:
    await world.process("a")
    second = await world.process("b")
    world.dies("a")
    await second.step()
    assert not second.leads(ACCEPTING, "orders")
    assert second.leader(ACCEPTING, "orders") is None
    assert "orders" in str(second.trouble)
    assert await second.release_all({"a", "nobody"}) == 2
    await second.step()
    assert second.leads(ACCEPTING, "orders")
    assert second.leads(DELIVERING, "orders")
    assert not second.trouble
    assert second.epoch(DELIVERING, "orders") == NOON + 1, "the clock has not moved"


async def test_epochs_grow_with_each_owner_also_over_a_wiped_store(world: World) -> None:
    first = await world.process("a")
    assert first.epoch(ACCEPTING, "orders") == NOON
    assert first.epoch(ACCEPTING, "free") == 0
    await first.leave()
    second = await world.process("b")
    assert second.epoch(ACCEPTING, "orders") == NOON + 1
    for one in await world.store.list(COLLECTION):
        await world.store.delete(COLLECTION, one.key)
    await world.clock.advance(10)
    await second.step()
    assert second.epoch(ACCEPTING, "orders") == NOON + 10_000


async def test_one_that_was_declared_unreachable_reads_whose_the_order_is(world: World) -> None:
    first = await world.process("a")
    second = await world.process("b")
    assert first.is_current
    await world.clock.advance(1)
    world.dies("a")
    assert await second.give_up("orders") == [ACCEPTING, DELIVERING]
    await second.step()
    first._members.missed_at = world.clock.monotonic()
    assert not first.is_current
    await world.clock.advance(0.1)
    await first.step()
    assert first.is_current
    assert not first.leads(DELIVERING, "orders")
    assert second.epoch(DELIVERING, "orders") == first.epoch(DELIVERING, "orders")


async def test_one_that_comes_back_goes_on(world: World) -> None:
    await world.process("a")
    second = await world.process("b")
    world.dies("a")
    again = await world.process("a")
    await second.step()
    assert again.leads(ACCEPTING, "orders")
    assert not second.trouble


async def test_who_leaves_with_nothing_left_gives_its_tasks_up(world: World) -> None:
    first = await world.process("a", codes=("orders", "mail"))
    second = await world.process("b", codes=("orders", "mail"))
    world.held.add(("a", "mail"))
    await first.leave()
    world.dies("a")
    await second.step()
    assert second.leads(ACCEPTING, "orders")
    assert not second.leads(ACCEPTING, "mail")


async def test_what_keeps_no_order_any_more_is_given_up_once_nothing_is_left(world: World) -> None:
    first = await world.process("a")
    world.held.add(("a", "orders"))
    await first.apply(catalog())
    assert not first.is_ordered("orders")
    assert first.leads(ACCEPTING, "orders")
    world.held.clear()
    await first.step()
    assert not first.leads(ACCEPTING, "orders")


async def test_without_the_store_everything_stays_as_it_was(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    first = await world.process("a")

    async def away(*_: object, **__: object) -> None:
        raise StoreUnavailable("down")

    monkeypatch.setattr(world.store, "list", away)
    monkeypatch.setattr(world.store, "put", away)
    await first.step()
    await first.leave()
    assert first.leads(ACCEPTING, "orders")
    second = await world.process("b")
    assert not second.leads(ACCEPTING, "orders")


async def test_what_another_version_wrote_is_left_alone(world: World) -> None:
    await world.store.put(COLLECTION, "orders/accepting", b"\xff")
    first = await world.process("a")
    assert not first.leads(ACCEPTING, "orders")
    assert first.trouble


async def test_of_two_that_take_a_task_at_once_one_gets_it(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = await world.process("a", codes=()), await world.process("b", codes=())
    listed = world.store.list
    stale = await listed(COLLECTION)

    async def before(collection: str, **_: object) -> list:
        return stale

    await first.apply(catalog("orders"))
    with monkeypatch.context() as patch:
        patch.setattr(world.store, "list", before)
        await second.apply(catalog("orders"))
    await second.step()
    assert first.leads(ACCEPTING, "orders")
    assert not second.leads(ACCEPTING, "orders")


async def test_what_is_inherited_waits_for_the_store(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    await world.process("a")
    world.dies("a")
    second = await world.process("b")

    async def away(*_: object, **__: object) -> None:
        raise StoreUnavailable("down")

    with monkeypatch.context() as patch:
        patch.setattr(world.store, "list", away)
        await second.inherit({"a"})
    assert not second.leads(ACCEPTING, "orders")
    await second.step()
    assert second.leads(ACCEPTING, "orders")
    assert second.leads(DELIVERING, "orders")


async def test_what_was_taken_when_the_work_was_cut_off_is_given_up_as_well(world: World) -> None:
    first = await world.process("a")
    first._found.clear()  # the store had it, and its answer was not awaited
    await first.leave()
    world.dies("a")
    second = await world.process("b")
    assert second.leads(ACCEPTING, "orders")


async def test_a_person_gives_up_the_tasks_of_one_that_does_not_come_back(world: World) -> None:
    first = await world.process("a")
    second = await world.process("b")
    with pytest.raises(Conflict, match="alive"):
        await second.give_up("orders")
    assert first.leads(ACCEPTING, "orders")
    world.dies("a")
    assert await second.give_up("orders") == [ACCEPTING, DELIVERING]
    await second.step()
    assert second.leads(ACCEPTING, "orders")
    assert await second.give_up("free") == []
    again = await world.process("a")
    assert not again.leads(ACCEPTING, "orders")
