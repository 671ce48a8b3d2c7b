"""The nsqlookupds that are asked, how often, and in which order."""

from __future__ import annotations

import asyncio

import pytest

from bus.domain.routing.answers import Answer
from bus.domain.routing.listlookup import LookupAddresses
from bus.domain.routing.rooms import Access
from bus.testing.clock import ManualClock
from bus.transports.nsq.config import Address
from bus.transports.nsq.errors import ConnectionLost, ErrorFrame
from bus.transports.nsq.partitions.directory import Directory

A, B, C = (Address(host, 4161) for host in "abc")


class Lookupds:
    """nsqlookupds from a table: what each lists and answers; None does not answer, ``late`` never."""

    def __init__(self) -> None:
        self.lists: dict[Address, LookupAddresses | None] = {}
        self.answers: dict[Address, Answer | None] = {}
        self.late: set[Address] = set()
        self.asked: list[Address] = []
        self.made: list[Address] = []
        self.leader = A

    async def listed(self, lookupd: Address) -> LookupAddresses:
        if lookupd not in self.lists:
            raise ErrorFrame("NOT_FOUND", "")
        found = self.lists[lookupd]
        if found is None:
            raise ConnectionLost(f"cannot reach {lookupd}")
        return found

    async def lookup(self, lookupd: Address, _topic: str, _access: Access) -> Answer:
        self.asked.append(lookupd)
        if lookupd in self.late:
            await asyncio.Event().wait()
        found = self.answers.get(lookupd)
        if found is None:
            raise ConnectionLost(f"cannot reach {lookupd}")
        return found

    async def register(self, lookupd: Address, _topic: str, _channel: str) -> None:
        if lookupd != self.leader:
            raise ErrorFrame("E_FAILED_ON_NOT_LEADER", "")
        self.made.append(lookupd)


@pytest.fixture
def lookupds() -> Lookupds:
    return Lookupds()


def directory(lookupds: Lookupds, *told: Address, clock: ManualClock | None = None) -> Directory:
    return Directory(told or (A,), lookupds, clock or ManualClock())


async def test_those_that_are_listed_are_asked_as_well_and_the_leader_first(lookupds: Lookupds) -> None:
    lookupds.lists = {A: LookupAddresses(("a:4161", "b:4161", "c:0"), "b:4161")}
    lookupds.answers = {A: Answer(partitions={}), B: Answer(channels=("mail",), partitions={"0": {"x": 1}})}
    found = directory(lookupds)
    assert await found.discover()
    assert (found.has_partitions, found.leader, found.troubles) == (True, B, {B: ""})
    answer = await found.lookup("orders", Access.READ)
    assert answer is not None
    assert (answer.channels, answer.partitions) == (("mail",), {"0": {"x": 1}})
    assert lookupds.asked == [B, A]


async def test_stock_nsqlookupds_list_none(lookupds: Lookupds) -> None:
    found = directory(lookupds)
    assert await found.discover()
    assert (found.has_partitions, found.leader) == (False, None)


async def test_without_an_answer_what_was_listed_stays(lookupds: Lookupds) -> None:
    lookupds.lists = {A: LookupAddresses(("a:4161", "b:4161"), "a:4161")}
    found = directory(lookupds)
    await found.discover()
    lookupds.lists = {A: None, B: None}
    assert not await found.discover()
    assert (found.has_partitions, found.leader) == (True, A)
    lookupds.lists = {A: None, B: LookupAddresses(("a:4161", "b:4161"), "b:4161")}
    assert await found.discover()  # by one that was listed before
    assert found.leader == B


async def test_one_that_is_too_busy_to_list_is_not_taken_for_stock_nsq(
    lookupds: Lookupds, monkeypatch: pytest.MonkeyPatch
) -> None:
    lookupds.lists = {A: LookupAddresses(("a:4161",), "a:4161")}
    found = directory(lookupds)
    await found.discover()

    async def busy(_: Address) -> LookupAddresses:
        raise ErrorFrame("HTTP 429", "")

    monkeypatch.setattr(lookupds, "listed", busy)
    assert not await found.discover()
    assert found.has_partitions


async def test_one_that_fails_is_asked_twice_and_then_last_for_half_a_minute(lookupds: Lookupds) -> None:
    clock = ManualClock()
    lookupds.answers = {B: Answer()}
    found = directory(lookupds, A, B, clock=clock)
    assert await found.lookup("orders", Access.WRITE) is not None
    assert lookupds.asked.count(A) == 2
    await found.lookup("orders", Access.WRITE)
    assert lookupds.asked.count(A) == 2
    lookupds.answers = {A: Answer(channels=("mail",))}
    answer = await found.lookup("orders", Access.WRITE)
    assert answer is not None
    assert answer.channels == ("mail",)
    assert lookupds.asked.count(B) == 4
    await clock.advance(31.0)
    lookupds.answers[B] = Answer(channels=("billing",))
    answer = await found.lookup("orders", Access.WRITE)
    assert answer is not None
    assert answer.channels == ("billing", "mail")


async def test_a_late_one_is_waited_for_no_longer_than_a_moment_once_another_answered(lookupds: Lookupds) -> None:
    lookupds.lists = {A: LookupAddresses(("a:4161", "b:4161"), "a:4161")}
    lookupds.answers, lookupds.late = {A: Answer()}, {B}
    found = directory(lookupds)
    await found.discover()
    async with asyncio.timeout(5.0):
        assert await found.lookup("orders", Access.READ) is not None
        assert str(found.troubles[B]) == "it answers later than others"
        await found.lookup("orders", Access.READ)
    assert lookupds.asked.count(B) == 1


async def test_none_at_all_is_no_answer(lookupds: Lookupds) -> None:
    assert await directory(lookupds, A, B).lookup("orders", Access.READ) is None
    assert sorted(lookupds.asked) == [A, A, B, B]


async def test_a_change_goes_to_whoever_leads_by_now(lookupds: Lookupds) -> None:
    lookupds.lists = {A: LookupAddresses(("a:4161", "b:4161"), "a:4161")}
    found = directory(lookupds)
    with pytest.raises(ConnectionLost):
        await directory(lookupds, C).register("orders", "mail")
    await found.discover()
    lookupds.leader = B
    lookupds.lists = {A: LookupAddresses(("a:4161", "b:4161"), "b:4161")}
    await found.register("orders", "mail")
    assert lookupds.made == [B]
    lookupds.leader = C  # which none lists yet
    with pytest.raises(ConnectionLost, match="b:4161 does not lead any more"):
        await found.register("orders", "mail")
