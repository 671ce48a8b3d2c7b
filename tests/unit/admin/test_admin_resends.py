"""Bulk resends: jobs with a frozen selection, an outcome for each item, and no item resent twice."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from bus.domain.delivery import Status
from bus.domain.times import format_time
from bus.testing.writes import NOON, message, outcome
from tests.unit.admin.admin_world import URL, World, problem

DEAD = {"destination": "orders", "status": "dead"}


@pytest.fixture
async def world() -> World:
    world = World()
    async with world.client() as client:
        await client.put("/destinations/orders", json={})
        for name in ("billing", "mail"):
            await client.put(f"/destinations/orders/subscriptions/{name}", json={"url": URL})
    await world.clock.advance(60)
    return world


@asynccontextmanager
async def running(world: World) -> AsyncIterator[httpx.AsyncClient]:
    runner = asyncio.create_task(world.office.runner.run())
    try:
        async with world.client() as client:
            yield client
    finally:
        assert not runner.done(), runner
        runner.cancel()
        await asyncio.gather(runner, return_exceptions=True)


@pytest.fixture
async def client(world: World) -> AsyncIterator[httpx.AsyncClient]:
    async with running(world) as client:
        yield client


async def start(client: httpx.AsyncClient, chosen: dict[str, Any] | None = None, **fields: Any) -> str:
    answer = await client.post("/resends", json={"filter": DEAD if chosen is None else chosen, **fields})
    assert answer.status_code == 202, answer.text
    return answer.json()["id"]


async def job(client: httpx.AsyncClient, job_id: str) -> dict[str, Any]:
    answer = await client.get(f"/resends/{job_id}")
    assert answer.status_code == 200, answer.text
    return answer.json()


async def items(client: httpx.AsyncClient, job_id: str) -> list[dict[str, Any]]:
    found, cursor = [], "0"
    while cursor is not None:
        page = (await client.get(f"/resends/{job_id}/items", params={"cursor": cursor})).json()
        found += page["items"]
        cursor = page["next"]
    return found


async def attempt_all(world: World, *states: Status) -> None:
    """Attempt every row that is there, with these results in turn."""
    for number, row in enumerate(await world.rows()):
        await world.attempted(row, states[number % len(states)])


def balanced(counts: dict[str, int]) -> bool:
    return counts["selected"] == sum(count for name, count in counts.items() if name != "selected")


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
    assert found["counts"] == {"selected": 10, "waiting": 0, "delivered": 5, "failed": 5, "skipped": 0, "missing": 0}
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


async def test_a_slow_rate_does_not_delay_the_cancelling(world: World, client: httpx.AsyncClient) -> None:
    await world.written(5, Status.DEAD)
    job_id = await start(client, rate=0.0001)
    await world.clock.settle()
    await client.delete(f"/resends/{job_id}")
    await world.clock.advance(1)
    assert world.office.runner._working == set()


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
    assert found["counts"] == {"selected": 20, "waiting": 0, "delivered": 0, "failed": 5, "skipped": 0, "missing": 15}


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


async def test_jobs_are_listed_the_newest_first_in_pages(world: World, client: httpx.AsyncClient) -> None:
    made = []
    for _ in range(5):
        made.append(await start(client))
        await world.clock.advance(0.01)
    page = (await client.get("/resends", params={"limit": 2})).json()
    assert [one["id"] for one in page["items"]] == made[:2:-1]
    rest = (await client.get("/resends", params={"limit": 50, "cursor": page["next"]})).json()
    assert [one["id"] for one in rest["items"]] == made[2::-1]
    assert rest["next"] is None


@pytest.mark.parametrize(
    ("body", "field"),
    [
        *(({}, "filter"), ({"filter": {}, "rate": 0}, "rate"), ({"filter": {}, "nonsense": 1}, "nonsense")),
        *(({"filter": {"nonsense": 1}}, "filter.nonsense"), ({"filter": {"status": "lost"}}, "filter.status")),
        *(({"filter": {"from": "x"}}, "filter.from"), ({"filter": {}, "reason": "x" * 1001}, "reason")),
        *(({"filter": {}, "dry_run": "perhaps"}, "dry_run"), ({"filter": None}, "filter")),
    ],
)
async def test_an_impossible_job_is_a_422(client: httpx.AsyncClient, body: dict, field: str) -> None:
    problem(await client.post("/resends", json=body), 422, field)
    assert (await client.get("/resends")).json()["items"] == []


async def test_a_job_that_is_not_there_is_a_404(client: httpx.AsyncClient) -> None:
    for method, path in (("GET", ""), ("GET", "/items"), ("DELETE", "")):
        problem(await client.request(method, f"/resends/nothing{path}"), 404)
    problem(await client.get("/resends/nothing/items", params={"cursor": "x"}), 422, "cursor")


async def test_a_key_of_one_destination_resends_its_own_and_sees_no_other_job(
    world: World, client: httpx.AsyncClient
) -> None:
    await world.written(2, Status.DEAD)
    foreign = [await start(client, {}), await start(client, {"destination": "mails"})]
    await world.clock.advance(1)
    key = await world.keyring.create_key(roles=("operator",), destinations=("orders",))
    async with world.client(key) as operator:
        for chosen in ({}, {"destination": "mails"}, {"q": "x"}):
            for dry_run in (True, False):
                problem(await operator.post("/resends", json={"filter": chosen, "dry_run": dry_run}), 403)
        assert (await operator.post("/resends", json={"filter": DEAD, "dry_run": True})).status_code == 200
        own = await start(operator)
        assert [one["id"] for one in (await operator.get("/resends")).json()["items"]] == [own]
        for method, path in (("GET", ""), ("GET", "/items"), ("DELETE", "")):
            for job_id in foreign:
                answer = await operator.request(method, f"/resends/{job_id}{path}")
                problem(answer, 404)
                nowhere = await operator.request(method, f"/resends/nothing{path}")
                assert answer.text.replace(job_id, "nothing") == nowhere.text
            assert (await operator.request(method, f"/resends/{own}{path}")).status_code == 200


async def test_the_pages_of_a_limited_key_are_full(world: World, client: httpx.AsyncClient) -> None:
    own = []
    for number in range(6):
        await world.clock.advance(0.01)
        job_id = await start(client, {"destination": "orders" if number % 2 else "mails"})
        own += [job_id] if number % 2 else []
    key = await world.keyring.create_key(roles=("viewer",), destinations=("orders",))
    async with world.client(key) as viewer:
        page = (await viewer.get("/resends", params={"limit": 2})).json()
        rest = (await viewer.get("/resends", params={"limit": 2, "cursor": page["next"]})).json()
    assert [one["id"] for one in page["items"] + rest["items"]] == own[::-1]
    assert rest["next"] is None
