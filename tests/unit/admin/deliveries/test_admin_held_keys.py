"""Keys that are held up: listed, resumed and skipped."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from bus.domain.delivery.delivery import Status
from bus.domain.message import Message
from bus.domain.times import format_time
from bus.domain.tracing.events import Stage
from bus.testing.contracts.store_ordering import behind, dead, failed
from bus.testing.writes import NOON, message, outcome
from tests.unit.admin.admin_world import BILLING, World, problem, subscribed

KEYS = f"{BILLING}/keys"


@pytest.fixture
async def world() -> World:
    world = await subscribed()
    async with world.client() as client:
        await client.patch("/destinations/orders", json={"ordering": "key"})
    return world


async def held_up(world: World, key: str, number: int, waiting: int = 2, *, is_dead: bool = False) -> Message:
    """Write a message of a key that has failed, and others behind it."""
    first, *rest = (message(number + n, key=key, expected=("billing",)) for n in range(waiting + 1))
    await world.store.write([first, *rest, failed(first, key, number + 1, due_at=world.clock.now() + 60_000)])
    if is_dead:
        await world.store.write([dead(first, key, number + 1)])
    await world.store.write([behind(one, key, number + 2 + n) for n, one in enumerate(rest)])
    return first


async def listed(client: httpx.AsyncClient, **query: Any) -> Any:
    answer = await client.get(KEYS, params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def test_what_holds_up_a_key_is_told(world: World, client: httpx.AsyncClient) -> None:
    late = await held_up(world, "ä 1", 10)
    ended = await held_up(world, "b", 20, 0, is_dead=True)
    first = {
        "key": "b",
        "waiting": 0,
        "held_up_by": ended.id,
        "status": "dead",
        "reason": "500; retries exhausted after 2",
        "since": format_time(NOON + 32),
        "next_attempt_at": None,
        "attempts": 2,
    }
    second = {
        "key": "ä 1",
        "waiting": 2,
        "held_up_by": late.id,
        "status": "retrying",
        "reason": "500",
        "since": format_time(NOON + 22),
        "next_attempt_at": format_time(world.clock.now() + 60_000),
        "attempts": 1,
    }
    assert await listed(client) == {"items": [first, second], "next": None}
    assert await listed(client, limit=1) == {"items": [first], "next": "b"}
    assert await listed(client, limit=1, cursor="b") == {"items": [second], "next": None}
    assert (await client.get(f"{BILLING}/keys".replace("billing", "mail"))).json()["items"] == []
    problem(await client.get(KEYS.replace("billing", "nobody")), 404)


async def test_keys_that_only_wait_their_turn_are_not_held_up(world: World, client: httpx.AsyncClient) -> None:
    first = await held_up(world, "a", 10)
    await world.store.write([outcome(first, "billing", Status.DELIVERED, 2)])
    assert await listed(client) == {"items": [], "next": None}
    for action in ("resume", "skip"):
        refused = problem(await client.post(f"{KEYS}/{action}", json={"key": "a"}), 404)
        assert refused["detail"] == "nothing holds up the key 'a' of orders/billing"
        assert refused["hint"] == "see which are held up: bus ordering show orders billing"
    problem(await client.post(f"{KEYS}/skip", json={"key": "nothing"}), 404)


@pytest.mark.parametrize("is_dead", [False, True])
async def test_a_key_is_resumed_by_a_resend(world: World, client: httpx.AsyncClient, is_dead: bool) -> None:
    first = await held_up(world, "a", 10, is_dead=is_dead)
    answer = await client.post(f"{KEYS}/resume", json={"key": "a"})
    assert (answer.status_code, answer.json()) == (202, {"key": "a", "message_id": first.id})
    delivery = await world.delivery(first.id)
    assert (delivery.status, delivery.generation, delivery.resends[0].by) == (Status.RESEND, 1, "anyone")
    (row, *_) = await world.store.ordered_rows("orders", "billing", "a", limit=9)
    assert (row.message_id, row.generation, row.due_at) == (first.id, 1, world.clock.now())
    (one,) = (await listed(client))["items"]
    assert (one["status"], one["waiting"], one["attempts"]) == ("resend", 2, 2 if is_dead else 1)
    assert (await client.post(f"{KEYS}/resume", json={"key": "a"})).json()["message_id"] == first.id
    assert (await world.delivery(first.id)).generation == 1
    (job,) = (await client.get("/resends")).json()["items"]
    assert (job["by"], job["counts"]["selected"]) == ("anyone", 1)


@pytest.mark.parametrize("is_dead", [False, True])
async def test_a_key_is_skipped(world: World, client: httpx.AsyncClient, is_dead: bool) -> None:
    first = await held_up(world, "a", 10, is_dead=is_dead)
    answer = await client.post(f"{KEYS}/skip", json={"key": "a", "reason": "canceled by phone"})
    assert (answer.status_code, answer.json()) == (202, {"key": "a", "message_id": first.id})
    delivery = await world.delivery(first.id)
    assert (delivery.status, delivery.generation) == (Status.PARKED, 1)
    assert delivery.reason == "set aside by anyone: canceled by phone"
    assert len(await world.store.ordered_rows("orders", "billing", "a", limit=9)) == 2
    assert await listed(client) == {"items": [], "next": None}
    (told,) = world.events.of(Stage.SETTLED)
    assert (told.stage, told.status, told.id, told.generation) == (Stage.SETTLED, "parked", first.id, 1)
    found = (await client.get("/messages", params={"status": "parked"})).json()["items"]
    assert [row["id"] for row in found] == [first.id]
    (group,) = (await client.get("/failures")).json()["items"]
    assert (group["signature"], group["deliveries"]) == ("set aside by a person", {"parked": 1})
    problem(await client.post(f"{KEYS}/skip", json={"key": "a"}), 404)


async def test_one_that_is_resumed_can_be_skipped(world: World, client: httpx.AsyncClient) -> None:
    first = await held_up(world, "a", 10, is_dead=True)
    assert (await client.post(f"{KEYS}/resume", json={"key": "a"})).status_code == 202
    assert (await client.post(f"{KEYS}/skip", json={"key": "a"})).status_code == 202
    delivery = await world.delivery(first.id)
    assert (delivery.status, delivery.generation, delivery.reason) == (Status.PARKED, 2, "set aside by anyone")


async def test_decisions_are_in_the_audit_log(world: World, client: httpx.AsyncClient) -> None:
    first = await held_up(world, "a", 10)
    await client.post(f"{KEYS}/skip", json={"key": "a", "reason": "why"})
    await client.post(f"{KEYS}/resume", json={"key": "a"})
    refused, done, *_ = (await client.get("/audit")).json()["items"]
    assert (refused["resource"], refused["outcome"]) == (f"{KEYS[1:]}/resume", "refused")
    assert (done["resource"], done["outcome"]) == (f"{KEYS[1:]}/skip", "done")
    asked = {"ordering_key": "a", "message_id": first.id, "reason": "why"}
    assert done["changes"] == {name: {"before": None, "after": value} for name, value in asked.items()}


@pytest.mark.parametrize(
    ("body", "field"),
    [({}, "key"), ({"key": 1}, "key"), ({"key": "x" * 513}, "key"), ({"key": "a", "reason": "x" * 1001}, "reason")],
)
async def test_what_is_wrong_is_told(client: httpx.AsyncClient, body: dict[str, Any], field: str) -> None:
    problem(await client.post(f"{KEYS}/skip", json=body), 422, field)


async def test_an_order_does_not_end_while_keys_are_held_up(world: World, client: httpx.AsyncClient) -> None:
    """Nobody would read their rows any more."""
    first = await held_up(world, "a", 10, 0)
    problem(await client.patch("/destinations/orders", json={"ordering": "none"}), 422, "ordering")
    document = (await client.get("/configuration")).json()
    document["destinations"][0]["ordering"] = "none"
    problem(await client.put("/configuration", json=document), 422, "destinations.0.ordering")
    await world.store.write([outcome(first, "billing", Status.DELIVERED, 2)])
    assert (await client.patch("/destinations/orders", json={"ordering": "none"})).status_code == 200
