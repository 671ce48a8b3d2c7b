"""Messages of a destination that keeps an order are accepted by one process, whichever got them."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from bus.cluster.leaders import Leaders, Task
from bus.cluster.member import Member
from bus.cluster.peers import PeerKey
from bus.domain.destination import Destination, Ordering
from bus.errors import BusError, PeerUnavailable, RefusedElsewhere, SpoolFull
from bus.http.draft import Draft
from bus.http.messages import Accepted
from bus.http.problem import problem_of
from bus.registry import Registry
from bus.security.principals import ANYONE, Principal
from bus.security.secrets import SecretBox
from bus.testing.cluster import without_groups
from receiver.forwarding import ForwardedApp, Forwarding
from tests.unit.receiver.receiver_world import World

LIMITED = Principal("key-1", "shop", ("producer",), ("orders", "free"), rate=1.0, burst=2)


class Crowd:
    """Two processes that see each other; the first one takes all tasks."""

    def __init__(self, me: Member, other: Member) -> None:
        self.me = me
        self.all = [me, other]


class Network:
    """Calls to the first process."""

    def __init__(self) -> None:
        self.app: ForwardedApp | None = None
        self.calls = 0
        self.spoils = False
        self.stands_still: asyncio.Event | None = None
        self.waiting = 0

    async def call(self, member: Member, path: str, content: object) -> bytes:
        if self.app is None:
            raise PeerUnavailable(f"{member.url} does not answer", indeterminate=True)
        self.calls += 1
        if self.stands_still is not None:
            self.waiting += 1
            await self.stands_still.wait()
        answer = await self.app._calls[path](msgspec.msgpack.encode(content))
        return b"\xc1" if self.spoils else msgspec.msgpack.encode(answer)


class Cluster:
    def __init__(self) -> None:
        self.network = Network()
        self.first, self.second = World(), World()
        self.second.store = self.first.store
        self.second.registry = Registry(self.first.store, SecretBox(None))
        self.second.registry.listen(self.second.router.apply)
        members = [
            Member(owner=name, node=name, url=f"http://{name}", roles=("receiver",), version="1", started_at=0)
            for name in ("first", "second")
        ]
        self.leaders = [
            Leaders(self.first.store, crowd, lambda _: False, self.first.clock)  # type: ignore[arg-type]
            for crowd in (Crowd(*members), Crowd(*reversed(members)))
        ]
        for world, leaders in zip((self.first, self.second), self.leaders, strict=True):
            world.elsewhere = Forwarding(leaders, without_groups(world.store, world.clock), self.network)  # type: ignore[arg-type]
            world.restart()

    async def begin(self) -> None:
        for world, leaders in zip((self.first, self.second), self.leaders, strict=True):
            world.registry._listeners.insert(0, leaders.apply)
            if world is self.first:
                await world.registry.put_destination(Destination(code="orders", ordering=Ordering.KEY, max_bytes=1000))
                await world.registry.put_destination(Destination(code="free"))
            else:
                await world.registry.load()
        self.network.app = ForwardedApp(self.first.ingest, self.leaders[0], PeerKey(self.first.store, self.first.clock))


@pytest.fixture
async def cluster() -> Cluster:
    made = Cluster()
    await made.begin()
    return made


def kinds(answers: list[Any]) -> list[type]:
    return [type(answer) for answer in answers]


async def test_what_another_process_accepts_goes_there_and_the_rest_stays(cluster: Cluster) -> None:
    drafts = [Draft("orders", b"1"), Draft("free", b"2"), Draft("nowhere", b"3"), Draft("orders", b"4", key="k")]
    answers = await cluster.second.ingest.accept(drafts, ANYONE)
    assert [isinstance(answer, Accepted) for answer in answers] == [True, True, False, True]
    assert [one.body for one in cluster.first.stored] == [b"1", b"4"]
    assert [one.body for one in cluster.second.stored] == [b"2"]
    assert cluster.network.calls == 1
    assert cluster.first.ingest.is_here("orders")
    assert not cluster.second.ingest.is_here("orders")


async def test_a_single_message_is_forwarded_as_well(cluster: Cluster) -> None:
    accepted = await cluster.second.ingest.accept_one(Draft("orders", b"1", id=cluster.first.id()), ANYONE)
    again = await cluster.second.ingest.accept_one(Draft("orders", b"1", id=accepted.id), ANYONE)
    assert again == (accepted.id, True)
    assert [one.id for one in cluster.first.stored] == [accepted.id]


async def test_a_refusal_is_told_as_it_was_said(cluster: Cluster) -> None:
    drafts = [Draft("orders", b"x" * 2000), Draft("orders", b"1", deliver_at=cluster.first.clock.now() + 1000)]
    here = [problem_of(one) for one in await cluster.first.ingest.accept(drafts, ANYONE) if isinstance(one, BusError)]
    there = await cluster.second.ingest.accept(drafts, ANYONE)
    assert kinds(there) == [RefusedElsewhere, RefusedElsewhere]
    assert [problem_of(one) for one in there if isinstance(one, BusError)] == here


async def test_rates_of_a_key_hold_where_it_is_accepted(cluster: Cluster) -> None:
    drafts = [Draft("orders", b"%d" % n) for n in range(4)]
    answers = await cluster.second.ingest.accept(drafts, LIMITED)
    assert kinds(answers) == [Accepted, Accepted, RefusedElsewhere, RefusedElsewhere]
    assert [problem_of(one).status for one in answers if isinstance(one, BusError)] == [429, 429]


async def test_without_that_process_messages_are_refused_for_now(cluster: Cluster) -> None:
    cluster.network.app = None
    answers = await cluster.second.ingest.accept([Draft("orders", b"1"), Draft("free", b"2")], ANYONE)
    assert kinds(answers) == [PeerUnavailable, Accepted]
    await cluster.leaders[0].leave()
    await cluster.leaders[0]._read()
    for leaders in cluster.leaders:
        leaders._found.clear()
    (answer,) = await cluster.second.ingest.accept([Draft("orders", b"1")], ANYONE)
    assert isinstance(answer, PeerUnavailable)
    assert "keeps the order" in str(answer)


async def test_one_that_has_not_the_task_refuses_and_passes_nothing_on(cluster: Cluster) -> None:
    found = cluster.leaders[0]._found
    found.pop(f"orders/{Task.ACCEPTING}")
    (answer,) = await cluster.second.ingest.accept([Draft("orders", b"1")], ANYONE)
    assert isinstance(answer, PeerUnavailable)
    assert cluster.first.stored == []


async def test_another_version_that_answers_something_else_is_no_answer(cluster: Cluster) -> None:
    cluster.network.spoils = True
    (answer,) = await cluster.second.ingest.accept([Draft("orders", b"1")], ANYONE)
    assert isinstance(answer, PeerUnavailable)
    assert answer.indeterminate


async def test_a_process_that_stands_still_keeps_no_other_message_waiting(cluster: Cluster) -> None:
    """A batch would else wait for one time-out for each destination, longer than its producer does."""
    await cluster.first.registry.put_destination(Destination(code="bills", ordering=Ordering.KEY))
    await cluster.second.registry.load()
    await cluster.leaders[1].step()
    cluster.network.stands_still = asyncio.Event()
    drafts = [Draft("orders", b"1"), Draft("bills", b"2"), Draft("free", b"3")]
    accepting = asyncio.ensure_future(cluster.second.ingest.accept(drafts, ANYONE))
    await cluster.second.clock.settle()
    assert cluster.network.waiting == 2
    assert [one.body for one in cluster.second.stored] == [b"3"]
    cluster.network.stands_still.set()
    assert kinds(await accepting) == [Accepted] * 3


async def test_a_spool_that_refuses_everything_refuses_a_batch_that_is_partly_accepted_elsewhere(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def full(*_: Any, **__: Any) -> list[int]:
        raise SpoolFull("full")

    monkeypatch.setattr(cluster.second.spool, "append", full)
    with pytest.raises(SpoolFull):
        await cluster.second.ingest.accept([Draft("orders", b"1"), Draft("free", b"2")], ANYONE)
    assert [one.body for one in cluster.first.stored] == [b"1"]
