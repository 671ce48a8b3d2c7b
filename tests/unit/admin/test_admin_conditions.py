"""The route of conditions: the worst first, and for each principal its own."""

from __future__ import annotations

import httpx
import pytest

from bus.domain.health.vitals import WorkerFigures
from tests.unit.admin.admin_world import URL, World, problem


@pytest.fixture
async def filled(client: httpx.AsyncClient, world: World) -> World:
    for code, names in (("orders", ("billing", "mail")), ("payments", ("bank",))):
        await client.put(f"/destinations/{code}", json={"code": code})
        for name in names:
            given = {"name": name, "url": URL, "rate": 1}
            (await client.put(f"/destinations/{code}/subscriptions/{name}", json=given)).raise_for_status()
    await client.patch("/destinations/payments/subscriptions/bank", json={"paused": True})
    return world


async def listed(client: httpx.AsyncClient, **query: str) -> list[tuple[str, str, str]]:
    answer = await client.get("/conditions", params=query)
    assert answer.status_code == 200, answer.text
    return [(one["destination"], one["subscription"], one["state"]) for one in answer.json()["items"]]


async def test_the_worst_come_first(filled: World, client: httpx.AsyncClient) -> None:
    filled.offer(active_workers=lambda: [WorkerFigures("orders", "mail", 1, 16, 16, 5, rate_wait=0.5)])
    assert await listed(client) == [
        ("payments", "bank", "paused"),
        ("orders", "mail", "held_by_rate"),
        ("orders", "billing", "quiet"),
    ]
    assert await listed(client, destination="payments", limit="1") == [("payments", "bank", "paused")]
    assert await listed(client, destination="nowhere") == []
    problem(await client.get("/conditions", params={"limit": "0"}), 422)


async def test_the_overview_has_the_worst_of_each_destination(filled: World, client: httpx.AsyncClient) -> None:
    await client.put("/destinations/empty", json={"code": "empty"})
    found = (await client.get("/overview")).json()["destinations"]
    assert {one["destination"]: one["state"] for one in found} == {
        "orders": "quiet",
        "payments": "paused",
        "empty": None,
    }
