"""Stuck: expected, without an outcome, and on no transport; not what waits in a backlog, is paused, or is for later."""

from __future__ import annotations

import asyncio

import pytest

from bus.cluster.member import HeldMessages
from bus.domain.delivery.delivery import Origin, Status
from bus.domain.destination import Ordering, TransportName
from bus.domain.message import Message, encode_message
from bus.domain.times import DAY
from bus.ports.spool import NewRecord
from bus.testing.writes import DESTINATION, NOON, message, outcome
from compensator.stuck import StuckSearch
from tests.unit.compensator.compensator_world import LANE, MAIL, World, delivered

LATER = 400.0  # seconds; stuck_after is 300 s


@pytest.fixture
async def world() -> World:
    world = World()
    await world.destination()
    await world.subscription("billing")
    await world.subscription("mail")
    return world


async def accepted(world: World, *numbers: int, **changes) -> list[Message]:
    """Bring messages into the store as the receiver's feed does."""
    found = [message(number, **changes) for number in numbers]
    await world.store.write(found)
    return found


async def rows(world: World) -> dict[tuple[str, str], int]:
    return await world.store.due(0)


async def test_a_message_lost_from_the_transport_is_found_and_handed_over(world: World) -> None:
    sent = await accepted(world, 1, 2, 3)
    await world.publish(*sent)
    world.transport.lose(*LANE)
    await world.clock.advance(LATER)
    assert await world.stuck.step() == 3
    assert await rows(world) == {LANE: 3}
    await world.compensator.step()
    assert sorted(world.dispatching.ids) == sorted(one.id for one in sent)
    (offered, *_) = world.dispatching.offered
    assert (offered.by, offered.generation, offered.attempts, offered.tries) == (Origin.STUCK, 0, 0, 0)
    assert offered.since == world.clock.now()


async def test_a_strict_order_is_not_broken_for_what_a_group_of_brokers_holds_that_is_away(world: World) -> None:
    """What is asked is how old the oldest is on the groups that answer, and another one comes before them."""
    await world.destination(ordering=Ordering.STRICT, transport=TransportName.KAFKA)
    await accepted(world, 1, 2)
    await world.clock.advance(LATER)
    assert await world.stuck.step() == 0
    assert await rows(world) == {}


async def test_what_was_never_published_is_found(world: World) -> None:
    await accepted(world, 1)
    await world.clock.advance(LATER)
    assert await world.stuck.step() == 2
    assert await rows(world) == {LANE: 1, MAIL: 1}


async def test_what_is_younger_than_stuck_after_is_not_stuck(world: World) -> None:
    await accepted(world, 1)
    await world.clock.advance(299)
    assert await world.stuck.step() == 0
    await world.subscription("mail", stuck_after=10_000)
    assert await world.stuck.step() == 1
    assert await rows(world) == {MAIL: 1}


async def test_what_waits_in_a_backlog_is_not_stuck(world: World) -> None:
    sent = await accepted(world, *range(5))
    await world.publish(*sent)
    await world.clock.advance(LATER)
    assert await world.stuck.step() == 0
    consumer = await world.transport.consume(*LANE)
    await consumer.receive(3)
    assert await world.stuck.step() == 0


async def test_what_the_acked_prefix_has_passed_is_stuck(world: World) -> None:
    lost, *_ = await accepted(world, 0, 5000, 6000)
    await world.publish(message(5000), message(6000))
    await world.clock.advance(LATER)
    assert await world.stuck.step() == 2
    assert (await world.row(lost)).message == encode_message(lost)


async def test_what_the_receiver_has_not_published_yet_is_not_stuck(world: World) -> None:
    sent = await accepted(world, 0, 1)
    await world.spool.append([NewRecord(DESTINATION, encode_message(one), one.received_at) for one in sent])
    await world.clock.advance(LATER)
    assert await world.stuck.step() == 0
    world.spool.ack("publish", await world.spool.claim("publish", 9, DESTINATION))
    assert await world.stuck.step() == 4


async def test_what_another_destination_holds_says_nothing(world: World) -> None:
    await accepted(world, 0)
    await world.spool.append([NewRecord("mails", b"", NOON)])
    await world.clock.advance(LATER)
    assert await world.stuck.step() == 2


@pytest.mark.parametrize("who", ["subscription", "destination"])
async def test_what_is_paused_is_never_stuck(world: World, who: str) -> None:
    await accepted(world, 0)
    await world.clock.advance(LATER)
    if who == "subscription":
        await world.subscription("billing", paused=True)
        assert await world.stuck.step() == 1
        assert await rows(world) == {MAIL: 1}
    else:
        await world.destination(paused=True)
        assert await world.stuck.step() == 0


async def test_what_has_an_outcome_is_not_stuck(world: World) -> None:
    done, failed, dead = await accepted(world, 0, 1, 2)
    await world.store.write(
        [
            *(delivered(done, name, 1) for name in ("billing", "mail")),
            *(outcome(failed, name, Status.RETRYING) for name in ("billing", "mail")),
            *(outcome(dead, name, Status.DEAD) for name in ("billing", "mail")),
        ]
    )
    before = await rows(world)
    await world.clock.advance(LATER)
    assert await world.stuck.step() == 0
    assert await rows(world) == before


async def test_what_a_transport_that_is_down_may_hold_is_stuck(world: World) -> None:
    await world.publish(*await accepted(world, 1))
    world.transport.unreachable = True
    assert await world.stuck.step() == 0
    await world.clock.advance(LATER)
    world.transport.unreachable = False
    assert await world.stuck.step() == 0
    world.transport.unreachable = True
    assert await world.stuck.step() == 2


async def test_a_message_for_later_is_not_stuck_before_its_time(world: World) -> None:
    (later,) = await accepted(world, 0, deliver_at=NOON + 3_600_000)
    await world.clock.advance(3600 + 299)
    assert await world.stuck.step() == 0
    await world.clock.advance(2)
    assert await world.stuck.step() == 2
    assert (await world.row(later)).by is Origin.STUCK


async def test_a_message_for_later_that_waits_in_a_backlog_is_not_stuck(world: World) -> None:
    """Its place on the transport is that of its time, not that of its acceptance."""
    (later,) = await accepted(world, 0, deliver_at=NOON + 3_600_000)
    await world.clock.advance(3600)
    ahead = await accepted(world, 3_600_000 - 10)
    await world.publish(*ahead, later)
    await world.clock.advance(LATER)
    assert await world.stuck.step() == 0


async def test_many_messages_for_later_do_not_hide_what_is_stuck(world: World) -> None:
    await accepted(world, *range(500), deliver_at=NOON + 30 * 86_400_000)
    (lost,) = await accepted(world, 1000)
    await world.clock.advance(LATER)
    assert await world.stuck.step() == 2
    assert (await world.row(lost)).message_id == lost.id


async def test_an_outcome_that_waits_for_the_store_makes_nothing_stuck(world: World) -> None:
    """The store's writes are limited at run time, so that its view is minutes behind."""
    (done,) = await accepted(world, 0)
    record = NewRecord(DESTINATION, b"the outcome", NOON + 1000)
    await world.outcomes.append([record])
    await world.clock.advance(LATER)
    assert await world.stuck.step() == 0
    claimed = await world.outcomes.claim("store", 9, DESTINATION)
    assert await world.stuck.step() == 0
    world.outcomes.ack("store", claimed)
    await world.outcomes.append([NewRecord(DESTINATION, b"the next", world.clock.now() - 1000)])
    assert await world.stuck.step() == 2
    assert done.id == (await world.row(done)).message_id


async def test_what_is_claimed_once_is_not_claimed_anew(world: World) -> None:
    (sent,) = await accepted(world, 0)
    await world.clock.advance(LATER)
    await world.stuck.step()
    await world.compensator.step()
    leased = await world.row(sent)
    await world.clock.advance(5)
    await world.stuck.step()
    assert await world.row(sent) == leased
    assert len(world.dispatching.offered) == 2


async def test_more_than_a_batch_is_found_in_turns(world: World) -> None:
    await world.registry.remove_subscription(*MAIL)
    sent = await accepted(world, *range(450), expected=("billing",))
    await world.clock.advance(LATER)
    for _ in range(3):
        await world.stuck.step()
        await world.store.write(
            [delivered(message(n), attempts=1) for n in range(450) if ((sent[n].id, "billing") in world.store._rows)]
        )
    assert await world.store.unsettled(*LANE, NOON + 10**9, 10) == []


async def test_running_it_goes_on_when_the_store_comes_back(world: World) -> None:
    await accepted(world, 0)
    world.store.down = True
    running = asyncio.create_task(world.stuck.run())
    await world.clock.advance(LATER)
    assert world.store._rows == {}
    world.store.down = False
    await world.clock.advance(6)
    assert await rows(world) == {LANE: 1, MAIL: 1}
    running.cancel()


async def test_what_was_just_delivered_is_not_stuck_because_the_clock_jumped_ahead(world: World) -> None:
    await accepted(world, 1)
    await world.stuck.step()
    world.clock.jump(DAY)
    for _ in range(6):
        assert await world.stuck.step() == 0
        await world.clock.advance(4.9)
    await world.clock.advance(5)
    assert await world.stuck.step() == 2


async def test_a_clock_that_was_ahead_when_the_process_started_makes_nothing_stuck_once_it_is_right(
    world: World,
) -> None:
    await accepted(world, 1)
    world.clock.jump(DAY)
    stuck = StuckSearch(world.store, world.registry, world.router, world.waiting(), world.clock)
    assert await stuck.step() == 0
    world.clock.jump(-DAY)
    await world.clock.advance(10)
    assert await stuck.step() == 0
    await world.clock.advance(LATER)
    assert await stuck.step() == 2


async def test_a_clock_that_is_put_back_changes_nothing_of_what_is_stuck(world: World) -> None:
    world.clock.jump(DAY)
    await world.stuck.step()
    world.clock.jump(-DAY)
    await accepted(world, 1)
    assert await world.stuck.step() == 0
    await world.clock.advance(LATER)
    assert await world.stuck.step() == 2


async def test_what_waits_behind_a_message_of_a_clock_that_was_ahead_is_not_stuck(world: World) -> None:
    (first,) = await accepted(world, 1, received_at=NOON + DAY)
    (behind,) = await accepted(world, 2)
    await world.publish(first, behind)
    await world.clock.advance(LATER)
    assert await world.stuck.step() == 0
    world.transport.lose(*LANE)
    assert await world.stuck.step() == 1


async def test_what_a_broker_lost_is_found_while_the_clock_of_a_receiver_is_ahead_of_this_one(world: World) -> None:
    (lost,) = await accepted(world, 1)
    await world.clock.advance(LATER)
    other = await world.other("receiver", ahead=30_000)
    (fresh,) = await accepted(world, 2, received_at=other.now())
    await world.publish(fresh)
    assert await world.stuck.step() == 2
    assert (await world.row(lost)).message_id == lost.id


async def test_what_waits_on_a_transport_is_not_stuck_because_the_clock_of_its_receiver_is_ahead(world: World) -> None:
    other = await world.other("receiver", ahead=300_000)
    first, behind = message(1, received_at=other.now()), message(2)
    await world.store.write([first, behind])
    await world.publish(first, behind)
    await world.clock.advance(LATER)
    await other.tell()
    assert await world.stuck.step() == 0


async def test_it_says_which_subscriptions_were_passed_over_for_longer_than_is_stuck(world: World) -> None:
    ahead = await accepted(world, 1, received_at=NOON + DAY)
    await world.publish(*ahead)
    await world.clock.advance(LATER)
    assert await world.stuck.step() == 0
    await world.clock.advance(299)
    assert world.stuck.trouble == ""
    await world.clock.advance(2)
    await world.stuck.step()
    assert str(world.stuck.trouble).startswith("deliveries of orders/billing, orders/mail are not looked for")
    for lane in (LANE, MAIL):
        world.transport.lose(*lane)
    await world.stuck.step()
    assert world.stuck.trouble == ""


async def test_what_came_while_a_slow_store_was_asked_is_not_of_a_clock_that_is_ahead(world: World) -> None:
    other = await world.other("dispatcher", ahead=0)
    unsettled = world.store.unsettled

    async def slowly(*asked):
        await world.clock.advance(20)
        await other.tell(held={f"{DESTINATION}/mail": HeldMessages(1, other.now())})
        return await unsettled(*asked)

    world.store.unsettled = slowly
    await world.clock.advance(LATER)
    for _ in range(20):
        await world.stuck.step()
    assert world.stuck.trouble == ""
