"""What a group of brokers lost is resent though it is pending, in its order; what a group still has is not."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from msgspec.structs import replace

from bus.domain.delivery.delivery import Origin, Status
from bus.domain.message import Message
from bus.domain.ordering.chain import Gap, Segment, abandoned, lost
from bus.domain.ordering.document import encode_chain
from bus.testing.writes import message, outcome
from tests.unit.admin.admin_world import BILLING, World, problem, running
from tests.unit.admin.chain_shapes import chain, shape, strict_world
from tests.unit.admin.deliveries.jobs import attempt_all, items, job, start

A, B = Segment("g1", 103, since=1_000), Segment("g2", 110, since=2_000)
KEPT = chain(A, B, send=("g2",), marks={"g1": "1"})
LOST = lost(KEPT, "g1")
ABANDONED = abandoned(LOST, "g1")


@pytest.fixture
async def world() -> World:
    return await strict_world()


async def accepted(world: World, count: int, epoch: int) -> list[Message]:
    """Have messages stored as a receiver does that had a group take them."""
    sent = [message(1000 * epoch + number, expected=("billing",), epoch=epoch) for number in range(count)]
    await world.store.write(sent)
    return sent


async def resend(client: httpx.AsyncClient, sent: Message) -> httpx.Response:
    return await client.post(f"/messages/{sent.id}/resend", json={"reorder": True, "subscriptions": ["billing"]})


@pytest.mark.parametrize("found", [LOST, ABANDONED])
async def test_a_pending_message_that_was_lost_is_resent(world: World, client: httpx.AsyncClient, found: Any) -> None:
    (gone,) = await accepted(world, 1, 105)
    await shape(world, encode_chain(KEPT))
    assert "on its way" in problem(await resend(client, gone), 409)["detail"]
    await world.clock.advance(2)
    await shape(world, encode_chain(found))
    answer = await resend(client, gone)
    assert answer.status_code == 202, answer.text
    (row,) = await world.rows()
    assert (row.message_id, row.generation, row.by) == (gone.id, 0, Origin.STUCK)
    await attempt_all(world, Status.DELIVERED)
    await world.clock.advance(1)
    assert (await job(client, answer.json()["id"]))["counts"]["delivered"] == 1


async def test_one_that_another_group_has_is_on_its_way(world: World, client: httpx.AsyncClient) -> None:
    await shape(world, encode_chain(LOST))
    for epoch in (0, 110):
        (sent,) = await accepted(world, 1, epoch)
        assert "on its way" in problem(await resend(client, sent), 409)["detail"]


async def test_a_bulk_resend_takes_what_is_lost_the_oldest_first(world: World, client: httpx.AsyncClient) -> None:
    await world.clock.advance(600)
    gone = await accepted(world, 150, 105)
    queued = await accepted(world, 3, 111)
    await shape(world, encode_chain(LOST))
    made = await start(client, {"destination": "orders", "status": "pending"}, reorder=True)
    await world.clock.advance(2)
    rows = await world.rows()
    assert [row.message_id for row in rows] == sorted(one.id for one in gone)
    counts = (await job(client, made))["counts"]
    assert (counts["selected"], counts["skipped"], counts["waiting"]) == (153, 3, 150)
    assert {one["message_id"] for one in await items(client, made) if one["outcome"] == "skipped"} == {
        one.id for one in queued
    }


@pytest.mark.parametrize("rate", [None, 1_000.0])
async def test_resends_are_due_in_their_order_however_the_store_answers(world: World, rate: float | None) -> None:
    await world.clock.advance(600)
    gone = await accepted(world, 250, 105)
    await shape(world, encode_chain(LOST))
    read = world.store.trace

    async def slow(message_id: str) -> Any:
        await world.clock.sleep((19 - int(message_id[-4:], 16) * 7 % 20) / 1000)
        return await read(message_id)

    async with running(world) as client:
        world.store.trace = slow  # type: ignore[method-assign]
        await start(client, {"destination": "orders", "status": "pending"}, reorder=True, rate=rate)
        await world.clock.advance(5)
    rows = sorted(await world.rows(), key=lambda row: row.due_at)
    assert [row.message_id for row in rows] == sorted(one.id for one in gone)
    assert len({row.due_at for row in rows}) == len(gone)


async def test_a_rerun_begins_with_the_oldest_as_well(world: World, client: httpx.AsyncClient) -> None:
    await world.clock.advance(600)
    sent = await accepted(world, 150, 111)
    await shape(world, encode_chain(LOST))
    first = await start(client, {"destination": "orders", "status": "pending"}, reorder=True)
    await world.clock.advance(2)
    assert (await job(client, first))["counts"]["skipped"] == 150
    await shape(world, encode_chain(replace(LOST, consume=(), gaps=(Gap("g2", 110, 120),))))
    answer = await client.post(f"/resends/{first}/rerun", json={"outcomes": ["skipped"], "reorder": True})
    assert answer.status_code == 202, answer.text
    await world.clock.advance(2)
    rows = sorted(await world.rows(), key=lambda row: row.due_at)
    assert [row.message_id for row in rows] == sorted(one.id for one in sent)


async def test_what_was_found_missing_is_judged_by_the_chain(world: World, client: httpx.AsyncClient) -> None:
    (gone,) = await accepted(world, 1, 105)
    (queued,) = await accepted(world, 1, 111)
    (old,) = await accepted(world, 1, 90)
    (unknown,) = await accepted(world, 1, 0)
    await shape(world, encode_chain(LOST))

    async def ended() -> dict[str, str]:
        deliveries = [{"id": one.id, "subscription": "billing"} for one in (gone, queued, old, unknown)]
        body = {"destination": "orders", "deliveries": deliveries, "reorder": True}
        answer = await client.post("/resends/deliveries", json=body)
        assert answer.status_code == 202, answer.text
        await world.clock.settle()
        return {one["message_id"]: one["outcome"] for one in await items(client, answer.json()["id"])}

    young = {gone.id: "waiting", queued.id: "skipped", old.id: "skipped", unknown.id: "skipped"}
    assert await ended() == young
    await world.clock.advance(600)
    assert await ended() == young | {old.id: "waiting", unknown.id: "waiting"}


@pytest.mark.parametrize("paused", [False, True])
@pytest.mark.parametrize(("epoch", "seconds"), [(105, 0), (90, 0), (90, 600), (111, 600)])
async def test_every_way_to_resend_takes_the_same(
    world: World, client: httpx.AsyncClient, epoch: int, seconds: int, *, paused: bool
) -> None:
    (sent,) = await accepted(world, 1, epoch)
    await shape(world, encode_chain(LOST))
    await world.clock.advance(seconds + sent.received_at / 1000 - world.clock.now() / 1000)
    assert (await client.patch(BILLING, json={"paused": paused})).is_success
    deliveries = [{"id": sent.id, "subscription": "billing"}]
    body = {"destination": "orders", "deliveries": deliveries, "reorder": True}
    repaired = (await client.post("/resends/deliveries", json=body)).json()["id"]
    filtered = await start(client, {"destination": "orders", "subscription": "billing"}, reorder=True)
    await world.clock.settle()
    outcomes = [(await items(client, one))[0]["outcome"] for one in (repaired, filtered)]
    is_taken = epoch == 105 or (epoch == 90 and seconds > 0)
    assert outcomes == ["waiting" if is_taken else "skipped"] * 2
    assert (await resend(client, sent)).status_code == (202 if is_taken else 409)


async def test_a_decision_says_how_many_lost_deliveries_are_pending(world: World, client: httpx.AsyncClient) -> None:
    await accepted(world, 3, 105)
    both = message(105_500, expected=("billing", "mail"), epoch=105)
    await world.store.write([both, outcome(both, "mail", Status.DEAD)])
    await accepted(world, 2, 111)
    (delivered,) = await accepted(world, 1, 109)
    await world.store.write([outcome(delivered, "billing", Status.DELIVERED)])
    await shape(world, encode_chain(LOST))
    for dry in (True, False):
        body = {"group": "g1", "reason": "its disks are gone", "dry_run": dry}
        costs = (await client.post("/destinations/orders/ordering/abandon", json=body)).json()["costs"]
        assert [cost["what"] for cost in costs][-2:] == [
            "4 deliveries of what group g1 took are pending in the store",
            "no alarm reports those that are not resent",
        ]


async def test_a_count_that_takes_too_long_is_a_lower_bound(world: World, client: httpx.AsyncClient) -> None:
    await accepted(world, 600, 105)
    await shape(world, encode_chain(LOST))
    search = world.store.search

    async def slow(*given: Any, **more: Any) -> Any:
        world.clock.suspend(3)
        return await search(*given, **more)

    world.store.search = slow  # type: ignore[method-assign]
    body = {"group": "g1", "reason": "its disks are gone", "dry_run": True}
    costs = (await client.post("/destinations/orders/ordering/abandon", json=body)).json()["costs"]
    assert costs[-2]["what"] == "at least 500 deliveries of what group g1 took are pending in the store"


async def test_what_comes_before_it_is_read_first(world: World, client: httpx.AsyncClient) -> None:
    (gone,) = await accepted(world, 1, 112)
    await shape(world, encode_chain(lost(replace(KEPT, marks={"g2": "2"}), "g2")))
    assert "on its way" in problem(await resend(client, gone), 409)["detail"]
