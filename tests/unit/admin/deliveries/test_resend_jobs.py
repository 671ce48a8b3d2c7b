"""Resend jobs at work: their rate, how they end for each item, and how they are cancelled."""

from __future__ import annotations

import httpx
import pytest

from bus.domain.delivery.delivery import Status
from bus.testing.writes import message, outcome
from tests.unit.admin.admin_world import World
from tests.unit.admin.deliveries.jobs import attempt_all, balanced, items, job, start


async def test_a_rate_is_kept(world: World, client: httpx.AsyncClient) -> None:
    await world.written(40, Status.DEAD)
    await start(client, rate=5)
    await world.clock.settle()
    assert len(await world.rows()) == 5
    await world.clock.advance(2)
    assert len(await world.rows()) == pytest.approx(15, abs=1)
    await world.clock.advance(10)
    assert len(await world.rows()) == 40


async def test_without_a_rate_a_chunk_shares_the_stores_commits(world: World, client: httpx.AsyncClient) -> None:
    await world.written(100, Status.DEAD)
    writing = most = 0
    plain = world.store.write

    async def write(writes):
        nonlocal writing, most
        writing += 1
        most = max(most, writing)
        await plain(writes)
        writing -= 1

    world.store.write = write
    await start(client)
    await world.clock.settle()
    assert len(await world.rows()) == 100
    assert most == 100


async def test_attempts_between_the_selection_and_the_resend_keep_their_numbers(
    world: World, client: httpx.AsyncClient
) -> None:
    (first, second) = await world.written(2, Status.RETRYING)
    job_id = await start(client, {"status": "retrying"}, rate=1)
    await world.clock.settle()
    assert {row.message_id: row.generation for row in await world.rows()} == {first.id: 0, second.id: 1}
    (waiting,) = [row for row in await world.rows() if row.message_id == first.id]
    later = world.clock.now() + 60_000
    await world.attempted(waiting, Status.RETRYING, due_at=later)  # the retry schedule goes on meanwhile
    await world.clock.advance(1)
    (resent_row,) = [row for row in await world.rows() if row.message_id == first.id]
    assert (resent_row.generation, resent_row.attempts) == (1, 2)
    await attempt_all(world, Status.DELIVERED)
    await world.clock.advance(1)
    assert [attempt.n for attempt in (await world.delivery(first.id)).attempts.values()] == [1, 2, 3]
    assert (await job(client, job_id))["counts"]["delivered"] == 2


async def test_cancelling_resends_nothing_more(world: World, client: httpx.AsyncClient) -> None:
    await world.written(40, Status.DEAD)
    job_id = await start(client, rate=5)
    await world.clock.settle()
    answer = await client.delete(f"/resends/{job_id}")
    assert (answer.status_code, answer.json()["state"]) == (200, "canceled")
    await world.clock.advance(60)
    assert len(await world.rows()) == 5
    found = await job(client, job_id)
    assert found["state"] == "canceled"
    assert balanced(found["counts"])
    assert (await client.delete(f"/resends/{job_id}")).json()["state"] == "canceled"


async def test_a_slow_rate_does_not_delay_the_cancelling(world: World, client: httpx.AsyncClient) -> None:
    await world.written(5, Status.DEAD)
    job_id = await start(client, rate=0.0001)
    await world.clock.settle()
    await client.delete(f"/resends/{job_id}")
    await world.clock.advance(1)
    assert world.services.runner._working == set()


async def test_a_job_that_waits_holds_up_no_other(world: World, client: httpx.AsyncClient) -> None:
    await world.written(5, Status.DEAD)
    first = await start(client)
    await world.clock.advance(5)
    assert (await job(client, first))["state"] == "waiting"
    sent = message(100, expected=("mail",))
    await world.store.write([sent, outcome(sent, "mail", Status.DEAD)])
    second = await start(client, {"subscription": "mail", "status": "dead"})
    await world.clock.advance(1)
    (row,) = [row for row in await world.rows() if row.subscription == "mail"]
    await world.attempted(row, Status.DELIVERED)
    await world.clock.advance(1)
    assert (await job(client, second))["state"] == "done"
    assert (await job(client, first))["state"] == "waiting"


async def test_an_item_that_waits_holds_up_the_outcome_of_no_other(world: World, client: httpx.AsyncClient) -> None:
    await world.written(350, Status.DEAD)
    job_id = await start(client)
    await world.clock.settle()
    rows = sorted(await world.rows(), key=lambda row: row.message_id)
    for row in rows[:-1]:
        await world.attempted(row, Status.DELIVERED)
    await world.clock.advance(5)
    assert (await job(client, job_id))["counts"]["delivered"] == 349
    await world.attempted(rows[-1], Status.DEAD)
    await world.clock.advance(5)
    found = await job(client, job_id)
    assert (found["state"], found["counts"]["failed"], found["counts"]["delivered"]) == ("done", 1, 349)


async def test_what_was_resent_again_since_or_is_gone_says_so(world: World, client: httpx.AsyncClient) -> None:
    sent = await world.written(3, Status.DEAD)
    job_id = await start(client)
    await world.clock.settle()
    await client.post(f"/messages/{sent[0].id}/resend")
    for row in await world.rows():
        if row.message_id == sent[1].id:
            await world.attempted(row, Status.DELIVERED)
    del world.store._traces[sent[2].id]
    await world.clock.advance(1)
    assert {item["message_id"]: item["outcome"] for item in await items(client, job_id)} == {
        sent[0].id: "skipped",
        sent[1].id: "delivered",
        sent[2].id: "missing",
    }
    assert balanced((await job(client, job_id))["counts"])


async def test_a_subscription_that_goes_in_the_middle_is_missing(world: World, client: httpx.AsyncClient) -> None:
    await world.written(20, Status.DEAD)
    job_id = await start(client, rate=5)
    await world.clock.settle()
    assert (await client.delete("/destinations/orders/subscriptions/billing")).status_code == 204
    await world.clock.advance(10)
    found = await job(client, job_id)
    assert found["state"] == "done"
    assert found["counts"] == {
        "selected": 20,
        "waiting": 0,
        "delivered": 0,
        "discarded": 0,
        "failed": 5,
        "skipped": 0,
        "missing": 15,
        "canceled": 0,
    }
