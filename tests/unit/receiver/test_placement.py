"""What is accepted goes right into the direct queue where nothing has to happen before; else through the own spool."""

from __future__ import annotations

import pytest

from bus.domain.lanes import STORE, accepted_lane
from bus.domain.message import decode_message
from bus.domain.tracing.events import Stage
from bus.testing.spool import MemorySpool
from bus.transports.direct import DirectTransport
from bus.transports.router import TransportRouter
from receiver.draft import Draft
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
