"""Deliveries that somebody found without an end: each is handed over, resent or left alone, and the job balances."""

from __future__ import annotations

import httpx
import pytest

from bus.domain.delivery.delivery import Origin, Status
from bus.domain.identity import new_id
from bus.testing.writes import message
from tests.unit.admin.admin_world import World, problem
from tests.unit.admin.deliveries.jobs import attempt_all, balanced, items, job


def body(*ids: str, name: str = "billing", **fields: object) -> dict[str, object]:
    deliveries = [{"id": each, "subscription": name} for each in ids]
    return {"destination": "orders", "deliveries": deliveries, "reason": "lost", **fields}


async def end(world: World, client: httpx.AsyncClient, *ids: str, **fields: str) -> str:
    answer = await client.post("/resends/deliveries", json=body(*ids, **fields))
    assert answer.status_code == 202, answer.text
    await world.clock.settle()
    return answer.json()["id"]


async def test_a_pending_one_that_no_transport_holds_goes_to_a_dispatcher_as_it_is(
    world: World, client: httpx.AsyncClient
) -> None:
    (lost,) = await world.written(1)
    await world.clock.advance(600)
    job_id = await end(world, client, lost.id)
    (row,) = await world.rows()
    assert (row.message_id, row.generation, row.by) == (lost.id, 0, Origin.STUCK)
    counts = (await job(client, job_id))["counts"]
    assert (counts["selected"], counts["waiting"]) == (1, 1)
    await attempt_all(world, Status.DELIVERED)
    await world.clock.advance(1)
    found = await job(client, job_id)
    assert (found["state"], found["counts"]["delivered"], found["balanced"]) == ("done", 1, True)
    assert (await world.delivery(lost.id)).generation == 0


async def test_one_that_may_be_on_its_way_is_left_alone(world: World, client: httpx.AsyncClient) -> None:
    fresh = message(1, received_at=world.clock.now() - 1_000)
    await world.store.write([fresh])
    job_id = await end(world, client, fresh.id)
    assert await world.rows() == []
    (item,) = await items(client, job_id)
    assert (item["outcome"], item["reason"]) == ("skipped", "still pending: it is on its way")


@pytest.mark.parametrize("path", ["/destinations/orders", "/destinations/orders/subscriptions/billing"])
async def test_one_that_somebody_paused_is_left_alone(world: World, client: httpx.AsyncClient, path: str) -> None:
    (waiting,) = await world.written(1)
    await world.clock.advance(600)
    assert (await client.patch(path, json={"paused": True})).is_success
    job_id = await end(world, client, waiting.id)
    assert await world.rows() == []
    (item,) = await items(client, job_id)
    assert (item["outcome"], item["reason"]) == ("skipped", "paused")


async def test_one_whose_retry_was_lost_is_resent(world: World, client: httpx.AsyncClient) -> None:
    (orphaned,) = await world.written(1, Status.RETRYING)
    world.store._rows.clear()
    job_id = await end(world, client, orphaned.id)
    (row,) = await world.rows()
    assert (row.generation, row.by) == (1, Origin.RESEND)
    await attempt_all(world, Status.DELIVERED)
    await world.clock.advance(1)
    assert (await job(client, job_id))["counts"]["delivered"] == 1


async def test_what_ended_well_or_is_not_there_is_counted_and_not_sent(world: World, client: httpx.AsyncClient) -> None:
    (done,) = await world.written(1, Status.DELIVERED)
    job_id = await end(world, client, done.id, new_id(world.clock.now()))
    assert await world.rows() == []
    counts = (await job(client, job_id))["counts"]
    assert (counts["skipped"], counts["missing"], balanced(counts)) == (1, 1, True)
    unknown = await end(world, client, done.id, name="nobody")
    assert (await job(client, unknown))["counts"]["missing"] == 1


async def test_a_message_of_another_destination_is_not_there(world: World, client: httpx.AsyncClient) -> None:
    await client.put("/destinations/other", json={})
    (lost,) = await world.written(1)
    await world.clock.advance(600)
    answer = await client.post("/resends/deliveries", json=body(lost.id) | {"destination": "other"})
    await world.clock.settle()
    assert (await job(client, answer.json()["id"]))["counts"]["missing"] == 1
    assert await world.rows() == []


async def test_it_goes_on_after_a_restart_and_hands_nothing_over_twice(world: World, client: httpx.AsyncClient) -> None:
    sent = await world.written(8)
    await world.clock.advance(600)
    world.store.left = 4
    answer = await client.post("/resends/deliveries", json=body(*[each.id for each in sent], rate=2))
    assert answer.status_code == 202
    await world.clock.advance(2)
    world.store.down, world.store.left = False, None
    await world.clock.advance(10)
    assert sorted(row.message_id for row in await world.rows()) == sorted(each.id for each in sent)
    await attempt_all(world, Status.DELIVERED)
    await world.clock.advance(2)
    assert (await job(client, answer.json()["id"]))["counts"]["delivered"] == 8


async def test_it_asks_for_deliveries(client: httpx.AsyncClient) -> None:
    problem(await client.post("/resends/deliveries", json=body()), 422)
    problem(await client.post("/resends/deliveries", json=body("7")), 422)
