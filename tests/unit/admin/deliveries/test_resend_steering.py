"""Resend jobs that people pause, resume, make faster or slower, cancel, and run again."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from admin.housekeeping import RESENDS_KEPT, RESENDS_KEPT_FOR, clear_resends
from admin.repair.jobs import ITEMS, JOBS, ORDERS, Counts, Item, Job, Orders
from bus.domain.delivery.delivery import Status
from bus.domain.identity import new_id
from bus.domain.searching.selection import Selection
from bus.domain.times import format_time
from bus.testing.writes import message, outcome
from tests.unit.admin.admin_world import World, problem, running
from tests.unit.admin.deliveries.jobs import DEAD, attempt_all, items, job, start


async def deliver_all(world: World) -> None:
    """Attempt whatever is resent, with success, as long as anything is."""
    for _ in range(30):
        await attempt_all(world, Status.DELIVERED)
        await world.clock.advance(1)


async def test_a_paused_job_resends_nothing_until_it_is_resumed(world: World, client: httpx.AsyncClient) -> None:
    await world.written(40, Status.DEAD)
    job_id = await start(client, rate=5)
    await world.clock.settle()
    answer = await client.post(f"/resends/{job_id}/pause")
    assert (answer.status_code, answer.json()["state"]) == (200, "paused")
    assert (await client.post(f"/resends/{job_id}/pause")).json()["state"] == "paused"
    await world.clock.advance(1)
    before = len(await world.rows())
    await attempt_all(world, Status.DELIVERED)
    await world.clock.advance(60)
    assert len(await world.rows()) == 0
    found = await job(client, job_id)
    assert (found["state"], found["balanced"], found["total"]) == ("paused", True, 40)
    assert found["counts"]["delivered"] == before  # what was resent is still noted
    assert (await client.post(f"/resends/{job_id}/resume")).json()["state"] == "sending"
    await deliver_all(world)
    found = await job(client, job_id)
    assert (found["state"], found["counts"]["delivered"]) == ("done", 40)
    assert found["finished_at"] > found["started_at"] >= found["created_at"]


async def test_how_long_a_job_goes_on_is_told_while_it_does(world: World, client: httpx.AsyncClient) -> None:
    await world.written(40, Status.DEAD)
    job_id = await start(client, rate=5)
    await world.clock.settle()
    assert (await job(client, job_id))["seconds_left"] == pytest.approx(8, abs=1)
    await client.post(f"/resends/{job_id}/pause")
    assert (await job(client, job_id))["seconds_left"] is None
    await client.post(f"/resends/{job_id}/resume")
    await deliver_all(world)
    assert (await job(client, job_id))["seconds_left"] is None


@pytest.mark.parametrize(
    ("changes", "rate", "left"),
    [
        ({"state": "selecting"}, None, None),
        ({"state": "done"}, None, None),
        ({"counts": Counts(selected=100, waiting=100)}, None, None),
        ({"counts": Counts(selected=100, waiting=100)}, 10, 10.0),
        ({"counts": Counts(selected=100, waiting=75, delivered=25)}, None, 30.0),
        ({"counts": Counts(selected=100, waiting=75, delivered=25)}, 1_000, 30.0),
        ({"counts": Counts(selected=100, waiting=75, delivered=25)}, 0.5, 150.0),
    ],
)
def test_it_goes_on_as_it_went_but_no_faster_than_its_rate(
    changes: dict[str, Any], rate: float | None, left: float | None
) -> None:
    fields: dict[str, Any] = {"state": "sending", "started_at": 1_000, **changes}
    one = Job("j", Selection(), rate, "", "ann", 0, **fields)
    assert Orders().seconds_left(one, 11_000) == left


async def test_a_pause_and_a_rate_survive_a_restart(world: World) -> None:
    await world.written(40, Status.DEAD)
    async with running(world) as client:
        job_id = await start(client, rate=1)
        await world.clock.settle()
        assert (await client.patch(f"/resends/{job_id}", json={"rate": 20})).json()["rate"] == 20
        await client.post(f"/resends/{job_id}/pause")
        await world.clock.advance(1)
    before = len(await world.rows())
    world.restart()
    await world.registry.load()
    async with running(world) as client:
        await world.clock.advance(60)
        assert len(await world.rows()) == before
        found = await job(client, job_id)
        assert (found["state"], found["rate"]) == ("paused", 20)
        await client.post(f"/resends/{job_id}/resume")
        await world.clock.advance(3)
        assert len(await world.rows()) == 40


async def test_a_paused_job_is_canceled(world: World, client: httpx.AsyncClient) -> None:
    await world.written(40, Status.DEAD)
    job_id = await start(client, rate=5)
    await world.clock.settle()
    await client.post(f"/resends/{job_id}/pause")
    await world.clock.advance(1)
    sent = len(await world.rows())
    assert (await client.delete(f"/resends/{job_id}")).json()["state"] == "canceled"
    await world.clock.advance(1)
    found = await job(client, job_id)
    assert (found["state"], found["balanced"]) == ("canceled", True)
    assert (found["counts"]["waiting"], found["counts"]["canceled"]) == (sent, 40 - sent)
    problem(await client.post(f"/resends/{job_id}/resume"), 409)
    problem(await client.post(f"/resends/{job_id}/pause"), 409)
    problem(await client.patch(f"/resends/{job_id}", json={"rate": 1}), 409)


async def test_a_job_canceled_halfway_says_what_became_of_each(world: World, client: httpx.AsyncClient) -> None:
    await world.written(250, Status.DEAD)
    job_id = await start(client, rate=50)
    await world.clock.advance(2)
    rows = await world.rows()
    for row in rows[::2]:
        await world.attempted(row, Status.DELIVERED)
    await client.delete(f"/resends/{job_id}")
    await world.clock.advance(2)
    found = await job(client, job_id)
    delivered = len(rows[::2])
    counts = found["counts"]
    assert (counts["selected"], counts["delivered"], counts["canceled"]) == (250, delivered, 250 - len(rows))
    assert (counts["waiting"], found["balanced"]) == (len(rows) - delivered, True)
    assert len(await world.rows()) == len(rows) - delivered
    unknown = {item["reason"] for item in await items(client, job_id) if item["outcome"] == "waiting"}
    assert unknown == {"resent; the job was canceled before the outcome was known, which its trace has"}


async def test_a_rate_is_changed_while_the_job_runs(world: World, client: httpx.AsyncClient) -> None:
    await world.written(100, Status.DEAD)
    job_id = await start(client, rate=1)
    await world.clock.settle()
    answer = await client.patch(f"/resends/{job_id}", json={"rate": 10})
    assert (answer.status_code, answer.json()["rate"]) == (200, 10)
    await world.clock.advance(5)
    assert len(await world.rows()) == pytest.approx(50, abs=6)
    await client.patch(f"/resends/{job_id}", json={"rate": None})
    await world.clock.advance(1)
    assert len(await world.rows()) == 100
    for bad in ({}, {"rate": 0}, {"rate": "x"}, {"rate": 1, "state": "done"}):
        problem(await client.patch(f"/resends/{job_id}", json=bad), 422)


async def test_outcomes_are_noted_while_the_rest_is_sent(world: World, client: httpx.AsyncClient) -> None:
    await world.written(40, Status.DEAD)
    job_id = await start(client, rate=5)
    await world.clock.settle()
    await attempt_all(world, Status.DELIVERED)
    await world.clock.advance(0.4)
    found = await job(client, job_id)
    assert (found["state"], found["counts"]["delivered"]) == ("sending", 5)
    assert found["balanced"]


async def test_what_ended_badly_is_run_again(world: World, client: httpx.AsyncClient) -> None:
    sent = await world.written(150, Status.DEAD)
    job_id = await start(client, reason="a bad hour")
    problem(await client.post(f"/resends/{job_id}/rerun"), 409)
    await world.clock.settle()
    for number, row in enumerate(await world.rows()):
        await world.attempted(row, Status.DEAD if number % 3 == 0 else Status.DELIVERED)
    del world.store._traces[sent[1].id]
    await world.clock.advance(5)
    found = await job(client, job_id)
    assert found["state"] == "done"
    bad = {item["message_id"] for item in await items(client, job_id) if item["outcome"] in ("failed", "missing")}
    answer = await client.post(f"/resends/{job_id}/rerun", json={"rate": 1000})
    assert (answer.status_code, answer.json()["rerun_of"]) == (202, job_id)
    again = answer.json()["id"]
    await world.clock.advance(1)
    assert {item["message_id"] for item in await items(client, again)} == bad
    assert {row.generation for row in await world.rows()} == {2}
    await deliver_all(world)
    found = await job(client, again)
    assert (found["state"], found["balanced"], found["rerun_of"], found["reason"]) == (
        "done",
        True,
        job_id,
        "a bad hour",
    )
    assert found["counts"]["delivered"] == len(bad) - 1
    assert found["counts"]["missing"] == 1
    assert (await job(client, job_id))["reruns"] == [again]


@pytest.mark.parametrize("body", [{"outcomes": []}, {"outcomes": ["lost"]}, {"rate": 0}, {"nonsense": 1}])
async def test_an_impossible_rerun_is_a_422(world: World, client: httpx.AsyncClient, body: dict) -> None:
    job_id = await start(client)
    problem(await client.post(f"/resends/{job_id}/rerun", json=body), 422)


async def test_new_failures_are_told(world: World, client: httpx.AsyncClient) -> None:
    await world.written(10, Status.DEAD)
    job_id = await start(client, rate=2)
    await world.clock.settle()
    assert (await job(client, job_id))["new_failures"] == {"count": 0, "complete": True}
    for row in await world.rows():
        await world.attempted(row, Status.DEAD)  # the job's own: not new
    for number in range(3):
        await world.clock.advance(0.01)
        now = world.clock.now()
        fresh = message(number, id=new_id(now), received_at=now, expected=("billing", "mail"))
        await world.store.write([fresh, outcome(fresh, "billing", Status.DEAD, at=now)])
    assert (await job(client, job_id))["new_failures"] == {"count": 0, "complete": True}  # counted a moment ago
    await world.clock.advance(5)
    assert (await job(client, job_id))["new_failures"] == {"count": 3, "complete": True}
    delivered = await start(client, {"destination": "orders", "status": "delivered"})
    assert (await job(client, delivered))["new_failures"] is None


async def test_the_frozen_filter_of_a_dry_run_takes_what_was_shown(world: World, client: httpx.AsyncClient) -> None:
    await world.written(5, Status.DEAD)
    shown = (await client.post("/resends", json={"filter": DEAD, "dry_run": True})).json()
    assert (shown["complete"], shown["counted_since"]) == (True, None)
    assert shown["filter"] == {**DEAD, "to": format_time(world.clock.now())}
    await world.clock.advance(1)
    now = world.clock.now()
    late = message(9, id=new_id(now), received_at=now, expected=("billing",))
    await world.store.write([late, outcome(late, "billing", Status.DEAD)])
    job_id = await start(client, shown["filter"])
    await world.clock.settle()
    assert (await job(client, job_id))["counts"]["selected"] == shown["count"] == 5


async def test_a_count_that_takes_too_long_says_how_far_it_got(world: World, client: httpx.AsyncClient) -> None:
    sent = await world.written(1_200, Status.DEAD)
    plain = world.store.search

    async def slow(selection, *, cursor=None, limit=50):
        await world.clock.advance(6)
        return await plain(selection, cursor=cursor, limit=limit)

    world.store.search = slow
    shown = (await client.post("/resends", json={"filter": DEAD, "dry_run": True})).json()
    assert (shown["count"], shown["complete"]) == (1_000, False)
    assert shown["counted_since"] == format_time(sent[200].sent_at)


async def test_old_jobs_are_cleared_away_with_all_that_is_theirs(world: World) -> None:
    repository, now = world.services.jobs, world.clock.now()
    old, kept = now - RESENDS_KEPT_FOR - 1, now - RESENDS_KEPT_FOR + 60_000

    async def made(at: int, state: str, **more: str) -> str:
        one = Job(new_id(at), Selection(), None, "", "ann", at, state, chunks=2, finished_at=at, **more)
        await repository.save(one)
        for chunk in range(2):
            await repository.save_items(one.id, chunk, [Item(new_id(at), "billing", 1)])
        await repository.order(one.id, paused=True)
        return one.id

    gone = [await made(old, "done"), await made(old, "canceled")]
    source = await made(old, "done")
    left = [source, await made(old, "sending"), await made(old, "selecting", rerun_of=source), await made(kept, "done")]
    assert await clear_resends(repository, now) == len(gone)
    assert {one.id for one in await repository.all()} == set(left)
    assert {found.key for found in await world.store.list(ORDERS)} == set(left)
    assert {found.key.partition("/")[0] for found in await world.store.list(ITEMS)} == set(left)


async def test_items_of_a_job_that_was_never_written_are_cleared_away(world: World) -> None:
    repository, now = world.services.jobs, world.clock.now()
    lost, young = new_id(now - 7_200_000), new_id(now)
    for job_id in (lost, young):
        await repository.save_items(job_id, 0, [Item(new_id(now), "billing", 1)])
    await clear_resends(repository, now)
    assert [found.key for found in await world.store.list(ITEMS)] == [f"{young}/00000000"]


async def test_a_resend_that_is_refused_leaves_nothing(world: World, client: httpx.AsyncClient) -> None:
    sent = message(1)
    await world.store.write([outcome(sent, "billing", Status.DEAD)])  # the message itself has not arrived
    problem(await client.post(f"/messages/{sent.id}/resend"), 404)
    assert await world.store.list(ITEMS) == await world.store.list(JOBS) == []


async def test_of_many_jobs_the_newest_are_kept(world: World) -> None:
    now = world.clock.now()
    made = [
        Job(new_id(now + n), Selection(), None, "", "ann", now, "done", finished_at=now) for n in range(RESENDS_KEPT)
    ]
    waiting = Job(new_id(now - 9), Selection(), None, "", "ann", now)
    for one in (*made, waiting, *(Job(new_id(now - n), Selection(), None, "", "ann", now, "done") for n in (1, 2, 3))):
        await world.services.jobs.save(one)
    assert await clear_resends(world.services.jobs, now) == 3
    assert [found.key for found in await world.store.list(JOBS)] == [waiting.id, *(one.id for one in made)]
