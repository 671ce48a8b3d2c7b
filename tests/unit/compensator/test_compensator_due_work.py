"""Due work is leased as much as each subscription takes, and handed on; the compensator never POSTs."""

from __future__ import annotations

import asyncio

import pytest

from bus.domain.delivery.delivery import Origin, Status
from bus.domain.times import HOUR
from bus.errors import StoreUnavailable
from bus.ports.spool import NewRecord
from bus.telemetry import metrics
from bus.testing.writes import DESTINATION, message, outcome, row
from tests.unit.compensator.compensator_world import LANE, MAIL, World, delivered


@pytest.fixture
async def world() -> World:
    world = World()
    await world.destination()
    await world.subscription("billing")
    await world.subscription("mail")
    await world.clock.advance(60)
    return world


async def test_a_due_delivery_is_handed_over_as_it_stands(world: World) -> None:
    sent = await world.failed(1, attempts=3, tries=2, generation=1, since=77)
    await world.compensator.step()
    (offered,) = world.dispatching.offered
    assert (offered.message, offered.subscription, offered.handed_over) == (sent, "billing", True)
    assert (offered.generation, offered.attempts, offered.tries, offered.since) == (1, 3, 2, 77)
    assert offered.by is Origin.RETRY


async def test_what_is_leased_is_handed_over_once_and_again_when_the_lease_is_over(world: World) -> None:
    sent = await world.failed(1)
    for _ in range(5):
        await world.compensator.step()
    assert world.dispatching.ids == [sent.id]
    await world.clock.advance(59)
    await world.compensator.step()
    assert world.dispatching.ids == [sent.id]
    await world.clock.advance(2)
    await world.compensator.step()
    assert world.dispatching.ids == [sent.id] * 2


async def test_a_lease_outlasts_three_time_outs(world: World) -> None:
    await world.subscription("billing", timeout=600_000)
    sent = await world.failed(1)
    await world.compensator.step()
    assert (await world.row(sent)).lease_until == world.clock.now() + 1_800_000 + 30_000


async def test_dispatchers_are_asked_only_for_what_is_due(world: World) -> None:
    await world.failed(1, due_at=world.clock.now())
    await world.failed(2, "mail", due_at=world.clock.now() + 5000)
    await world.compensator.step()
    assert world.dispatching.asked == [{LANE}]
    await world.compensator.step()
    assert len(world.dispatching.asked) == 1, "what is leased is not due"


async def test_what_no_dispatcher_takes_is_looked_for_less_and_less_often(world: World) -> None:
    sent = [await world.failed(number) for number in range(3)]
    world.dispatching.free = {}
    waits = [await world.compensator.step() for _ in range(8)]
    assert waits[0] < waits[1] < waits[2] < waits[-1] == waits[-2] == 0.25
    world.dispatching.free, world.dispatching.refused = {LANE: 1}, {one.id for one in sent}
    plain = world.dispatching.offer

    async def full(deliveries):
        await plain(deliveries)
        return [False] * len(deliveries)

    world.dispatching.offer = full
    assert await world.compensator.step() == 0.25, "nor what is given back"
    world.dispatching.offer = plain
    world.dispatching.refused.clear()
    assert await world.compensator.step() < waits[0]
    assert world.dispatching.ids == [sent[0].id]
    world.dispatching.free = {}
    assert await world.compensator.step() == waits[0]


async def test_what_is_not_due_waits(world: World) -> None:
    sent = await world.failed(1, due_at=world.clock.now() + 5000)
    assert await world.compensator.step() == 0.25
    assert world.dispatching.offered == []
    await world.clock.advance(4.9)
    assert await world.compensator.step() == pytest.approx(0.1)
    await world.clock.advance(0.1)
    await world.compensator.step()
    assert world.dispatching.ids == [sent.id]


async def test_no_more_is_leased_than_there_is_room_for(world: World) -> None:
    for number in range(10):
        await world.failed(number)
    world.dispatching.free = {LANE: 3}
    await world.failed(20, "mail")
    await world.compensator.step()
    assert len(world.dispatching.offered) == 3
    world.dispatching.free = {}
    await world.compensator.step()
    assert len(world.dispatching.offered) == 3
    assert await world.store.due(0) == {LANE: 10, MAIL: 1}


async def test_a_million_failures_of_one_do_not_starve_another(world: World) -> None:
    await world.store.compensate([row(message(n)) for n in range(3000)])
    await world.store.compensate([row(message(n), "mail") for n in range(4000, 4005)])
    await world.compensator.step()
    assert sum(delivery.subscription == "mail" for delivery in world.dispatching.offered) == 5


async def test_what_is_finished_is_removed_and_not_handed_over(world: World) -> None:
    sent, other = await world.failed(1), await world.failed(2)
    await world.store.write([delivered(sent)])
    await world.store.compensate([row(sent, attempts=0)])
    await world.compensator.step()
    assert world.dispatching.ids == [other.id]
    assert await world.store.due(0) == {LANE: 1}


async def test_what_was_not_taken_for_want_of_room_is_given_back(world: World) -> None:
    sent = await world.failed(1)
    world.dispatching.refused.add(sent.id)
    plain = world.dispatching.offer

    def offer(deliveries):
        world.dispatching.free = {}
        return plain(deliveries)

    world.dispatching.offer = offer
    await world.compensator.step()
    assert (await world.row(sent)).lease_until == 0
    world.dispatching.offer = plain
    world.dispatching.free = {LANE: 1}
    world.dispatching.refused.clear()
    await world.compensator.step()
    assert world.dispatching.ids == [sent.id]


async def test_what_was_not_taken_though_there_is_room_stays_leased(world: World) -> None:
    sent = await world.failed(1)
    world.dispatching.refused.add(sent.id)
    await world.compensator.step()
    leased = (await world.row(sent)).lease_until
    assert leased > world.clock.now()
    await world.compensator.step()
    assert (await world.row(sent)).lease_until == leased
    assert (await world.row(sent)).epoch == 1
    await world.store.write([delivered(sent)])
    assert await world.store.due(0) == {}


async def test_a_paused_destination_holds_its_due_work(world: World) -> None:
    await world.failed(1)
    await world.store.compensate([row(message(2), "", by=Origin.TRANSPORT)])
    await world.destination(paused=True)
    await world.compensator.step()
    assert world.dispatching.offered == []
    assert world.transport._messages == []
    await world.destination()
    await world.compensator.step()
    assert len(world.dispatching.offered) == 1
    assert len(world.transport._messages) == 1


async def test_work_of_a_subscription_nobody_dispatches_waits(world: World) -> None:
    await world.failed(1, "nobody")
    await world.compensator.step()
    assert world.dispatching.offered == []


async def test_a_message_whose_time_has_come_takes_the_normal_transport(world: World) -> None:
    later = message(5, deliver_at=world.clock.now() + 1000)
    await world.store.compensate([row(later, "", by=Origin.TRANSPORT, attempts=0, due_at=later.deliver_at)])
    await world.compensator.step()
    assert world.transport._messages == []
    await world.clock.advance(1)
    await world.compensator.step()
    assert world.transport._messages == [later]
    assert world.dispatching.offered == []
    assert await world.store.due(0) == {}


async def test_a_transport_that_refuses_is_asked_again_but_not_all_the_time(world: World) -> None:
    world.transport.refusing = True
    plain, calls = world.transport.publish, 0

    async def counted(batch):
        nonlocal calls
        calls += 1
        return await plain(batch)

    world.transport.publish = counted
    await world.store.compensate([row(message(1), "", by=Origin.TRANSPORT)])
    running = asyncio.create_task(world.compensator.run())
    await world.clock.advance(10)
    assert 8 <= calls <= 12
    await world.failed(2)
    await world.clock.advance(0.3)
    assert len(world.dispatching.offered) == 1
    world.transport.refusing = False
    await world.clock.advance(1.5)
    assert world.transport._messages == [message(1)]
    assert await world.store.due(0) == {LANE: 1}
    running.cancel()


async def test_a_row_of_another_version_harms_nobody(world: World) -> None:
    await world.store.compensate([row(message(1), message=b"?"), row(message(2), "", message=b"?")])
    sent = await world.failed(3)
    later = message(4)
    await world.store.compensate([row(later, "", by=Origin.TRANSPORT)])
    await world.compensator.step()
    assert world.dispatching.ids == [sent.id]
    assert world.transport._messages == [later]
    assert await world.store.due(0) == {LANE: 2, (DESTINATION, ""): 1}


async def test_what_an_earlier_life_had_leased_is_taken_at_once(world: World) -> None:
    sent = await world.failed(1)
    await world.compensator.step()
    again = world.restarted()
    await again.step()
    assert world.dispatching.ids == [sent.id] * 2
    await again.step()
    assert len(world.dispatching.ids) == 2


async def test_while_the_store_is_down_due_work_waits(world: World, caplog: pytest.LogCaptureFixture) -> None:
    sent = await world.failed(1)
    world.store.down = True
    running = asyncio.create_task(world.compensator.run())
    await world.clock.advance(30)
    assert world.dispatching.offered == []
    assert sum("due work waits" in record.message for record in caplog.records) == 1
    world.store.down = False
    await world.clock.advance(1.1)
    assert world.dispatching.ids == [sent.id]
    running.cancel()


async def test_a_store_that_goes_down_after_the_lease_loses_nothing(world: World) -> None:
    sent = await world.failed(1)
    plain = world.store.finished

    async def down(keys):
        raise StoreUnavailable("down")

    world.store.finished = down
    running = asyncio.create_task(world.compensator.run())
    await world.clock.advance(5)
    assert world.dispatching.offered == []
    world.store.finished = plain
    await world.clock.advance(61)
    assert world.dispatching.ids == [sent.id]
    running.cancel()


async def test_running_it_hands_over_in_time(world: World) -> None:
    running = asyncio.create_task(world.compensator.run())
    await world.clock.settle()
    base = world.clock.now()
    for number in range(20):
        await world.failed(number, due_at=base + number * 500)
    late = []
    for _ in range(10_000):
        await world.clock.advance(0.01)
        late += [world.clock.now()] * (len(world.dispatching.offered) - len(late))
        if len(late) == 20:
            break
    assert [round(at - base - number * 500) <= 270 for number, at in enumerate(late)] == [True] * 20
    running.cancel()


async def test_running_it_hands_over_at_once_what_this_process_wrote(world: World) -> None:
    running = asyncio.create_task(world.compensator.run())
    await world.clock.settle()
    await world.failed(0, due_at=world.clock.now())
    await world.clock.settle()
    assert not world.dispatching.offered
    world.due.set()
    await world.clock.settle()
    assert len(world.dispatching.offered) == 1
    running.cancel()


async def test_a_clock_that_is_set_ahead_ends_no_lease(world: World) -> None:
    other = await world.other("dispatcher", ahead=0)
    leased = await world.failed(0, due_at=world.clock.now(), owner="other", lease_until=world.clock.now() + 60_000)
    await world.compensator.step()
    world.clock.jump(HOUR)
    other.ahead = -HOUR
    for _ in range(50):
        free = await world.failed(len(world.dispatching.offered) + 1, due_at=world.clock.now())
        await other.tell()
        await world.compensator.step()
        assert world.dispatching.offered[-1].message.id == free.id
        await world.clock.advance(1)
    assert leased.id not in {one.message.id for one in world.dispatching.offered}
    await world.clock.advance(12)
    await other.tell()
    await world.compensator.step()
    assert world.dispatching.offered[-1].message.id == leased.id


async def test_a_process_that_starts_with_a_fast_clock_ends_no_lease(world: World) -> None:
    world.clock.jump(HOUR)
    world.compensator = world.restarted()
    other = await world.other("dispatcher", ahead=-HOUR)
    leased = await world.failed(0, due_at=other.now(), owner="other", lease_until=other.now() + 60_000)
    await world.failed(1, due_at=other.now())
    for _ in range(30):
        await world.compensator.step()
        await world.clock.advance(1)
        await other.tell()
    assert [one.message.id for one in world.dispatching.offered] == [message(1).id]
    await world.clock.advance(60)
    await other.tell()
    await world.compensator.step()
    assert world.dispatching.offered[-1].message.id == leased.id


async def test_a_lease_lasts_by_the_others_clocks_if_this_one_was_put_back(world: World) -> None:
    await world.members.step()
    world.clock.jump(-HOUR)
    sent = await world.failed(0, due_at=world.clock.now())
    await world.compensator.step()
    assert (await world.row(sent)).lease_until >= world.clock.now() + HOUR + 30_000


async def test_the_gauge_counts_unfinished_deliveries(world: World) -> None:
    for number in range(3):
        await world.failed(number)
    await world.failed(9, "mail")
    (await world.compensator.measure())()
    assert metrics.COMPENSATIONS.labels(*LANE)._value.get() == 3
    assert metrics.COMPENSATIONS.labels(*MAIL)._value.get() == 1
    await world.store.write([outcome(message(9), "mail", Status.DEAD, 5)])
    (await world.compensator.measure())()
    assert MAIL not in metrics.COMPENSATIONS._metrics


async def test_a_store_that_is_down_leaves_the_gauge_as_it_was(world: World) -> None:
    await world.failed(1)
    (await world.compensator.measure())()
    world.store.down = True
    (await world.compensator.measure())()
    assert metrics.COMPENSATIONS.labels(*LANE)._value.get() == 1


async def test_outcomes_of_an_earlier_life_reach_the_store_before_its_work_is_done_again(world: World) -> None:
    """Until then the store cannot tell what they have finished."""
    sent = await world.failed(1)
    record = NewRecord(DESTINATION, b"the outcome", world.clock.now() - 1000)
    await world.outcomes.append([record])
    again = world.restarted()
    await again.step()
    assert world.dispatching.offered == []
    world.outcomes.ack("store", await world.outcomes.claim("store", 9, DESTINATION))
    await world.outcomes.append([record._replace(time=world.clock.now() + 1)])
    await again.step()
    assert world.dispatching.ids == [sent.id]


async def test_what_another_destination_has_to_tell_holds_up_nothing(world: World) -> None:
    sent = await world.failed(1)
    await world.outcomes.append([NewRecord("other", b"the outcome", world.clock.now() - 1000)])
    again = world.restarted()
    await again.step()
    assert world.dispatching.ids == [sent.id]
