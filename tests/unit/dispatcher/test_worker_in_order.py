"""A subscription of a destination that keeps an order: of each key one at a time, whatever fails."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from bus.domain.delivery.delivery import Origin, Status
from bus.domain.delivery.reasons import BEHIND
from bus.domain.delivery.retry import RetryPolicy, Schedule
from bus.domain.destination import Ordering
from bus.domain.message import Message, encode_message
from bus.domain.subscription import OnFailure, Subscription
from bus.errors import StoreUnavailable
from bus.testing.poster import Reply
from bus.testing.store import MemoryStore
from bus.testing.writes import DESTINATION, outcome
from dispatcher.batching import MOST_HELD
from tests.unit.dispatcher.dispatcher_world import URL, World, fresh, handed, held, subscription

GOOD, BAD = Reply(), Reply(500)
SLOW = RetryPolicy(Schedule((60_000,)), 3_600_000, None)


def policy(attempts: int) -> RetryPolicy:
    return RetryPolicy(Schedule((1000,)), 3_600_000, attempts)


async def publish(world: World, *bodies: str) -> list[Message]:
    """Publish messages named by their key and number, "a1"; one without a key is "-1"."""
    sent: list[Message] = []
    for body in bodies:
        sent += await world.publish(body=body.encode(), key="" if body[0] == "-" else body[0])
    return sent


def bodies(world: World, key: str = "") -> list[str]:
    return [body.decode() for body in world.bodies() if body.decode().startswith(key)]


class Scripted:
    """A subscriber that fails messages as often as they are named, and answers the others.

    ``hold`` is awaited before the next answer.
    """

    def __init__(self, world: World, *failing: str) -> None:
        self.hold: asyncio.Event | None = None
        self._left = list(failing)
        self._post = world.poster.post
        self._world = world
        world.poster.begin = lambda *_: None  # type: ignore[method-assign]
        world.poster.post = self.post  # type: ignore[method-assign]

    async def post(self, target: Any, headers: Any, body: bytes, timeout: float) -> Any:  # noqa: ASYNC109
        name, reply = body.decode(), GOOD
        if name in self._left:
            self._left.remove(name)
            reply = BAD
        self._world.poster.script(URL, reply._replace(hold=self.hold))
        self.hold = None
        return await self._post(target, headers, body, timeout)


def of(**changes: Any) -> Subscription:
    return subscription(**changes)


async def status(world: World, message: Message) -> tuple[Status, str]:
    trace = await world.store.trace(message.id)
    assert trace is not None
    delivery = trace.deliveries["billing"]
    return delivery.status, delivery.reason


async def test_a_key_is_one_at_a_time_and_keys_go_side_by_side(world: World) -> None:
    reply, event = held()
    world.poster.script(URL, reply)
    async with world.worker(of(max_concurrency=16), Ordering.KEY):
        await publish(world, "a1", "a2", "b1", "a3", "-1", "-2", "b2")
        await world.clock.settle()
        assert sorted(bodies(world)) == ["-1", "-2", "a1", "b1"]
        event.set()
        await world.clock.until(lambda: world.holds() == 0)
        assert bodies(world, "a") == ["a1", "a2", "a3"]
        assert bodies(world, "b") == ["b1", "b2"]


async def test_strict_is_one_at_a_time_whatever_the_key(world: World) -> None:
    reply, event = held()
    world.poster.script(URL, reply)
    async with world.worker(of(max_concurrency=16), Ordering.STRICT):
        await publish(world, "a1", "b1", "-1", "a2")
        await world.clock.settle()
        assert bodies(world) == ["a1"]
        event.set()
        await world.clock.until(lambda: world.holds() == 0)
        assert bodies(world) == ["a1", "b1", "-1", "a2"]
    assert world.poster.peak == 1


async def test_a_failure_holds_up_its_key_alone(world: World) -> None:
    Scripted(world, "a1", "a1", "a1")
    async with world.worker(of(), Ordering.KEY):
        await publish(world, "a1", "a2", "b1", "b2", "a3")
        await world.clock.advance(0.5)
        assert bodies(world) == ["a1", "b1", "b2"]
        await world.clock.advance(4)
        assert bodies(world, "a") == ["a1"] * 4 + ["a2", "a3"]
        assert world.holds() == 0
        assert [posted.headers["bus-attempt"] for posted in world.poster.posted if posted.body == b"a1"] == list("1234")


@pytest.mark.parametrize("on_failure", OnFailure)
async def test_what_is_given_up_blocks_or_not(world: World, on_failure: OnFailure) -> None:
    Scripted(world, "a1", "a1")
    async with world.worker(of(on_failure=on_failure, retry=policy(2)), Ordering.KEY):
        first, second = await publish(world, "a1", "a2")
        await world.store.write([first, second])
        await world.clock.advance(5)
        await world.feed()
        is_blocked = on_failure is OnFailure.BLOCK
        assert bodies(world) == ["a1", "a1"] + ([] if is_blocked else ["a2"])
        assert (await status(world, first))[0] is (Status.PARKED if on_failure is OnFailure.PARK else Status.DEAD)
        rows = await world.store.ordered_rows(DESTINATION, "billing", "a", limit=9)
        assert [row.message_id for row in rows] == ([first.id, second.id] if is_blocked else [])
        await world.clock.advance(600)
        assert len(world.bodies()) == (2 if is_blocked else 3)


@pytest.mark.parametrize("is_resent", [True, False])
@pytest.mark.parametrize("restarts", [True, False])
async def test_a_blocked_key_goes_on_when_a_person_decides(world: World, is_resent: bool, restarts: bool) -> None:
    Scripted(world, "a1")
    async with world.worker(of(retry=policy(1)), Ordering.KEY):
        first, second, third = await publish(world, "a1", "a2", "a3")
        await world.store.write([first, second, third])
        await world.clock.advance(2)
        await world.feed()
        if not restarts:
            await decide(world, first, is_resent)
            await world.clock.advance(3)
    if restarts:
        async with world.worker(of(retry=policy(1)), Ordering.KEY):
            await world.clock.advance(3)
            assert bodies(world) == ["a1"]
            await decide(world, first, is_resent)
            await world.clock.advance(3)
    assert bodies(world) == ["a1", *(["a1"] if is_resent else []), "a2", "a3"]
    await world.feed()
    assert (await status(world, first))[0] is (Status.DELIVERED if is_resent else Status.PARKED)
    assert await world.store.ordered_keys(DESTINATION, "billing") == []
    assert world.holds() == 0


@pytest.mark.parametrize("is_busy", [False, True])
async def test_what_was_resent_while_it_was_under_way_goes_out_again(world: World, is_busy: bool) -> None:
    script = Scripted(world, "a1")
    async with world.worker(of(), Ordering.KEY):
        first, _ = await publish(world, "a1", "a2")
        await world.store.write([first])
        await world.clock.settle()
        await world.feed()
        script.hold = reply = asyncio.Event()
        await world.clock.advance(1.5)  # its second attempt is under way
        await decide(world, first, is_resent=True)
        if is_busy:
            await publish(world, *(f"a{n}" for n in range(3, 9)))
        reply.set()
        await world.clock.advance(0.5)
        assert bodies(world)[:3] == ["a1", "a1", "a2"]
        await world.feed()
        await world.clock.advance(3)
        assert bodies(world)[-1] == "a1"
        assert bodies(world).count("a1") == 3
        await world.feed()
        assert await world.store.ordered_keys(DESTINATION, "billing") == []
    assert world.poster.posted[-1].headers["bus-attempt"] == "3"
    assert (await status(world, first))[0] is Status.DELIVERED


async def test_what_was_set_aside_while_it_was_under_way_is_not_tried_again(world: World) -> None:
    script = Scripted(world, "a1", "a1", "a1")
    async with world.worker(of(), Ordering.KEY):
        first, _ = await publish(world, "a1", "a2")
        await world.store.write([first])
        await world.clock.settle()
        await world.feed()
        script.hold = reply = asyncio.Event()
        await world.clock.advance(1.5)
        await decide(world, first, is_resent=False)
        reply.set()
        await world.clock.advance(5)
        assert bodies(world) == ["a1", "a1", "a2"]
        await world.feed()
        assert await world.store.ordered_keys(DESTINATION, "billing") == []
    assert (await status(world, first))[0] is Status.PARKED


async def decide(world: World, message: Message, is_resent: bool) -> None:
    state = Status.RESEND if is_resent else Status.PARKED
    copy = {"message": encode_message(message), "due_at": world.clock.now()} if is_resent else {}
    decision = outcome(message, "billing", state, 1, generation=1, attempt=None, tries=0, at=world.clock.now())
    await world.store.write([replace(decision, **copy)])


async def test_what_is_held_up_for_long_waits_in_the_store_and_comes_back_in_order(world: World) -> None:
    Scripted(world, "a1")
    names = [f"a{n}" for n in range(1, 200)]
    async with world.worker(of(retry=SLOW), Ordering.KEY):
        sent = await publish(world, *names[:150])
        await world.store.write(sent)
        await world.clock.advance(3)
        await world.feed()
        assert world.holds() == 0
        sent += await publish(world, *names[150:])
        await world.clock.advance(3)
        assert world.holds() == 0
        assert await status(world, sent[120]) == (Status.PENDING, BEHIND)
        assert len(await world.store.ordered_rows(DESTINATION, "billing", "a", limit=500)) == 199
        await publish(world, "b1")
        await world.clock.settle()
        assert bodies(world) == ["a1", "b1"]
        await world.clock.advance(60)
        assert bodies(world, "a") == ["a1", *names]
        await world.feed()
        assert await world.store.ordered_keys(DESTINATION, "billing") == []
        await publish(world, "a200")
        await world.clock.settle()
        assert bodies(world)[-1] == "a200"


async def test_a_key_goes_on_after_a_restart_where_it_was(world: World) -> None:
    Scripted(world, "a1", "a1")
    async with world.worker(of(retry=SLOW), Ordering.KEY):
        await publish(world, "a1", "a2", "a3")
        await world.clock.advance(3)
    await world.feed()
    async with world.worker(of(retry=SLOW), Ordering.KEY):
        await publish(world, "a4", "b1")
        await world.clock.advance(3)
        assert bodies(world) == ["a1", "b1"]
        await world.clock.advance(61)
        await world.feed()
        assert bodies(world, "a") == ["a1", "a1"]
        await world.clock.advance(61)
        assert bodies(world, "a") == ["a1", "a1", "a1", "a2", "a3", "a4"]
    assert [posted.headers["bus-attempt"] for posted in world.poster.posted if posted.body == b"a1"] == list("123")


async def test_nothing_goes_out_before_the_store_has_told(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    async def away(*_: Any, **__: Any) -> Sequence[Any]:
        calls.append(world.clock.monotonic())
        raise StoreUnavailable("down")

    with monkeypatch.context() as patch:
        patch.setattr(world.store, "ordered_keys", away)
        async with world.worker(of(), Ordering.KEY) as worker:
            await publish(world, "a1", "-1")
            await world.clock.advance(5)
            assert (bodies(world), worker.room) == ([], 0)
            assert len(calls) > 2
            patch.undo()
            await world.clock.advance(2)
            assert sorted(bodies(world)) == ["-1", "a1"]


async def test_outcomes_of_an_earlier_life_reach_the_store_first(world: World) -> None:
    Scripted(world, "a1")
    async with world.worker(of(retry=SLOW), Ordering.KEY):
        await publish(world, "a1", "a2")
        await world.clock.advance(1)
    async with world.worker(of(retry=SLOW), Ordering.KEY):
        await world.clock.advance(20)
        assert bodies(world) == ["a1"]
        await world.feed()
        await world.clock.advance(20)
        assert bodies(world) == ["a1"]
        await world.clock.advance(60)
        assert bodies(world) == ["a1", "a1", "a2"]


async def test_what_came_before_the_start_waits_behind_what_is_held_up(world: World) -> None:
    Scripted(world, "a1")
    async with world.worker(of(retry=SLOW), Ordering.KEY):
        await publish(world, "a1")
        await world.clock.advance(1)
    await world.feed()
    await publish(world, "a2", "b1")
    async with world.worker(of(retry=SLOW), Ordering.KEY):
        await world.clock.advance(2)
        assert bodies(world) == ["a1", "b1"]
        await world.clock.advance(61)
        assert bodies(world) == ["a1", "b1", "a1", "a2"]


async def test_keys_that_are_well_need_no_store(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    Scripted(world, "a1", "a1")
    async with world.worker(of(), Ordering.KEY):
        await world.clock.settle()

        async def away(*_: Any, **__: Any) -> Sequence[Any]:
            raise StoreUnavailable("down")

        for name in ("ordered_rows", "ordered_keys", "write", "trace", "finished"):
            monkeypatch.setattr(world.store, name, away)
        await publish(world, *(f"{key}{n}" for n in range(1, 6) for key in "abc"))
        await world.clock.advance(10)
        for key in "bc":
            assert bodies(world, key) == [f"{key}{n}" for n in range(1, 6)]
        assert bodies(world, "a") == ["a1", "a1"] + [f"a{n}" for n in range(1, 6)]


async def test_one_poisoned_key_leaves_the_window_to_the_others(world: World) -> None:
    names = [f"a{n}" for n in range(MOST_HELD + 500)]
    Scripted(world, *[names[0]] * 1000)
    async with world.worker(of(max_concurrency=4), Ordering.KEY):
        await publish(world, *names, "b1", "b2")
        await world.clock.advance(30)
        await world.feed()
        assert bodies(world, "b") == ["b1", "b2"]
        assert set(bodies(world, "a")) == {"a0"}
        rows = await world.store.ordered_keys(DESTINATION, "billing")
        assert rows[0].rows + world.holds() >= len(names)


async def test_a_copy_that_comes_again_is_not_delivered_again(world: World) -> None:
    Scripted(world, "a1")
    async with world.worker(of(retry=SLOW), Ordering.KEY):
        sent = await publish(world, "a1", "a2")
        await world.clock.advance(3)
        assert world.holds() == 0
        await world.transport.publish([_outgoing(one) for one in sent])
        await world.clock.advance(3)
        await world.feed()
        await world.clock.advance(60)
        await world.transport.publish([_outgoing(one) for one in sent])
        await world.clock.advance(1)
    assert bodies(world) == ["a1", "a1", "a2"]


def _outgoing(message: Message) -> Any:
    from bus.ports.transport import OutgoingMessage  # noqa: PLC0415

    return OutgoingMessage(message, encode_message(message))


@pytest.mark.parametrize("ordering", [Ordering.KEY, Ordering.STRICT])
async def test_a_resend_out_of_order_waits_for_its_key_and_holds_up_nobody(world: World, ordering: Ordering) -> None:
    script = Scripted(world, "a9")
    reply = asyncio.Event()
    async with world.worker(of(), ordering) as worker:
        resent = handed(fresh(90, world.clock, key="a", body=b"a9"), generation=1, by=Origin.RESEND)
        world.poster.script(URL, Reply(hold=reply))
        assert worker.offer(resent)
        await publish(world, "a1")
        await world.clock.settle()
        assert worker.offer(handed(fresh(91, world.clock, key="a", body=b"a8")))
        await world.clock.advance(2)
        reply.set()
        await world.clock.settle()
        assert bodies(world) == ["a9", "a1", "a8"]
        del script
        failed = next(one for one in await world.outcomes() if one.message_id == resent.message.id)
        assert (failed.status, failed.place) == (Status.RETRYING, 0)
        assert failed.attempt is not None
        assert failed.attempt.is_late
        marked = [posted.headers.get("bus-out-of-order") for posted in world.poster.posted]
        assert marked == ["true", None, "true"]


class Losing(MemoryStore):
    """A store that takes its time: meanwhile the process has lost the destination to another one."""

    def __init__(self) -> None:
        super().__init__()
        self.loses = False
        self.keeps = True

    async def write(self, items: Sequence[Any]) -> None:
        self.keeps &= not self.loses
        await super().write(items)


@pytest.mark.parametrize("when", ["before it is stored", "while it is stored"])
async def test_who_lost_a_strict_order_takes_nothing_from_the_one_who_has_it(world: World, when: str) -> None:
    """That one has read already which rows there are."""
    world.store = store = Losing()
    Scripted(world, "a1")
    async with world.worker(of(retry=SLOW), Ordering.STRICT, keeps=lambda _: store.keeps):
        await publish(world, "a1", "a2")
        await world.clock.settle()
        assert (bodies(world), world.holds()) == (["a1"], 2)
        store.keeps, store.loses = when != "before it is stored", True
        await world.clock.advance(30)
        assert world.holds() == 2


async def test_a_resend_out_of_a_strict_order_is_marked(world: World) -> None:
    Scripted(world, "a9")
    async with world.worker(of(), Ordering.STRICT) as worker:
        resent = handed(fresh(90, world.clock, body=b"a9"), generation=1, by=Origin.RESEND)
        assert worker.offer(resent)
        await publish(world, "a1")
        await world.clock.advance(2)
        assert bodies(world) == ["a9", "a1"]
        failed = next(one for one in await world.outcomes() if one.message_id == resent.message.id)
        assert (failed.status, failed.place) == (Status.RETRYING, 0)
        assert failed.attempt is not None
        assert failed.attempt.is_late
        marked = [posted.headers.get("bus-out-of-order") for posted in world.poster.posted]
        assert marked == ["true", None]


async def test_a_resend_for_a_key_that_is_held_up_is_not_taken(world: World) -> None:
    Scripted(world, "a1")
    async with world.worker(of(retry=SLOW), Ordering.KEY) as worker:
        await publish(world, "a1")
        await world.clock.advance(1)
        assert not worker.offer(handed(fresh(91, world.clock, key="a", body=b"a8")))
        assert worker.offer(handed(fresh(92, world.clock, key="b", body=b"b8")))


async def test_what_keeps_an_order_stays_while_the_subscription_is_paused(world: World) -> None:
    Scripted(world, "a1")
    async with world.worker(of(), Ordering.KEY) as worker:
        await publish(world, "a1", "a2", "a3")
        await world.clock.settle()
        worker.update(of(paused=True))
        await publish(world, "a4")
        await world.clock.advance(5)
        assert bodies(world) == ["a1"]
        worker.update(of())
        await world.clock.advance(5)
        assert bodies(world) == ["a1", "a1", "a2", "a3", "a4"]


async def test_a_filter_passes_over_in_order(world: World) -> None:
    reply, event = held()
    world.poster.script(URL, reply)
    async with world.worker(of(filter="biz_id != 'order-1'"), Ordering.KEY):
        await publish(world, "a0", "a1", "a2")
        await world.clock.settle()
        event.set()
        await world.clock.until(lambda: world.holds() == 0)
        assert bodies(world) == ["a0", "a2"]


async def test_a_store_that_goes_away_while_rows_are_read_leaves_no_key_behind(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    Scripted(world, "a1", "b1", "c1")
    async with world.worker(of(retry=SLOW), Ordering.KEY):
        await publish(world, *(f"{key}{n}" for key in "abc" for n in (1, 2)))
        await world.clock.advance(3)
        await world.feed()
        read, calls = world.store.ordered_rows, []

        async def fails_once(*given: Any, **named: Any) -> Any:
            calls.append(given)
            if len(calls) == 2:
                raise StoreUnavailable("down")
            return await read(*given, **named)

        monkeypatch.setattr(world.store, "ordered_rows", fails_once)
        await world.clock.advance(65)
        for key in "abc":
            assert bodies(world, key) == [f"{key}1", f"{key}1", f"{key}2"]


@pytest.mark.parametrize("on_failure", [OnFailure.PARK, OnFailure.SKIP])
async def test_those_behind_one_that_is_given_up_wait_until_that_is_durable(
    world: World, on_failure: OnFailure
) -> None:
    Scripted(world, "a1")
    async with world.worker(of(on_failure=on_failure, retry=policy(1)), Ordering.KEY):
        world.spool.gate.clear()
        await publish(world, "a1", "a2", "b1", "b2")
        await world.clock.advance(2)
        assert sorted(bodies(world)) == ["a1", "b1", "b2"]
        world.spool.gate.set()
        await world.clock.advance(2)
        assert bodies(world, "a") == ["a1", "a2"]


async def test_what_fails_while_the_worker_stops_is_recorded_and_waits_for_the_next_one(world: World) -> None:
    script = Scripted(world, "a1")
    async with world.worker(of(), Ordering.KEY) as worker:
        script.hold = reply = asyncio.Event()
        await publish(world, "a1", "a2")
        await world.clock.settle()
        worker.stop()
        await world.clock.settle()
        reply.set()
    assert [one.status for one in await world.outcomes()] == [Status.RETRYING]
    await world.feed()
    async with world.worker(of(), Ordering.KEY):
        await world.clock.advance(3)
    assert bodies(world) == ["a1", "a1", "a2"]
