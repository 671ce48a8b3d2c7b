"""Resend jobs over crashes, restarts and an absent store: no item is resent twice and none is left out."""

from __future__ import annotations

import httpx
import pytest

from admin.repair.jobs import JobRepository
from bus.domain.delivery.delivery import Status
from tests.unit.admin.admin_world import World, problem, running
from tests.unit.admin.deliveries.jobs import DEAD, attempt_all, balanced, items, job, start

BILLING_ONLY = {"subscriptions": ["billing"], "reason": "the shop is back"}


async def resent(world: World) -> dict[str, tuple[int, int]]:
    """Return for each message the generation it reached and the attempts that it had."""
    return {
        name: (trace.deliveries["billing"].generation, len(trace.deliveries["billing"].attempts))
        for name, trace in world.store._traces.items()
    }


@pytest.mark.parametrize("writes", [1, 2, 3, 4, 5, 6, 7, 20, 105, 106, 108, 150, 215, 220, 255, 262])
async def test_a_crash_in_the_middle_resends_nothing_twice_and_leaves_nothing_out(world: World, writes: int) -> None:
    sent = await world.written(250, Status.DEAD)
    async with running(world) as client:
        world.store.left = writes
        answer = await client.post("/resends", json={"filter": DEAD})
        await world.clock.settle()
    world.store.left, world.store.down = None, False
    # While the admin is away the dispatcher works on what was resent so far.
    rows = await world.rows()
    for row in rows[::2]:
        await world.attempted(row, Status.DELIVERED)
    for row in rows[1::4]:
        await world.attempted(row, Status.RETRYING)
    world.restart()
    await world.registry.load()
    async with running(world) as client:
        if answer.status_code == 202:
            job_id = answer.json()["id"]
        else:
            problem(answer, 503)
            job_id = await start(client)
        await world.clock.advance(1)
        for row in await world.rows():
            if row.attempts == 1:
                await world.attempted(row, Status.DELIVERED)
        await world.clock.advance(10)
        found = await job(client, job_id)
        assert found["state"] == "done", found
        assert balanced(found["counts"])
        assert found["counts"]["selected"] == 250
        assert len(await items(client, job_id)) == 250
    assert {one.id: (1, 2) for one in sent} == await resent(world)


async def test_a_cancelled_job_stays_so_over_a_restart(world: World) -> None:
    await world.written(40, Status.DEAD)
    async with running(world) as client:
        job_id = await start(client, rate=5)
        await world.clock.settle()
        assert (await client.delete(f"/resends/{job_id}")).json()["state"] == "canceled"
    world.restart()
    await world.registry.load()
    async with running(world) as client:
        await world.clock.advance(60)
        assert (await job(client, job_id))["state"] == "canceled"
    assert len(await world.rows()) == 5


async def test_a_store_that_is_away_for_a_while_is_waited_for(world: World, client: httpx.AsyncClient) -> None:
    sent = await world.written(30, Status.DEAD)
    job_id = await start(client, rate=10)
    await world.clock.settle()
    world.store.down = True
    await world.clock.advance(30)
    world.store.down = False
    await world.clock.advance(30)
    await attempt_all(world, Status.DELIVERED)
    await world.clock.advance(5)
    found = await job(client, job_id)
    assert (found["state"], found["counts"]["delivered"]) == ("done", 30)
    assert {one.id: (1, 2) for one in sent} == await resent(world)


async def test_a_resend_of_one_message_is_one_write(world: World) -> None:
    (sent,) = await world.written(1, Status.DEAD)
    async with world.client() as client:
        world.store.left = 1
        answer = await client.post(f"/messages/{sent.id}/resend", json=BILLING_ONLY)
        assert answer.status_code == 202
        assert not world.store.down
        world.store.left = None
        entry = (await client.get("/audit")).json()["items"][0]
        assert (entry["resource"], entry["status"]) == (f"messages/{sent.id}/resend", 202)
        assert {name: each["after"] for name, each in entry["changes"].items()} == BILLING_ONLY
        found = await job(client, answer.json()["id"])
        assert (found["state"], found["counts"]["selected"], found["counts"]["waiting"]) == ("waiting", 1, 1)
    assert await resent(world) == {sent.id: (1, 1)}


async def test_a_resend_of_one_message_that_a_crash_cut_off_goes_on_after_a_restart(world: World) -> None:
    (sent,) = await world.written(1, Status.DEAD)
    async with world.client() as client:
        world.store.dies_within = True
        problem(await client.post(f"/messages/{sent.id}/resend", json=BILLING_ONLY), 503)
    world.store.dies_within = world.store.down = False
    assert await resent(world) == {sent.id: (0, 1)}
    world.restart()
    await world.registry.load()
    async with running(world) as client:
        await world.clock.advance(1)
        await attempt_all(world, Status.DELIVERED)
        await world.clock.advance(1)
        (found,) = (await client.get("/resends")).json()["items"]
        assert (found["state"], found["counts"]["delivered"]) == ("done", 1)
        delivery = (await client.get(f"/messages/{sent.id}")).json()["deliveries"][0]
        assert [(one["job"], one["reason"]) for one in delivery["resends"]] == [(found["id"], "the shop is back")]
    assert await resent(world) == {sent.id: (1, 2)}


async def test_a_resend_of_one_message_that_the_store_cut_off_goes_on_when_it_is_back(world: World) -> None:
    (sent,) = await world.written(1, Status.DEAD)
    async with running(world) as client:
        await world.clock.settle()
        world.store.dies_within = True
        problem(await client.post(f"/messages/{sent.id}/resend", json=BILLING_ONLY), 503)
        await world.clock.advance(1)
        world.store.dies_within = world.store.down = False
        await world.clock.advance(2)
        await attempt_all(world, Status.DELIVERED)
        await world.clock.advance(1)
        (found,) = (await client.get("/resends")).json()["items"]
        assert (found["state"], found["counts"]["delivered"]) == ("done", 1)
    assert await resent(world) == {sent.id: (1, 2)}


async def test_a_resend_of_one_message_reads_no_other_job(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    (sent,) = await world.written(1, Status.DEAD)
    async with running(world) as client:
        await world.clock.settle()
        monkeypatch.setattr(JobRepository, "all", None)
        job_id = (await client.post(f"/messages/{sent.id}/resend", json=BILLING_ONLY)).json()["id"]
        await attempt_all(world, Status.DELIVERED)
        await world.clock.advance(1)
        assert (await job(client, job_id))["state"] == "done"


async def test_a_resend_of_one_message_that_is_refused_leaves_an_entry_and_no_job(world: World) -> None:
    (sent,) = await world.written(1, Status.DEAD)
    async with world.client() as client:
        for name, status in (("nobody", 404), (5, 422)):
            body = {"subscriptions": [name]}
            problem(await client.post(f"/messages/{sent.id}/resend", json=body), status)
        entries = (await client.get("/audit")).json()["items"][:2]
        assert [(one["status"], one["outcome"]) for one in entries] == [(422, "refused"), (404, "refused")]
        assert (await client.get("/resends")).json()["items"] == []
        world.store.down = True
        problem(await client.post(f"/messages/{sent.id}/resend"), 503)
