"""The selection of a bulk resend: its filter, frozen when it is asked for, as a dry run counts it."""

from __future__ import annotations

from collections import Counter
from typing import Any

import httpx

from bus.domain.delivery.delivery import Status
from bus.domain.times import format_time
from bus.testing.writes import NOON, message, outcome
from tests.unit.admin.admin_world import World
from tests.unit.admin.deliveries.jobs import DEAD, attempt_all, balanced, items, job, start


async def test_a_job_resends_what_its_filter_takes_and_nothing_else(world: World, client: httpx.AsyncClient) -> None:
    sent = await world.written(30, Status.DEAD, Status.DELIVERED, Status.PENDING)
    job_id = await start(client, reason="a bad hour")
    await world.clock.settle()
    assert {row.message_id for row in await world.rows()} == {one.id for one in sent[::3]}
    found = await job(client, job_id)
    assert (found["state"], found["reason"], found["by"], found["rate"]) == ("waiting", "a bad hour", "anyone", None)
    assert found["created_at"] == format_time(world.clock.now())
    assert found["filter"] == {**DEAD, "to": format_time(world.clock.now())}
    await attempt_all(world, Status.DELIVERED, Status.RETRYING)
    await world.clock.advance(1)
    found = await job(client, job_id)
    assert found["state"] == "done"
    assert (found["counts"]["selected"], found["counts"]["delivered"], found["counts"]["failed"]) == (10, 5, 5)
    assert balanced(found["counts"])
    assert Counter(item["outcome"] for item in await items(client, job_id)) == {"delivered": 5, "failed": 5}
    assert (await world.delivery(sent[0].id)).generation == 1


async def test_a_dry_run_counts_and_changes_nothing(world: World, client: httpx.AsyncClient) -> None:
    sent = await world.written(250, Status.DEAD, names=("billing", "mail"))
    answer = await client.post("/resends", json={"filter": DEAD, "dry_run": True})
    assert answer.status_code == 200
    assert answer.json()["count"] == 500
    assert [item["id"] for item in answer.json()["sample"]] == [one.id for one in reversed(sent[-10:])]
    await world.clock.advance(1)
    assert await world.rows() == []
    assert (await client.get("/resends")).json() == {"items": [], "next": None}


async def test_a_dry_run_and_a_job_agree(world: World, client: httpx.AsyncClient) -> None:
    await world.written(120, Status.DEAD, Status.DELIVERED, Status.RETRYING, Status.PENDING, names=("billing", "mail"))
    chosen: list[dict[str, Any]] = [
        {},
        {"status": "delivered"},
        {"subscription": "mail"},
        {"subscription": "mail", "status": "dead"},
        {"subscription": "nobody"},
        {"q": "order-7", "from": format_time(NOON), "to": format_time(NOON + 80)},
        {"destination": "nowhere"},
    ]
    for one in chosen:
        expected = (await client.post("/resends", json={"filter": one, "dry_run": True})).json()["count"]
        job_id = await start(client, one)
        await world.clock.settle()
        found = await job(client, job_id)
        assert found["counts"]["selected"] == expected, one
        assert balanced(found["counts"])
        await client.delete(f"/resends/{job_id}")


async def test_of_a_message_only_the_deliveries_in_that_state_are_resent(
    world: World, client: httpx.AsyncClient
) -> None:
    sent = [message(number, expected=("billing", "mail")) for number in range(3)]
    await world.store.write(sent)
    states = [(Status.DEAD, Status.DELIVERED), (Status.DELIVERED, Status.DEAD), (Status.DEAD, Status.RETRYING)]
    for one, (billing, mail) in zip(sent, states, strict=True):
        await world.store.write([outcome(one, "billing", billing), outcome(one, "mail", mail)])
    assert (await client.post("/resends", json={"filter": DEAD, "dry_run": True})).json()["count"] == 3
    job_id = await start(client)
    await world.clock.settle()
    chosen = {(sent[0].id, "billing"), (sent[1].id, "mail"), (sent[2].id, "billing")}
    assert {(item["message_id"], item["subscription"]) for item in await items(client, job_id)} == chosen
    for one, before in zip(sent, states, strict=True):
        for name, state in zip(("billing", "mail"), before, strict=True):
            delivery = await world.delivery(one.id, name)
            wanted = (Status.RESEND, 1) if (one.id, name) in chosen else (state, 0)
            assert (delivery.status, delivery.generation) == wanted


async def test_what_is_pending_is_skipped_and_said(world: World, client: httpx.AsyncClient) -> None:
    await world.written(4, Status.PENDING, Status.DEAD)
    job_id = await start(client, {})
    await world.clock.settle()
    found = await items(client, job_id)
    assert Counter(item["outcome"] for item in found) == {"skipped": 2, "waiting": 2}
    assert {item["reason"] for item in found} == {"", "still pending: it is on its way"}


async def test_what_the_filter_does_not_want_any_more_is_skipped_and_said(
    world: World, client: httpx.AsyncClient
) -> None:
    (sent,) = await world.written(1, Status.DEAD)
    job_id = await start(client)
    await world.clock.settle()
    await world.store.write([outcome(sent, "billing", Status.SKIPPED, generation=1, reason="the filter")])
    await world.clock.advance(1)
    (item,) = await items(client, job_id)
    assert (item["outcome"], item["reason"]) == ("skipped", "the filter")
    assert balanced((await job(client, job_id))["counts"])


async def test_what_arrives_later_is_not_part_of_a_job(world: World, client: httpx.AsyncClient) -> None:
    await world.written(2, Status.DEAD)
    job_id = await start(client)
    late = message(61_000, expected=("billing",))
    await world.store.write([late, outcome(late, "billing", Status.DEAD)])
    await world.clock.settle()
    assert (await job(client, job_id))["counts"]["selected"] == 2
