"""The work of dispatchers for a subscription, over the admin API."""

from __future__ import annotations

import httpx

from bus.cluster.activity import Activity
from bus.domain.delivery.delivery import Status
from bus.domain.health.vitals import RecentAttempt, WorkerFigures
from bus.domain.times import format_time
from bus.testing.writes import NOON
from tests.unit.admin.admin_world import BILLING, World, made, problem


async def test_what_goes_on_is_told_as_of_now(world: World, client: httpx.AsyncClient) -> None:
    await client.put("/destinations/orders", json={})
    await made(client, max_concurrency=8, rate=3)
    attempt = RecentAttempt("m1", 2, NOON, 12.3456, 503, "HTTP 503", Status.RETRYING, "node-1")
    permits = WorkerFigures("orders", "billing", 3, 8, 8, 5, 0.5)
    world.offer(activity=lambda *_: Activity(permits, [attempt]))
    assert (await client.get(f"{BILLING}/activity")).json() == {
        "permits": 8,
        "in_flight": 3,
        "held": 5,
        "rate": 3.0,
        "rate_wait_seconds": 0.5,
        "silent": 0,
        "attempts": [
            {
                "message_id": "m1",
                "n": 2,
                "started_at": format_time(NOON),
                "duration_ms": 12.346,
                "status_code": 503,
                "error": "HTTP 503",
                "status": "retrying",
                "node": "node-1",
            }
        ],
    }


async def test_of_no_subscription_nothing_is_told(client: httpx.AsyncClient) -> None:
    problem(await client.get("/destinations/orders/subscriptions/nobody/activity"), 404)
