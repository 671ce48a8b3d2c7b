"""Accepted messages go to the direct queue where nothing has to happen before; else through the own spool."""

from __future__ import annotations

import pytest

from bus.domain.destination import Ordering
from bus.domain.lanes import STORE, accepted_lane
from bus.domain.message import decode_message, encode_message
from bus.domain.tracing.events import Stage
from bus.errors import BusError, InvalidMessage, QuotaUsedUp
from bus.http.draft import Draft
from bus.http.messages import AcceptedMessage
from bus.ports.transport import OutgoingMessage
from bus.testing.spool import MemorySpool
from bus.testing.writes import message
from bus.transports.direct import DirectTransport
from bus.transports.router import TransportRouter
from tests.unit.receiver.receiver_world import ANYONE, World

LANE = accepted_lane("orders")


class DirectWorld(World):
    """A receiver in the process of a dispatcher."""

    def restart(self) -> None:
        self.queue = MemorySpool(consumers=(), limit=100_000)
        self.direct = DirectTransport(self.queue)
        self.router = TransportRouter([self.direct], self.clock)
        self.registry._listeners = [self.router.apply]
        super().restart()

    def waiting(self) -> dict[tuple[str, str], int]:
        """Return how many records each consumer of the direct queue has, where it has any."""
        return {(one.lane, one.consumer): one.records for one in self.queue.stats().consumers if one.records}


@pytest.fixture
async def world() -> DirectWorld:
    world = DirectWorld()
    await world.destination("orders", "billing", "mail")
    return world


async def test_it_waits_in_the_direct_queue_for_its_subscriptions_and_the_store(world: DirectWorld) -> None:
    accepted = await world.send(b"1")
    assert world.waiting() == {(LANE, STORE): 1, (LANE, "billing"): 1, (LANE, "mail"): 1}
    assert world.spool.stats().records == 0
    (found,) = await (await world.direct.consume("orders", "billing")).receive(9)
    assert (found.message.id, found.message.body, found.message.expected) == (accepted.id, b"1", ("billing", "mail"))
    assert [event.id for event in world.events.of(Stage.ACCEPTED)] == [accepted.id]
    (published,) = world.events.of(Stage.PUBLISHED)
    assert (published.id, published.transport, published.status) == (accepted.id, "direct", "confirmed")
    assert world.direct.lags()["orders", "billing"].records == 1


async def test_a_batch_goes_there_with_its_ids_and_keys(world: DirectWorld) -> None:
    drafts = [Draft("orders", b"%d" % n, id=world.id()) for n in range(3)] + [
        Draft("orders", b"4", idempotency_key="k")
    ]
    answers = await world.ingest.accept(drafts, ANYONE)
    assert [answer.id for answer in answers[:3]] == [draft.id for draft in drafts[:3]]  # type: ignore[union-attr]
    assert world.waiting()[LANE, "billing"] == 4
    again = await world.ingest.accept(drafts, ANYONE)
    assert [answer.duplicate for answer in again] == [True] * 4  # type: ignore[union-attr]
    assert world.waiting()[LANE, "billing"] == 4


async def test_what_waits_for_its_time_goes_through_the_own_spool(world: DirectWorld) -> None:
    await world.send(b"later", deliver_at=world.clock.now() + 60_000)
    assert (world.waiting(), world.spool.stats().records) == ({}, 1)


async def test_what_comes_behind_what_waits_to_be_published_does_not_overtake_it(world: DirectWorld) -> None:
    await world.destination("orders", paused=True)
    await world.send(b"1")
    await world.destination("orders")
    await world.send(b"2")
    assert (world.waiting(), world.spool.stats().records) == ({}, 2)
    records = await world.spool.claim("publish", 9, "orders")
    assert [decode_message(record.payload).body for record in records] == [b"1", b"2"]
    world.spool.ack("publish", records)
    await world.send(b"3")
    assert world.waiting()[LANE, "billing"] == 1


async def test_what_nobody_subscribed_to_goes_through_the_own_spool(world: DirectWorld) -> None:
    await world.destination("nobody")
    await world.send(b"1", "nobody")
    assert (world.waiting(), world.spool.stats().records) == ({}, 1)


async def test_a_call_is_kept_in_one_place(world: DirectWorld) -> None:
    """All or none of it is stored, so that one append has all."""
    await world.destination("nobody")
    await world.ingest.accept([Draft("orders", b"1"), Draft("nobody", b"2"), Draft("missing", b"3")], ANYONE)
    assert (world.waiting(), world.spool.stats().records) == ({}, 2)


async def test_over_its_share_of_the_direct_queue_it_goes_through_the_own_spool(world: DirectWorld) -> None:
    for _ in range(4):
        await world.send(bytes(20_000))
    assert world.waiting()[LANE, "billing"] == 3
    assert world.spool.stats().records == 1


async def test_a_subscription_that_is_removed_leaves_both_lanes(world: DirectWorld) -> None:
    await world.send(b"1")
    await world.registry.remove_subscription("orders", "mail")
    assert world.waiting() == {(LANE, STORE): 1, (LANE, "billing"): 1}
    await world.send(b"2")
    assert world.waiting() == {(LANE, STORE): 2, (LANE, "billing"): 2}


async def test_while_others_fill_the_direct_queue_it_goes_through_the_own_spool(world: DirectWorld) -> None:
    for code in ("a", "b"):
        await world.destination(code, "slow")
        for _ in range(2):
            await world.send(bytes(24_000), code)
    assert world.queue.room(LANE).free < 20_000
    await world.send(bytes(20_000))
    assert world.waiting().get((LANE, "billing"), 0) == 0
    assert world.spool.stats().records == 1


async def ordered(world: DirectWorld, **changes: object) -> None:
    await world.destination("orders", ordering=Ordering.KEY, **changes)


async def test_where_an_order_is_kept_a_pause_sends_nothing_another_way(world: DirectWorld) -> None:
    await ordered(world)
    await world.send(b"1")
    await ordered(world, paused=True)
    await world.send(b"2")
    assert world.waiting()[LANE, "billing"] == 2
    assert world.spool.stats().records == 0


async def test_where_an_order_is_kept_a_full_queue_refuses(world: DirectWorld) -> None:
    await ordered(world)
    await world.send(b"x" * 60_000)
    with pytest.raises(QuotaUsedUp):
        await world.send(b"x" * 60_000)
    assert world.spool.stats().records == 0


async def test_what_keeps_an_order_stays_in_its_queue_whatever_comes_with_it(world: DirectWorld) -> None:
    await ordered(world)
    await world.destination("later", "billing")
    drafts = [Draft("orders", b"1"), Draft("later", b"2", deliver_at=world.clock.now() + 60_000), Draft("orders", b"3")]
    answers = await world.ingest.accept(drafts, ANYONE)
    assert not any(isinstance(answer, BusError) for answer in answers)
    assert world.waiting()[LANE, "billing"] == 2
    assert world.spool.stats().records == 1


async def test_behind_one_that_is_refused_for_now_none_of_its_order_passes(world: DirectWorld) -> None:
    await ordered(world, spool_share=0.5)
    await world.destination("free", "billing")
    sizes = (10, 60_000, 10)
    drafts = [Draft("orders", b"x" * size) for size in sizes] + [Draft("free", b"1"), Draft("orders", b"4")]
    taken = [isinstance(answer, AcceptedMessage) for answer in await world.ingest.accept(drafts, ANYONE)]
    assert taken == [True, False, False, True, False]
    assert world.waiting()[LANE, "billing"] == 1


async def test_what_keeps_an_order_is_never_for_later(world: DirectWorld) -> None:
    await ordered(world)
    with pytest.raises(InvalidMessage, match="keeps an order"):
        await world.ingest.accept_one(Draft("orders", b"1", deliver_at=world.clock.now() + 1000), ANYONE)


async def test_lanes_of_an_order_take_no_turns(world: DirectWorld) -> None:
    await ordered(world)
    sent = [message(n, expected=("billing",)) for n in range(4)]
    consumer = await world.direct.consume("orders", "billing")
    await world.send(b"accepted 1")
    await world.send(b"accepted 2")
    await world.direct.publish([OutgoingMessage(one, encode_message(one)) for one in sent[:2]])
    await world.direct.move_in("billing", [OutgoingMessage(one, encode_message(one)) for one in sent[2:]])
    found = [(await consumer.receive(1))[0].message.body for _ in range(6)]
    assert found == [sent[2].body, sent[3].body, sent[0].body, sent[1].body, b"accepted 1", b"accepted 2"]
