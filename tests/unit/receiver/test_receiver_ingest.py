"""Accepting messages: durable before the answer, once per id and key, and nothing remembered of what failed."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from bus.domain.delivery.delivery import Status
from bus.domain.identity import id_time, new_id
from bus.domain.subscription import Subscription
from bus.domain.times import DAY
from bus.domain.tracing.events import Stage
from bus.errors import (
    AccessDenied,
    BusError,
    Conflict,
    InvalidDestination,
    InvalidMessage,
    MessageTooLarge,
    SpoolFailed,
    SpoolFull,
    StoreUnavailable,
)
from bus.http.draft import Draft
from bus.http.messages import AcceptedMessage
from bus.security.principals import ANYONE, Principal
from bus.telemetry import metrics
from bus.testing.writes import message, outcome
from tests.harness.gated_spool import once
from tests.unit.receiver.receiver_world import World, drafts

MINUTE = 60_000


@pytest.fixture
async def world() -> World:
    world = World()
    await world.destination("orders", "billing", "mail")
    return world


async def test_a_message_is_stamped_and_durable(world: World) -> None:
    answer = await world.send(b"\x00\xff", biz_id="42", source="shop", key="k", headers={"X-A": "1"})
    assert not answer.duplicate
    (stored,) = world.stored
    now = world.clock.now()
    assert (stored.id, stored.body, stored.biz_id, stored.source) == (answer.id, b"\x00\xff", "42", "shop")
    assert (stored.received_at, stored.sent_at, stored.retention_days) == (now, now, 30)
    assert (stored.expected, id_time(stored.id), stored.headers) == (("billing", "mail"), now, {"X-A": "1"})


@pytest.mark.parametrize(
    ("body", "content_type", "is_parsed", "counted"),
    [
        (b'{"n": 1', "application/json", False, 1),
        (b"x", "application/vnd.x+json; charset=utf-8", False, 1),
        (b'{"n": 1}', "application/json", False, 0),
        ('{"n": 1}'.encode("utf-16"), "application/json", False, 0),
        (b'{"n": 1', "text/plain", False, 0),
        (b'{"n": 1}', "application/json", True, 0),
    ],
)
async def test_a_body_that_should_be_json_and_is_not_is_counted_and_kept(
    world: World, body: bytes, content_type: str, is_parsed: bool, counted: int
) -> None:
    def count() -> float:
        labels = {"destination": "orders", "source": "not-json"}
        return metrics.REGISTRY.get_sample_value("bus_messages_not_json_total", labels) or 0

    before = count()
    await world.send(body, content_type=content_type, is_parsed=is_parsed, source="not-json")
    assert count() - before == counted
    assert [one.body for one in world.stored] == [body]


async def test_a_message_expects_the_subscriptions_whose_pattern_takes_its_key(world: World) -> None:
    shoes = Subscription(destination="orders", name="shoes", url="http://a.example/", routing_pattern="*.shoes")
    await world.registry.put_subscription(shoes)
    await world.send(routing_key="eu.shoes")
    await world.send(routing_key="eu.hats")
    assert [set(one.expected) for one in world.stored] == [{"billing", "mail", "shoes"}, {"billing", "mail"}]


async def test_what_the_producer_says_about_time_and_id_is_kept(world: World) -> None:
    known, original = world.id(before=5000), new_id(1)
    answer = await world.send(
        id=known, sent_at=world.clock.now() - 5000, original_id=original, replay=f"again-1 {original}"
    )
    assert answer.id == world.stored[0].id == known
    assert world.stored[0].sent_at == world.clock.now() - 5000
    assert world.stored[0].original_id == original
    assert world.stored[0].replay == f"again-1 {original}"


async def test_the_answer_waits_for_the_disk(world: World) -> None:
    world.spool.gate.clear()
    sending = asyncio.create_task(world.send())
    await world.clock.settle()
    assert not sending.done()
    world.spool.gate.set()
    assert not (await sending).duplicate


class Late:
    """A configuration in which the last change is put in force by the test."""

    def __init__(self) -> None:
        self.is_current = False
        self._current = asyncio.Event()

    async def until_current(self) -> None:
        if not self.is_current:
            await self._current.wait()

    def become_current(self) -> None:
        self.is_current = True
        self._current.set()


@pytest.mark.parametrize("fields", [{}, {"idempotency_key": "once"}])
async def test_a_message_waits_until_the_configuration_is_current(world: World, fields: dict[str, str]) -> None:
    world.configuration = late = Late()
    world.restart()
    sending = asyncio.create_task(world.send(**fields))
    await world.clock.settle()
    assert not (sending.done())
    assert not (world.stored)
    await world.destination("orders", "new")
    late.become_current()
    await sending
    assert "new" in world.stored[0].expected


async def test_what_is_refused_after_the_wait_is_told_to_who_asks(world: World) -> None:
    world.configuration = late = Late()
    world.restart()
    sending = asyncio.create_task(world.send(destination="nowhere"))
    await world.clock.settle()
    late.become_current()
    with pytest.raises(InvalidDestination):
        await sending


async def test_a_message_is_refused_whose_configuration_ages_while_a_repetition_is_looked_for(world: World) -> None:
    """Its destination may be another process's by now."""
    world.configuration = late = Late()
    late.is_current = True
    world.restart()
    known = world.ingest._repetitions.known

    async def slow(*of: Any) -> frozenset[bytes]:
        late.is_current = False
        world.ingest._repetitions.known = known  # type: ignore[method-assign]
        return await known(*of)

    world.ingest._repetitions.known = slow  # type: ignore[method-assign]
    with pytest.raises(StoreUnavailable, match="could not be read in time"):
        await world.send(id="01a1fdfa-4664-7000-8000-000000000001")
    assert not (world.stored)
    late.become_current()
    assert not (await world.send(id="01a1fdfa-4664-7000-8000-000000000001")).duplicate


async def test_a_message_is_refused_whose_configuration_ages_while_its_body_comes(world: World) -> None:
    world.configuration = late = Late()
    world.restart()
    assert not world.ingest.awaits_disk_alone("orders")
    with pytest.raises(StoreUnavailable, match="could not be read in time"):
        world.ingest.accept_with(Draft("orders", b""), ANYONE, asyncio.get_running_loop().create_future())
    late.become_current()
    assert world.ingest.awaits_disk_alone("orders")


async def test_what_nobody_waits_for_any_more_is_accepted_all_the_same(world: World) -> None:
    world.spool.gate.clear()
    sending = asyncio.create_task(world.send())
    await world.clock.settle()
    sending.cancel()
    await world.clock.settle()
    world.spool.gate.set()
    await world.clock.settle()
    (stored,) = world.stored
    assert [event.id for event in world.events.of(Stage.ACCEPTED)] == [stored.id]


async def test_what_is_refused_at_once_is_told_to_who_asks_and_nobody_else(world: World) -> None:
    waiter: asyncio.Future[AcceptedMessage] = asyncio.get_running_loop().create_future()
    with pytest.raises(InvalidDestination):
        world.ingest.accept_with(Draft("nowhere", b""), ANYONE, waiter)
    await world.clock.settle()
    assert not waiter.done()
    assert not world.stored


async def test_a_batch_shares_one_append_and_is_answered_in_order(world: World) -> None:
    ids = [world.id() for _ in range(50)]
    answers = await world.ingest.accept(drafts(*ids), ANYONE)
    assert answers == [AcceptedMessage(one, False) for one in ids]
    assert world.spool.appends == 1
    assert [one.id for one in world.stored] == ids


async def test_a_repeated_id_is_a_duplicate(world: World) -> None:
    known = world.id()
    assert await world.send(id=known) == AcceptedMessage(known, False)
    assert await world.send(id=known, biz_id="42") == AcceptedMessage(known, True)
    assert len(world.stored) == 1


async def test_an_id_twice_in_a_batch_is_stored_once(world: World) -> None:
    one, other = world.id(), world.id()
    answers = await world.ingest.accept(drafts(one, other, one), ANYONE)
    assert answers == [AcceptedMessage(one, False), AcceptedMessage(other, False), AcceptedMessage(one, True)]
    assert [found.id for found in world.stored] == [one, other]


async def test_a_twin_waits_until_the_first_is_durable(world: World) -> None:
    known = world.id()
    world.spool.gate.clear()
    first = asyncio.create_task(world.send(id=known))
    await world.clock.settle()
    twins = [asyncio.create_task(world.send(id=known)) for _ in range(3)]
    await world.clock.settle()
    assert not any(twin.done() for twin in twins)
    world.spool.gate.set()
    assert await first == AcceptedMessage(known, False)
    assert [await twin for twin in twins] == [AcceptedMessage(known, True)] * 3
    assert len(world.stored) == 1


async def test_a_twin_of_one_that_failed_is_stored_itself(world: World) -> None:
    known = world.id()
    world.spool.gate.clear()
    world.spool.refuse = once(SpoolFull("full"))
    sends = [asyncio.create_task(world.send(id=known)) for _ in range(4)]
    await world.clock.settle()
    world.spool.gate.set()
    results = await asyncio.gather(*sends, return_exceptions=True)
    assert isinstance(results[0], SpoolFull)
    assert sorted(results[1:]) == [
        AcceptedMessage(known, False),
        AcceptedMessage(known, True),
        AcceptedMessage(known, True),
    ]
    assert len(world.stored) == 1


@pytest.mark.parametrize("error", [SpoolFull("full"), SpoolFailed("EIO")])
async def test_of_what_the_disk_refused_nothing_is_remembered(world: World, error: BusError) -> None:
    ids = [world.id() for _ in range(3)]
    world.spool.refuse = once(error)
    with pytest.raises(type(error)):
        await world.ingest.accept(drafts(*ids, key="") + drafts("", key="once"), ANYONE)
    answers = await world.ingest.accept(drafts(*ids) + drafts("", key="once"), ANYONE)
    assert [answer.duplicate for answer in answers if isinstance(answer, AcceptedMessage)] == [False] * 4
    assert len(world.stored) == 4


async def test_a_cancelled_call_leaves_no_twin_waiting(world: World) -> None:
    known = world.id()
    world.spool.gate.clear()
    first = asyncio.create_task(world.send(id=known))
    await world.clock.settle()
    twin = asyncio.create_task(world.send(id=known))
    await world.clock.settle()
    first.cancel()
    world.spool.gate.set()
    assert await asyncio.wait_for(twin, 5) == AcceptedMessage(known, False)


async def test_batches_with_the_same_ids_in_another_order_do_not_wait_for_each_other(world: World) -> None:
    """They are repeated after a restart, so that the store is asked about each id."""
    ids = [world.id(before=MINUTE) for _ in range(6)]
    for turn in (False, True):
        batches = [drafts(*ids), drafts(*reversed(ids)), drafts(*ids[3:], *ids[:3])]
        if turn:
            await world.clock.advance(1)
            world.restart()
        calls = asyncio.gather(*(world.ingest.accept(batch, ANYONE) for batch in batches))
        answers = [one for found in await asyncio.wait_for(calls, 5) for one in found]
        assert sum(not one.duplicate for one in answers if isinstance(one, AcceptedMessage)) == (0 if turn else 6)
        await world.write_stored()
    assert sorted(one.id for one in world.stored) == sorted(ids)


async def test_of_an_old_id_sent_twice_at_once_one_is_stored(world: World) -> None:
    known = world.id(before=MINUTE)
    answers = await asyncio.gather(*(world.send(id=known) for _ in range(5)))
    assert sorted(answers) == [AcceptedMessage(known, False)] + [AcceptedMessage(known, True)] * 4
    assert len(world.stored) == 1


async def test_after_a_restart_the_store_knows_ids(world: World) -> None:
    known, other = world.id(), world.id()
    await world.send(id=known)
    await world.write_stored()
    await world.clock.advance(1)
    world.restart()
    assert await world.ingest.accept(drafts(known, other), ANYONE) == [
        AcceptedMessage(known, True),
        AcceptedMessage(other, False),
    ]


@pytest.mark.parametrize("restart", [False, True])
@pytest.mark.parametrize("other", [{"body": b"other"}, {"destination": "mails"}, {"body": b""}])
async def test_an_id_used_again_for_something_else_is_refused(
    world: World, restart: bool, other: dict[str, Any]
) -> None:
    await world.destination("mails")
    known = world.id()
    await world.send(id=known)
    if restart:
        await world.write_stored()
        await world.clock.advance(1)
        world.restart()
    with pytest.raises(Conflict, match=known):
        await world.send(**{"id": known, **other})
    assert await world.send(id=known, headers={"x-a": "1"}) == AcceptedMessage(known, True)
    assert len(world.stored) == 1


async def test_an_id_used_twice_in_a_batch_for_two_messages_is_refused_once(world: World) -> None:
    known = world.id()
    batch = [Draft("orders", body, id=known) for body in (b"1", b"2", b"1")]
    first, other, twin = await world.ingest.accept(batch, ANYONE)
    assert (first, twin) == (AcceptedMessage(known, False), AcceptedMessage(known, True))
    assert isinstance(other, Conflict)
    assert [found.body for found in world.stored] == [b"1"]


async def test_an_id_of_which_only_an_outcome_has_arrived_is_a_repetition(world: World) -> None:
    known = world.id()
    await world.store.write([outcome(message(id=known), "billing", Status.DELIVERED)])
    await world.clock.advance(1)
    world.restart()
    assert await world.send(b"anything", id=known) == AcceptedMessage(known, True)


async def test_a_store_that_does_not_answer_stops_nobody(world: World) -> None:
    world.store.down = True
    old = world.id(before=MINUTE)
    assert not (await world.send(id=old)).duplicate
    assert not (await world.send(b"1", idempotency_key="once")).duplicate
    assert (await world.send(b"1", idempotency_key="once")).duplicate
    with pytest.raises(Conflict):
        await world.send(b"2", idempotency_key="once")


async def test_ids_beyond_memory_are_asked_of_the_store(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("receiver.duplicates._RECENT", 10)
    ids = []
    for _ in range(25):
        await world.clock.advance(0.01)
        ids.append((await world.send(id=world.id())).id)
    await world.write_stored()
    assert [(await world.send(id=one)).duplicate for one in ids] == [True] * 25


@pytest.mark.parametrize("away", [10 * MINUTE + 1, -30 * DAY - 1, 2**47])
async def test_an_id_of_an_impossible_time_is_refused(world: World, away: int) -> None:
    with pytest.raises(InvalidMessage) as refused:
        await world.send(id=new_id(min(world.clock.now() + away, 2**48 - 1)))
    assert refused.value.field == "id_time"
    assert world.stored == []


@pytest.mark.parametrize("away", [10 * MINUTE, -30 * DAY])
async def test_an_id_of_a_possible_time_is_taken(world: World, away: int) -> None:
    await world.send(id=new_id(world.clock.now() + away))
    assert len(world.stored) == 1


async def test_the_retention_of_the_destination_decides(world: World) -> None:
    await world.destination("short", retention_days=1)
    with pytest.raises(InvalidMessage, match="retention"):
        await world.send(destination="short", id=new_id(world.clock.now() - 2 * DAY))
    with pytest.raises(InvalidMessage, match="retention of 1 days") as refused:
        await world.send(destination="short", deliver_at=world.clock.now() + DAY + 1)
    assert refused.value.field == "deliver_at"
    answer = await world.send(destination="short", deliver_at=world.clock.now() + DAY)
    assert (world.stored[-1].id, world.stored[-1].deliver_at) == (answer.id, world.clock.now() + DAY)
    assert world.stored[-1].retention_days == 1


async def test_own_headers_count_for_the_size(world: World) -> None:
    await world.destination("small", max_bytes=10)
    await world.send(b"1234", "small", headers={"abc": "ü1"})
    with pytest.raises(MessageTooLarge) as caught:
        await world.send(b"12345", "small", headers={"abc": "ü1"})
    assert caught.value.field == "headers"


async def test_a_refused_one_does_not_stop_the_others(world: World) -> None:
    await world.destination("small", max_bytes=3)
    limited = Principal("1", "key x", ("producer",), ("orders", "small"))
    await world.destination("mails")
    malformed = InvalidMessage("not a message")
    batch: list[Draft | BusError] = [
        Draft("orders", b"1"),
        malformed,
        Draft("nowhere", b"1"),
        Draft("no way", b"1"),
        Draft("small", b"1234"),
        Draft("mails", b"1"),
        Draft("orders", b"1", id=new_id(1)),
        Draft("small", b"123"),
    ]
    answers = await world.ingest.accept(batch, limited)
    assert answers[1] is malformed
    assert [type(answer) for answer in answers] == [
        *(AcceptedMessage, InvalidMessage, InvalidDestination, InvalidDestination, MessageTooLarge, AccessDenied),
        *(InvalidMessage, AcceptedMessage),
    ]
    assert [one.destination for one in world.stored] == ["orders", "small"]
    assert world.spool.appends == 1


async def test_nothing_to_store_touches_no_disk(world: World) -> None:
    assert await world.ingest.accept([], ANYONE) == []
    assert isinstance((await world.ingest.accept([Draft("nowhere", b"")], ANYONE))[0], InvalidDestination)
    assert world.spool.appends == 0


async def test_a_paused_destination_accepts(world: World) -> None:
    await world.destination("orders", paused=True)
    assert not (await world.send()).duplicate


async def test_the_limit_is_that_of_the_destination(world: World) -> None:
    await world.destination("small", max_bytes=3)
    assert world.ingest.limit("small") == 3
    for code in ("nowhere", "no way", ""):
        with pytest.raises(InvalidDestination):
            world.ingest.limit(code)


async def test_a_store_that_hangs_does_not_keep_the_answer_back(world: World) -> None:
    async def hangs(*_: object, **__: object) -> int:
        await asyncio.Event().wait()
        return 0

    world.store.put = hangs
    sending = asyncio.create_task(world.send(b"1", idempotency_key="once"))
    await world.clock.advance(0.1)
    first = await sending
    assert await world.send(b"1", idempotency_key="once") == AcceptedMessage(first.id, True)


async def test_an_old_configuration_cannot_tell_that_a_destination_is_unknown(world: World) -> None:
    world.old = True
    await world.destination("orders")
    assert (await world.send()).id
    with pytest.raises(StoreUnavailable, match="kept on disk"):
        await world.send(destination="paid")


async def test_an_id_that_was_accepted_is_known_when_the_clock_is_put_back(world: World) -> None:
    world.clock.jump(DAY)
    known = world.id()
    await world.send(id=known)
    world.clock.jump(-DAY)
    assert await world.send(id=known) == AcceptedMessage(known, True)
    await world.write_stored()
    world.restart()
    assert await world.send(id=known) == AcceptedMessage(known, True)
    with pytest.raises(InvalidMessage, match="ahead"):
        await world.send(id=new_id(world.clock.now() + DAY))
