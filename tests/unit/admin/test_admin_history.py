"""The history of a destination or a subscription, for those who may read it."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests.unit.admin.admin_world import BILLING, URL, World, problem

ORDERS = "destinations/orders"


@pytest.fixture
async def world() -> World:
    world = World()
    async with world.client() as client:
        await client.put("/destinations/orders", json={})
        await client.put("/destinations/orders2", json={})
        await client.put(BILLING, json={"url": URL, "secret": "auto", "headers": {"authorization": "hidden"}})
        await client.patch(BILLING, json={"paused": True})
        await client.put("/destinations/orders", json={"retention_days": 0})
        await client.put("/destinations/orders", json={"retention_days": 7})
        await client.post(f"{BILLING}/sample", json={"body": 1})
    return world


async def history(client: httpx.AsyncClient, resource: str, **query: Any) -> dict[str, Any]:
    answer = await client.get("/history", params={"resource": resource, **query})
    assert answer.status_code == 200, answer.text
    return answer.json()


async def test_the_changes_of_a_destination_and_of_what_is_in_it(client: httpx.AsyncClient) -> None:
    found = await history(client, ORDERS)
    assert [(item["method"], item["resource"]) for item in found["items"]] == [
        ("PUT", ORDERS),
        ("PATCH", BILLING[1:]),
        ("PUT", BILLING[1:]),
        ("PUT", ORDERS),
    ]
    assert found["items"][0]["changes"] == {"retention_days": {"before": 30, "after": 7}}
    assert found["items"][0]["who"] == {"kind": "open", "name": "anyone"}
    assert {item["outcome"] for item in found["items"]} == {"done"}
    assert found["next"] is None


async def test_the_changes_of_a_subscription_without_its_secrets(client: httpx.AsyncClient) -> None:
    found = await history(client, BILLING[1:])
    assert [item["method"] for item in found["items"]] == ["PATCH", "PUT"]
    assert found["items"][1]["changes"]["secret"] == {"before": None, "after": "***"}
    assert "hidden" not in str(found)
    assert "whsec" not in str(found)


async def test_what_is_removed_keeps_its_history(client: httpx.AsyncClient) -> None:
    assert (await client.delete(BILLING)).status_code == 204
    found = await history(client, BILLING[1:])
    assert [item["method"] for item in found["items"]] == ["DELETE", "PATCH", "PUT"]


async def test_pages_go_on_where_the_one_before_ended(client: httpx.AsyncClient) -> None:
    seen, cursor = [], None
    for _ in range(20):
        page = await history(client, ORDERS, limit=1, **({"cursor": cursor} if cursor else {}))
        assert len(page["items"]) <= 1
        seen += page["items"]
        cursor = page["next"]
        if cursor is None:
            break
    assert seen == (await history(client, ORDERS))["items"]


async def test_a_change_whose_end_is_not_known_is_told_as_such(world: World, client: httpx.AsyncClient) -> None:
    world.store.left = 2  # the entry and the change, not the outcome
    await client.patch(BILLING, json={"paused": False})
    world.store.left, world.store.down = None, False
    assert (await history(client, BILLING[1:]))["items"][0]["outcome"] == "unknown"


async def test_whoever_may_read_the_destination_reads_it_and_nobody_else(world: World) -> None:
    await world.keyring.create_key(roles=("admin",))
    viewer = await world.keyring.create_key(roles=("viewer",), destinations=("orders",))
    producer = await world.keyring.create_key(roles=("producer",))
    async with world.client(viewer) as client:
        assert len((await history(client, ORDERS))["items"]) == 4
        problem(await client.get("/history", params={"resource": "destinations/orders2"}), 403)
        problem(await client.get("/audit"), 403)
    async with world.client(producer) as client:
        problem(await client.get("/history", params={"resource": ORDERS}), 403)
    async with world.client() as client:
        problem(await client.get("/history", params={"resource": ORDERS}), 401)


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ({}, "resource"),
        *(
            ({"resource": resource}, "resource")
            for resource in ("", "keys", "destinations", "destinations/", f"{ORDERS}/", "destinations/a/subscriptions")
        ),
        ({"resource": ORDERS, "cursor": "x"}, "cursor"),
        ({"resource": ORDERS, "limit": 0}, "limit"),
    ],
)
async def test_what_cannot_be_asked_is_a_422(client: httpx.AsyncClient, query: Any, field: str) -> None:
    problem(await client.get("/history", params=query), 422, field)
