"""Discards of a backlog as jobs: what they take and what they leave, over restarts and beside other people."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bus.domain.delivery.delivery import UNDELIVERED, Status
from bus.domain.message import encode_message
from bus.domain.tracing.trace import decode_trace, encode_trace
from bus.testing.writes import message, outcome
from tests.unit.admin.admin_world import World, problem, running, subscribed
from tests.unit.admin.deliveries.jobs import balanced, items, job

BACKLOG = {"destination": "orders", "subscription": "billing"}
NAMES = ("billing", "mail")


async def discard(client: httpx.AsyncClient, **conditions: Any) -> str:
    answer = await client.post("/discards", json={"filter": BACKLOG | conditions, "reason": "void"})
    assert answer.status_code == 202, answer.text
    return answer.json()["id"]


async def ended(world: World, client: httpx.AsyncClient, job_id: str) -> dict[str, Any]:
    """Return a job once nothing more happens."""
    await world.clock.advance(10)
    found = await job(client, job_id)
    assert (found["state"], found["kind"], found["balanced"]) == ("done", "discard", True), found
    return found


async def states(world: World, name: str) -> dict[str, Status]:
    return {key: trace.deliveries[name].status for key, trace in world.store._traces.items()}


async def test_what_is_not_delivered_is_dropped_and_the_others_keep_theirs(
    world: World, client: httpx.AsyncClient
) -> None:
    sent = await world.written(len(Status), *Status, names=NAMES)
    mails = await states(world, "mail")
    answer = await client.post("/discards", json={"filter": BACKLOG, "dry_run": True})
    assert (answer.status_code, answer.json()["count"], answer.json()["complete"]) == (200, len(UNDELIVERED), True)
    found = await ended(world, client, await discard(client, **answer.json()["filter"]))
    assert (found["counts"]["selected"], found["counts"]["discarded"]) == (len(UNDELIVERED), len(UNDELIVERED))
    for one, before in zip(sent, Status, strict=True):
        delivery = await world.delivery(one.id)
        assert delivery.status is (Status.CANCELED if before in UNDELIVERED else before)
        assert (delivery.reason == "discarded by anyone: void") is (before in UNDELIVERED)
    assert await states(world, "mail") == mails
    assert {row.subscription for row in await world.rows()} <= {"mail"}
    assert (await client.post("/discards", json={"filter": BACKLOG, "dry_run": True})).json()["count"] == 0


async def test_dispatchers_are_told_to_ask_before_and_after(world: World, client: httpx.AsyncClient) -> None:
    await world.written(3, Status.PENDING)
    told: list[int] = []

    async def listen(catalog: Any) -> None:
        told.append(catalog.subscriptions["orders", "billing"].doubted_until)
        told.append(sum(status is Status.CANCELED for status in (await states(world, "billing")).values()))

    world.registry.listen(listen)
    await ended(world, client, await discard(client))
    first, before, last, after = told
    assert (before, after) == (0, 3)
    assert world.clock.now() - 10_000 < first < last
    changed = await client.put(
        "/destinations/orders/subscriptions/billing", json={"url": "http://127.0.0.1:9000/other"}
    )
    assert changed.status_code == 200
    assert world.registry.subscription("orders", "billing").doubted_until == last
    await ended(world, client, await discard(client))  # nothing is left, so nobody is told
    assert world.registry.subscription("orders", "billing").doubted_until == last


async def test_it_goes_on_beside_somebody_who_changes_the_subscription(world: World, client: httpx.AsyncClient) -> None:
    await world.written(2, Status.PENDING)
    found = await world.store.get("subscriptions", "orders/billing")
    assert found is not None
    await world.store.put("subscriptions", "orders/billing", found.value)  # another process, not heard of here yet
    counts = (await ended(world, client, await discard(client)))["counts"]
    assert counts["discarded"] == 2


@pytest.mark.parametrize("writes", [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 14, 16])
async def test_a_crash_in_the_middle_leaves_nothing_out(world: World, writes: int) -> None:
    await world.written(250, Status.RETRYING, Status.PENDING, names=NAMES)
    async with running(world) as client:
        world.store.left = writes
        answer = await client.post("/discards", json={"filter": BACKLOG, "reason": "void"})
        await world.clock.settle()
    world.store.left, world.store.down = None, False
    world.restart()
    await world.registry.load()
    async with running(world) as client:
        job_id = answer.json()["id"] if answer.status_code == 202 else await discard(client)
        counts = (await ended(world, client, job_id))["counts"]
        assert (counts["selected"], counts["discarded"]) == (250, 250)
        assert len(await items(client, job_id)) == 250
    assert set((await states(world, "billing")).values()) == {Status.CANCELED}
    assert Status.CANCELED not in (await states(world, "mail")).values()


async def test_what_ends_or_is_resent_meanwhile_stays_so(world: World, client: httpx.AsyncClient) -> None:
    sent = await world.written(4, Status.DEAD)
    changes = [
        outcome(sent[0], "billing", Status.RESEND, 1, generation=1, attempt=None, message=encode_message(sent[0])),
        outcome(sent[1], "billing", Status.DELIVERED, 2),
        outcome(sent[2], "billing", Status.SKIPPED, 2),
    ]

    async def change(_: object) -> None:
        """Bring these about between the selection and the first that is dropped."""
        await world.store.write(changes)
        changes.clear()

    world.registry.listen(change)
    job_id = await discard(client)
    counts = (await ended(world, client, job_id))["counts"]
    assert (counts["skipped"], counts["delivered"], counts["discarded"]) == (2, 1, 1)
    wanted = [Status.RESEND, Status.DELIVERED, Status.SKIPPED, Status.CANCELED]
    assert [(await world.delivery(one.id)).status for one in sent] == wanted


async def test_what_is_accepted_after_the_job_was_made_stays(world: World, client: httpx.AsyncClient) -> None:
    """It was made before, and waited in its producer's queue."""
    made = world.clock.now()
    old, late = message(0, expected=("billing",)), message(1, expected=("billing",), received_at=made + 1)
    await world.store.write([old, late])
    found = await ended(world, client, await discard(client))
    assert (found["counts"]["discarded"], found["counts"]["skipped"]) == (1, 1)
    assert (await world.delivery(old.id)).status is Status.CANCELED
    assert (await world.delivery(late.id)).status is Status.PENDING
    (item,) = [one for one in await items(client, found["id"]) if one["outcome"] == "skipped"]
    assert (item["message_id"], item["reason"]) == (late.id, "it was accepted after the job was made")


async def test_what_does_not_meet_the_filter_any_more_stays(world: World, client: httpx.AsyncClient) -> None:
    sent = await world.written(2, Status.PENDING)
    changes = [outcome(sent[0], "billing", Status.RETRYING)]

    async def change(_: object) -> None:
        """Bring it about between the selection and the first that is dropped."""
        await world.store.write(changes)
        changes.clear()

    world.registry.listen(change)
    job_id = await discard(client, status="pending")
    counts = (await ended(world, client, job_id))["counts"]
    assert (counts["discarded"], counts["skipped"]) == (1, 1)
    assert [(await world.delivery(one.id)).status for one in sent] == [Status.RETRYING, Status.CANCELED]


async def test_a_job_that_is_canceled_leaves_the_rest(world: World) -> None:
    await world.written(250, Status.PENDING)
    async with world.client() as client:
        job_id = await discard(client)
        assert (await client.delete(f"/resends/{job_id}")).json()["state"] == "canceled"
    async with running(world) as client:
        await world.clock.advance(5)
        found = await job(client, job_id)
    assert (found["state"], found["counts"]["discarded"], balanced(found["counts"])) == ("canceled", 0, True)
    assert set((await states(world, "billing")).values()) == {Status.PENDING}


async def test_what_was_discarded_is_resent_as_another_job(world: World, client: httpx.AsyncClient) -> None:
    sent = await world.written(3, Status.DEAD, Status.PENDING, Status.DELIVERED)
    job_id = await discard(client)
    await ended(world, client, job_id)
    again = (await client.post(f"/resends/{job_id}/rerun", json={})).json()["id"]
    await world.clock.advance(1)
    found = await job(client, again)
    assert (found["kind"], found["counts"]["selected"], found["outcomes"]) == ("resend", 2, ["discarded"])
    assert {row.message_id for row in await world.rows()} == {one.id for one in sent[:2]}


@pytest.mark.parametrize(
    ("conditions", "field"),
    [
        ({"subscription": None}, "filter.subscription"),
        ({"destination": None}, "filter.destination"),
        *(({"status": status}, "filter.status") for status in ("delivered", "skipped", "canceled", "lost")),
        ({"nonsense": 1}, "filter.nonsense"),
    ],
)
async def test_an_impossible_discard_is_a_422(
    world: World, client: httpx.AsyncClient, conditions: dict[str, Any], field: str
) -> None:
    await world.written(1)
    problem(await client.post("/discards", json={"filter": BACKLOG | conditions}), 422, field)
    assert (await client.get("/resends")).json()["items"] == []


async def test_a_subscription_that_is_not_there_is_a_404(client: httpx.AsyncClient) -> None:
    for dry_run in (True, False):
        problem(
            await client.post("/discards", json={"filter": BACKLOG | {"subscription": "x"}, "dry_run": dry_run}), 404
        )


async def test_the_audit_log_has_the_filter_the_count_and_the_reason(world: World, client: httpx.AsyncClient) -> None:
    await world.written(3, Status.DEAD)
    job_id = await discard(client, status="dead")
    (entry, *_) = (await client.get("/audit", params={"resource": "discards"})).json()["items"]
    after = {name: change["after"] for name, change in entry["changes"].items()}
    assert after == {"filter": BACKLOG | {"status": "dead"}, "reason": "void", "count": 3, "job": job_id}


async def test_only_who_may_resend_discards(world: World, client: httpx.AsyncClient) -> None:
    await world.written(1)
    for roles, destinations, status in (
        (("viewer",), ("orders",), 403),
        (("operator",), ("mails",), 403),
        (("operator",), ("orders",), 202),
    ):
        key = await world.keyring.create_key(roles=roles, destinations=destinations)
        async with world.client(key) as somebody:
            assert (await somebody.post("/discards", json={"filter": BACKLOG})).status_code == status


CONDITIONS = st.fixed_dictionaries(
    {},
    optional={
        "status": st.sampled_from(sorted(UNDELIVERED)),
        "biz_id": st.sampled_from(["a", "b"]),
        "source": st.sampled_from(["shop", "till"]),
        "from": st.sampled_from(["2026-11-21T12:00:00.002Z", "2026-11-21T12:00:00.004Z"]),
        "to": st.sampled_from(["2026-11-21T12:00:00.003Z", "2026-11-21T12:00:00.005Z"]),
        "q": st.sampled_from(["a", "till"]),
    },
)
WRITTEN = st.lists(
    st.tuples(
        st.sampled_from(Status), st.sampled_from(Status), st.sampled_from("ab"), st.sampled_from(["shop", "till"])
    ),
    max_size=8,
)


@given(WRITTEN, CONDITIONS)
def test_a_discard_never_touches_what_does_not_match(
    written: list[tuple[Status, Status, str, str]], conditions: dict[str, str]
) -> None:
    asyncio.run(_tried(written, conditions))


async def _tried(written: list[tuple[Status, Status, str, str]], conditions: dict[str, str]) -> None:
    world = await subscribed()
    sent = [
        message(number, expected=NAMES, biz_id=biz_id, source=source)
        for number, (_, _, biz_id, source) in enumerate(written)
    ]
    await world.store.write(sent)
    for (
        one,
        states_of,
    ) in zip(sent, written, strict=True):
        pairs = [(name, status) for name, status in zip(NAMES, states_of[:2], strict=True) if status != "pending"]
        await world.store.write([outcome(one, name, status) for name, status in pairs])
    before = {one.id: encode_trace(world.store._traces[one.id]) for one in sent}
    chosen = {
        one.id
        for one, (status, _, _, _) in zip(sent, written, strict=True)
        if status in UNDELIVERED
        and conditions.get("status", status) == status
        and conditions.get("biz_id", one.biz_id) == one.biz_id
        and conditions.get("source", one.source) == one.source
        and one.sent_at >= 1_795_262_400_000 + int(conditions.get("from", "000Z")[-4:-1])
        and one.sent_at < 1_795_262_400_000 + int(conditions.get("to", "999Z")[-4:-1])
        and any(conditions.get("q", "") in text for text in (one.id, one.biz_id, one.source))
    }
    rows = {(row.message_id, row.subscription) for row in await world.rows()}
    async with running(world) as client:
        counts = (await ended(world, client, await discard(client, **conditions)))["counts"]
    assert counts["selected"] == counts["discarded"] == len(chosen)
    for one in sent:
        trace = world.store._traces[one.id]
        if one.id in chosen:
            assert trace.deliveries["billing"].status is Status.CANCELED
            world.store._traces[one.id].deliveries["billing"] = decode_trace(before[one.id]).deliveries["billing"]
        assert encode_trace(trace) == before[one.id]
    left = {(row.message_id, row.subscription) for row in await world.rows()}
    assert left == {row for row in rows if row[1] != "billing" or row[0] not in chosen}
