"""Statistics over the admin API."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from bus.domain.delivery.delivery import Status
from bus.domain.times import DAY, format_time
from bus.stores.rollups import Rollups
from bus.testing.writes import NOON, message, outcome
from tests.unit.admin.admin_world import World, problem, subscribed

HOUR = 3_600_000


@pytest.fixture
async def world() -> World:
    return await subscribed()


@pytest.fixture
async def client(world: World) -> AsyncIterator[httpx.AsyncClient]:
    async with world.client() as client:
        yield client


async def stats(client: httpx.AsyncClient, **query: Any) -> dict[str, Any]:
    answer = await client.get("/stats", params={name.rstrip("_"): value for name, value in query.items()})
    assert answer.status_code == 200, answer.text
    return answer.json()


def count(world: World) -> None:
    one = message(0)
    other = message(1, destination="mails", source="crm")
    sent = outcome(one, "billing", Status.DELIVERED, 2, ready_at=one.ready_at)
    world.context.rollups.count([one, other, outcome(one, "billing", Status.RETRYING), sent])


async def test_the_last_hour_in_minutes(world: World, client: httpx.AsyncClient) -> None:
    count(world)
    found = await stats(client)
    figures = {
        "accepted": 2,
        "deliveries": {"delivered": 1},
        "attempts": 2,
        "failed_attempts": 1,
        "success_rate": 0.5,
        "p50_ms": found["totals"]["p50_ms"],
        "p99_ms": 20.0,
    }
    assert 16 <= figures["p50_ms"] <= 20
    point = {"at": format_time(NOON)} | figures
    assert found == {
        "from": format_time(NOON - HOUR + 60_000),
        "to": format_time(NOON + 60_000),
        "step_seconds": 60,
        "kept_since": format_time(NOON + 60_000 - 6 * HOUR),
        "by": None,
        "complete": True,
        "complete_until": format_time(NOON + 60_000),
        "totals": figures,
        "series": [{"totals": figures, "points": [point]}],
        "left_out": 0,
    }


async def test_series_by_what_is_asked_for(world: World, client: httpx.AsyncClient) -> None:
    count(world)
    found = await stats(client, by="subscription")
    assert [(one["destination"], one["subscription"]) for one in found["series"]] == [("orders", "billing")]
    assert found["totals"]["accepted"] == 2
    found = await stats(client, by="source")
    assert [(one["source"], one["totals"]["accepted"]) for one in found["series"]] == [("crm", 1), ("shop", 1)]
    found = await stats(client, by="destination", limit=1)
    assert [one["destination"] for one in found["series"]] == ["orders"]
    assert found["left_out"] == 1
    assert found["totals"]["accepted"] == 2
    found = await stats(client, by="destination", destination="mails")
    assert [one["destination"] for one in found["series"]] == ["mails"]
    assert found["totals"]["accepted"] == 1


@pytest.mark.parametrize(("days", "step"), [(1, 600), (7, 3_600), (30, 86_400)])
async def test_longer_ranges_have_longer_periods(world: World, client: httpx.AsyncClient, days: int, step: int) -> None:
    count(world)
    found = await stats(client, from_=format_time(world.clock.now() - days * DAY))
    assert found["step_seconds"] == step
    assert found["totals"]["accepted"] == 2
    assert len(found["series"][0]["points"]) == 1


async def test_a_range_without_anything(world: World, client: httpx.AsyncClient) -> None:
    count(world)
    found = await stats(client, to=format_time(NOON))
    assert found["series"] == []
    assert found["totals"]["success_rate"] is found["totals"]["p50_ms"] is None
    assert found["to"] == format_time(NOON)


async def test_what_another_process_has_not_written_is_not_complete(world: World, client: httpx.AsyncClient) -> None:
    other = Rollups(world.store, world.clock, "other", lambda: None)
    await other.flush()
    await world.clock.advance(5)
    count(world)
    found = await stats(client)
    assert not found["complete"]
    assert found["complete_until"] == format_time(world.clock.now() - 5_000)
    assert (await stats(client, to=format_time(world.clock.now() - 5_000)))["complete"]
    await other.close()
    assert (await stats(client))["complete"]


async def test_what_is_no_longer_kept_is_not_complete(world: World, client: httpx.AsyncClient) -> None:
    now = world.clock.now()
    old = {"from_": format_time(now - 401 * DAY), "to": format_time(now - 390 * DAY)}
    assert not (await stats(client, **old))["complete"]
    assert (await stats(client, from_=format_time(now - 399 * DAY)))["complete"]


async def test_a_key_for_some_destinations_sees_these(world: World) -> None:
    count(world)
    await world.keyring.create_key(roles=("admin",))
    limited = await world.keyring.create_key(roles=("viewer",), destinations=("mails",))
    async with world.client(limited) as client:
        for by in ("destination", "source", "subscription"):
            found = await stats(client, by=by)
            assert found["totals"]["accepted"] == 1
            assert found["totals"]["attempts"] == 0
            assert "orders" not in str(found)
        assert (await stats(client, destination="mails"))["totals"]["accepted"] == 1
        problem(await client.get("/stats", params={"destination": "orders"}), 403)
    async with world.client(await world.keyring.create_key(roles=("producer",))) as client:
        problem(await client.get("/stats"), 403)


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ({"from": "yesterday"}, "from"),
        ({"from": format_time(NOON), "to": format_time(NOON)}, "from"),
        ({"from": format_time(NOON + DAY)}, "from"),
        ({"from": format_time(NOON - 401 * DAY)}, "from"),
        ({"from": "0001-01-01T00:00:00Z"}, "from"),
        ({"to": "1969-01-01T00:00:00+25:00"}, "to"),
        ({"by": "colour"}, "by"),
        ({"limit": "0"}, "limit"),
    ],
)
async def test_what_cannot_be_answered_names_its_field(
    client: httpx.AsyncClient, query: dict[str, str], field: str
) -> None:
    problem(await client.get("/stats", params=query), 422, field)


async def test_a_store_that_is_away_is_said(world: World, client: httpx.AsyncClient) -> None:
    count(world)
    world.store.down = True
    problem(await client.get("/stats"), 503)
    world.store.down = False
    assert (await stats(client))["totals"]["accepted"] == 2
