"""Messages of a destination that keeps an order are accepted by one process, whichever got them."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from bus.cluster.leaders import Leaders, Task
from bus.cluster.member import Member
from bus.cluster.peers import PeerKey
from bus.domain.destination import Destination, Ordering
from bus.domain.health.vitals import UnreachableProcess
from bus.errors import BusError, PeerUnavailable, RefusedElsewhere, SpoolFailed, SpoolFull
from bus.http.draft import Draft
from bus.http.messages import AcceptedMessage
from bus.http.problem import problem_of
from bus.registry import Registry
from bus.security.principals import ANYONE, Principal
from bus.security.secrets import SecretBox
from bus.testing.cluster import without_groups
from receiver.duplicates import scope_of
from receiver.forwarding import ForwardedApp, OrderForwarder
from receiver.key_owners import KeyOwners
from tests.harness.gated_spool import once
from tests.unit.receiver.receiver_world import World

LIMITED = Principal("key-1", "shop", ("producer",), ("orders", "free"), rate=1.0, burst=2)


class Crowd:
    """Two processes that see each other; the first one takes all tasks."""

    def __init__(self, me: Member, other: Member) -> None:
        self.me = me
        self.others = [other]
        self.all = [me, other]
        self.unreachable: list[UnreachableProcess] = []


class Network:
    """Calls to the first process."""

    def __init__(self) -> None:
        self.app: ForwardedApp | None = None
        self.calls = 0
        self.spoils = False
        self.stands_still: asyncio.Event | None = None
        self.waiting = 0

    async def call(self, member: Member, path: str, content: object, **_: float) -> bytes:
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
        self.crowds = [Crowd(*members), Crowd(*reversed(members))]
        self.leaders = [
            Leaders(self.first.store, crowd, lambda _: False, self.first.clock)  # type: ignore[arg-type]
            for crowd in self.crowds
        ]
        self.owners = [KeyOwners(crowd) for crowd in self.crowds]
        for world, leaders, owners in zip((self.first, self.second), self.leaders, self.owners, strict=True):
            chains = without_groups(world.store, world.clock)
            world.elsewhere = OrderForwarder(leaders, chains, owners, self.network, world.clock)  # type: ignore[arg-type]
            world.restart()

    async def begin(self) -> None:
        for world, leaders in zip((self.first, self.second), self.leaders, strict=True):
            world.registry._listeners.insert(0, leaders.apply)
            if world is self.first:
                await world.registry.put_destination(Destination(code="orders", ordering=Ordering.KEY, max_bytes=1000))
                await world.registry.put_destination(Destination(code="free"))
            else:
                await world.registry.load()
        key = PeerKey(self.first.store, self.first.clock)
        self.network.app = ForwardedApp(self.first.ingest, self.leaders[0], self.owners[0], key)

    def owned(self, destination: str = "free", *, by: int = 0, number: int = 0) -> str:
        """Return one of the keys that one of the two processes owns."""
        owner = self.owners[by].owner
        keys = (key for key in map(str, itertools.count()) if not owner(scope_of(destination, ANYONE.id, (key,))))
        return next(itertools.islice(keys, number, None))

    async def send(self, key: str, *, at: int = 1, body: bytes = b"1", destination: str = "free") -> AcceptedMessage:
        """Send a message with a key to one of the two processes."""
        draft = Draft(destination, body, idempotency_key=key)
        return await (self.first, self.second)[at].ingest.accept_one(draft, ANYONE)


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
    assert [isinstance(answer, AcceptedMessage) for answer in answers] == [True, True, False, True]
    assert [one.body for one in cluster.first.stored] == [b"1", b"4"]
    assert [one.body for one in cluster.second.stored] == [b"2"]
    assert cluster.network.calls == 1
    assert cluster.first.ingest.is_here("orders")
    assert not cluster.second.ingest.is_here("orders")


async def test_a_single_message_is_forwarded_as_well(cluster: Cluster) -> None:
    accepted = await cluster.second.ingest.accept_one(Draft("orders", b"1", id=cluster.first.id()), ANYONE)
    again = await cluster.second.ingest.accept_one(Draft("orders", b"1", id=accepted.id), ANYONE)
    assert again == AcceptedMessage(accepted.id, True)
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
    assert kinds(answers) == [AcceptedMessage, AcceptedMessage, RefusedElsewhere, RefusedElsewhere]
    assert [problem_of(one).status for one in answers if isinstance(one, BusError)] == [429, 429]


async def test_without_that_process_messages_are_refused_for_now(cluster: Cluster) -> None:
    cluster.network.app = None
    answers = await cluster.second.ingest.accept([Draft("orders", b"1"), Draft("free", b"2")], ANYONE)
    assert kinds(answers) == [PeerUnavailable, AcceptedMessage]
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
    assert kinds(await accepting) == [AcceptedMessage] * 3


async def test_a_spool_that_refuses_everything_refuses_a_batch_that_is_partly_accepted_elsewhere(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def full(*_: Any, **__: Any) -> list[int]:
        raise SpoolFull("full")

    monkeypatch.setattr(cluster.second.spool, "append", full)
    with pytest.raises(SpoolFull):
        await cluster.second.ingest.accept([Draft("orders", b"1"), Draft("free", b"2")], ANYONE)
    assert [one.body for one in cluster.first.stored] == [b"1"]


async def test_a_key_is_accepted_by_its_owner_whichever_process_got_it(cluster: Cluster) -> None:
    key = cluster.owned()
    answers = await asyncio.gather(*(cluster.send(key, at=at) for at in (0, 1, 1, 0)))
    assert len({answer.id for answer in answers}) == 1
    assert [answer.duplicate for answer in answers].count(False) == 1
    assert not any(answer.unchecked for answer in answers)
    assert len(cluster.first.stored) == 1
    assert not cluster.second.stored
    with pytest.raises(RefusedElsewhere, match="another body"):
        await cluster.send(key, body=b"2")


async def test_a_batch_is_split_by_owners(cluster: Cluster) -> None:
    keys = [cluster.owned(by=1), cluster.owned(), "", cluster.owned(), cluster.owned("orders", by=1)]
    drafts = [Draft("free", b"%d" % number, idempotency_key=key) for number, key in enumerate(keys[:3])]
    drafts += [Draft("free", b"1", idempotency_key=keys[3]), Draft("orders", b"4", idempotency_key=keys[4])]
    answers = await cluster.second.ingest.accept([*drafts, BusError("a broken line")], ANYONE)
    found = [answer.duplicate if isinstance(answer, AcceptedMessage) else None for answer in answers]
    assert sorted(found[:5]) == [False] * 4 + [True]
    assert found[1] != found[3]
    assert found[5] is None
    assert {one.body for one in cluster.first.stored} == {b"1", b"4"}
    assert {one.body for one in cluster.second.stored} == {b"0", b"2"}


async def test_a_key_is_unchecked_while_its_owner_does_not_answer(cluster: Cluster) -> None:
    key, app, cluster.network.app = cluster.owned(), cluster.network.app, None
    accepted = await cluster.send(key)
    assert accepted == (cluster.second.stored[0].id, False, True)
    assert await cluster.send(key) == (accepted.id, True, False)
    cluster.network.app = app
    await cluster.second.clock.advance(4.9)
    assert (await cluster.send(cluster.owned(number=1))).unchecked
    assert cluster.network.calls == 0
    await cluster.second.clock.advance(0.2)
    assert not (await cluster.send(cluster.owned(number=2))).unchecked
    assert cluster.network.calls == 1


async def test_one_call_finds_out_whether_an_owner_is_back(cluster: Cluster) -> None:
    cluster.network.app = None
    await cluster.send(cluster.owned())
    key = PeerKey(cluster.first.store, cluster.first.clock)
    cluster.network.app = ForwardedApp(cluster.first.ingest, cluster.leaders[0], cluster.owners[0], key)
    cluster.network.stands_still = asyncio.Event()
    await cluster.second.clock.advance(5.1)
    asking = asyncio.create_task(cluster.send(cluster.owned(number=1)))
    await cluster.second.clock.settle()
    assert (await cluster.send(cluster.owned(number=2))).unchecked
    cluster.network.stands_still.set()
    assert not (await asking).unchecked


async def test_a_destination_can_refuse_what_cannot_be_checked(cluster: Cluster) -> None:
    free = cluster.second.registry.catalog.destinations["free"]
    await cluster.second.registry.put_destination(replace(free, refuse_unchecked_keys=True))
    app, cluster.network.app = cluster.network.app, None
    key = cluster.owned()
    with pytest.raises(PeerUnavailable, match="not accepted"):
        await cluster.send(key)
    assert not cluster.second.stored
    assert not (await cluster.send("")).unchecked
    cluster.network.app = app
    await cluster.second.clock.advance(6)
    assert not (await cluster.send(key)).duplicate


async def test_an_unreachable_owner_keeps_its_keys(cluster: Cluster) -> None:
    crowd, key = cluster.crowds[1], cluster.owned()
    (gone,) = crowd.others
    crowd.others = []
    assert not (await cluster.send(key)).unchecked
    crowd.unreachable = [UnreachableProcess("first", "first", gone.url, gone.roles, 0, 1, "first")]
    assert (await cluster.send(cluster.owned(number=1))).unchecked
    assert not (await cluster.send(cluster.owned(by=1))).unchecked


async def test_a_process_accepts_only_the_keys_that_it_takes_for_its_own(cluster: Cluster) -> None:
    """Their views of the receivers differ while one joins or leaves."""
    keys = [cluster.owned(number=number) for number in range(3)]
    theirs = scope_of("free", ANYONE.id, (keys[1],))
    owner = cluster.owners[0].owner
    cluster.owners[0].owner = lambda scope: "third" if scope == theirs else owner(scope)  # type: ignore[method-assign]
    drafts = [Draft("free", key.encode(), idempotency_key=key) for key in keys]
    answers = await cluster.second.ingest.accept(drafts, ANYONE)
    assert [isinstance(one, AcceptedMessage) and one.unchecked for one in answers] == [False, True, False]
    assert [one.body for one in cluster.second.stored] == [keys[1].encode()]
    assert len(cluster.first.stored) == 2


@pytest.mark.parametrize("error", [SpoolFull("full"), SpoolFailed("EIO")])
async def test_an_owner_whose_disk_takes_nothing_stops_nobody_else(cluster: Cluster, error: Exception) -> None:
    cluster.first.spool.refuse = lambda: error
    assert (await cluster.send(cluster.owned())).unchecked


async def test_what_the_store_does_not_confirm_is_unchecked(cluster: Cluster) -> None:
    """A receiver that joins, or is back, could not find it there."""

    async def hangs(*_: object, **__: object) -> int:
        await asyncio.Event().wait()
        return 0

    put, cluster.first.store.put = cluster.first.store.put, hangs  # type: ignore[method-assign]
    sending = asyncio.create_task(cluster.send(cluster.owned(), at=0))
    await cluster.first.clock.advance(2.1)
    assert (await sending).unchecked
    assert (await cluster.send(cluster.owned(number=1), at=0)).unchecked
    cluster.first.store.put = put  # type: ignore[method-assign]
    await cluster.first.clock.advance(5)
    assert not (await cluster.send(cluster.owned(number=2), at=0)).unchecked


async def test_a_store_that_hangs_is_awaited_once(cluster: Cluster) -> None:
    async def hangs(*_: object, **__: object) -> int:
        await asyncio.Event().wait()
        return 0

    cluster.first.store.put = cluster.first.store.get = hangs  # type: ignore[assignment]
    sending = asyncio.create_task(cluster.send(cluster.owned(), at=0))
    await cluster.first.clock.advance(1.1)
    assert (await asyncio.wait_for(sending, 5)).unchecked


@pytest.mark.parametrize("at", [0, 1])
async def test_where_an_order_is_kept_the_answer_says_unchecked_as_well(cluster: Cluster, at: int) -> None:
    cluster.first.store.down = True
    assert (await cluster.send("once", at=at, destination="orders")).unchecked


async def test_a_key_whose_first_use_fails_is_looked_for_in_the_store(cluster: Cluster) -> None:
    cluster.first.spool.gate.clear()
    cluster.first.spool.refuse = once(SpoolFull("full"))
    key = cluster.owned()
    first = asyncio.create_task(cluster.send(key, at=0))
    await cluster.first.clock.settle()
    twin = asyncio.create_task(cluster.send(key, at=0))
    await cluster.first.clock.settle()
    cluster.first.store.down = True
    cluster.first.spool.gate.set()
    with pytest.raises(SpoolFull):
        await first
    assert (await twin).unchecked


async def test_an_owner_without_its_store_says_that_it_cannot_know(cluster: Cluster) -> None:
    cluster.first.store.down = True
    key = cluster.owned()
    first = await cluster.send(key)
    assert first.unchecked
    assert await cluster.send(key) == (first.id, True, False)


async def test_what_two_receivers_accepted_at_once_is_unchecked(cluster: Cluster) -> None:
    """Their views differ while one joins; then the store has one of both, for which the key stands from then on."""
    key = cluster.owned()
    for owners in cluster.owners:
        owners.owner = lambda _: ""  # type: ignore[method-assign]
    answers = await asyncio.gather(cluster.send(key, at=0), cluster.send(key, at=1))
    assert sorted(answer.unchecked for answer in answers) == [False, True]
    (kept,) = [answer.id for answer in answers if not answer.unchecked]
    assert {(await cluster.send(key, at=at)).id for at in (0, 1)} == {kept}
