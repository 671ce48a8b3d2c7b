"""Partitions past their retention go whole, and Idempotency-Keys with them."""

from __future__ import annotations

import asyncio

import pytest

from bus.domain.identity import new_id
from bus.domain.times import DAY, day_of
from bus.testing.writes import NOON, message
from compensator.expiry import Expiry
from tests.unit.compensator.compensator_world import World, delivered


@pytest.fixture
async def world() -> World:
    world = World()
    await world.clock.advance(600)
    return world


async def test_what_is_past_its_retention_and_finished_goes(world: World) -> None:
    done = message(0, expected=("billing",), retention_days=2)
    kept = message(1, expected=("billing",), retention_days=5)
    await world.store.write([done, kept, delivered(done), delivered(kept)])
    await world.clock.advance(2 * 86_400 - 601)
    assert await world.expiry.step() == []
    await world.clock.advance(2)
    assert len(await world.expiry.step()) == 1
    assert await world.store.trace(done.id) is None
    assert await world.store.trace(kept.id) is not None


async def test_unfinished_work_keeps_its_partition_and_is_an_error_in_the_log(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    await world.store.write([message(0, retention_days=1)])
    await world.clock.advance(3 * 86_400)
    assert await world.expiry.step() == []
    assert any(record.levelname == "ERROR" and "unfinished" in record.message for record in caplog.records)
    assert await world.store.trace(message(0).id) is not None


async def test_keys_of_two_days_ago_and_older_go(world: World) -> None:
    now = NOON
    for back in range(5):
        for number in range(600 if back == 4 else 3):
            await world.store.put("idempotency", f"{day_of(now - back * DAY)}/{number:04d}", b"{}")
    await world.store.put("keys", "19700101/of-another-collection", b"{}")
    await world.expiry.step()
    left = {document.key[:8] for document in await world.store.list("idempotency")}
    assert left == {day_of(now), day_of(now - DAY)}
    assert len(await world.store.list("keys")) == 1


async def test_resends_of_long_ago_go_with_their_items(world: World) -> None:
    old, new = new_id(NOON - 91 * DAY), new_id(NOON - 89 * DAY)
    for job in (old, new):
        await world.store.put("resends", job, b"{}")
        for chunk in range(3):
            await world.store.put("resend-items", f"{job}/{chunk:08d}", b"[]")
    await world.expiry.step()
    assert [document.key for document in await world.store.list("resends")] == [new]
    assert {document.key[:36] for document in await world.store.list("resend-items")} == {new}


async def test_many_keys_are_deleted_together(world: World) -> None:
    """One commit of the store each chunk, and not one for each key."""
    for number in range(100):
        await world.store.put("idempotency", f"{day_of(NOON - 5 * DAY)}/{number:04d}", b"{}")
    running = most = 0
    plain = world.store.delete

    async def delete(collection, key):
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        running -= 1
        return await plain(collection, key)

    world.store.delete = delete
    await world.expiry.step()
    assert most == 100
    assert await world.store.list("idempotency") == []


async def test_running_it_looks_every_ten_minutes_and_outlives_the_store(world: World) -> None:
    done = message(0, expected=("billing",), retention_days=1)
    await world.store.write([done, delivered(done)])
    world.store.down = True
    running = asyncio.create_task(world.expiry.run())
    await world.clock.advance(2 * 86_400)
    assert await world.store.trace(done.id) is not None
    world.store.down = False
    await world.clock.advance(601)
    assert await world.store.trace(done.id) is None
    running.cancel()


async def test_partitions_that_unfinished_work_keeps_are_a_trouble_until_they_go(world: World) -> None:
    sent = [message(day * DAY, retention_days=1, expected=("billing",)) for day in range(4)]
    await world.store.write(sent)
    assert world.expiry.trouble == ""
    await world.clock.advance(6 * 86_400)
    await world.expiry.step()
    assert str(world.expiry.trouble).startswith("past the retention, kept by unfinished deliveries: ")
    assert str(world.expiry.trouble).endswith("and 1 more")
    await world.store.write([delivered(one) for one in sent])
    await world.expiry.step()
    assert world.expiry.trouble == ""


async def test_a_clock_that_jumps_ahead_drops_nothing_within_an_hour(world: World) -> None:
    done = message(0, expected=("billing",), retention_days=2)
    await world.store.write([done, delivered(done)])
    await world.store.put("idempotency", f"{day_of(NOON)}/key", b"{}")
    world.clock.jump(30 * DAY)
    for _ in range(5):
        assert await world.expiry.step() == []
        await world.clock.advance(600)
    world.clock.jump(-30 * DAY)
    await world.clock.advance(600)
    assert await world.expiry.step() == []
    assert [document.key for document in await world.store.list("idempotency")] == [f"{day_of(NOON)}/key"]
    world.clock.jump(30 * DAY)
    for _ in range(7):
        dropped = await world.expiry.step()
        await world.clock.advance(601)
    assert len(dropped) == 1


async def test_a_clock_that_was_ahead_when_the_process_started_drops_nothing_once_it_is_right(world: World) -> None:
    done = message(0, expected=("billing",), retention_days=30)
    await world.store.write([done, delivered(done)])
    world.clock.jump(40 * DAY)
    expiry = Expiry(world.store, world.clock)
    assert await expiry.step() == []
    world.clock.jump(-40 * DAY)
    await world.clock.advance(600)
    assert await expiry.step() == []
    assert await world.store.trace(done.id) is not None


async def test_a_process_that_is_restarted_more_often_than_a_jump_of_the_clock_takes_expires_all_the_same(
    world: World,
) -> None:
    done = message(0, expected=("billing",), retention_days=30)
    await world.store.write([done, delivered(done)])
    await world.clock.advance(31 * 86_400)
    expiry = Expiry(world.store, world.clock)
    assert await expiry.step() == []
    await world.clock.advance(600)
    assert len(await expiry.step()) == 1
