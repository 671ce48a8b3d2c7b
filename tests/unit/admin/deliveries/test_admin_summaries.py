"""Summaries of the messages of a search, over the admin API."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from admin.routes import summaries
from bus.domain.delivery.delivery import Status
from bus.domain.times import format_time
from bus.testing.writes import NOON, message, outcome
from tests.unit.admin.admin_world import World, problem


async def summary(client: httpx.AsyncClient, **query: Any) -> dict[str, Any]:
    answer = await client.get("/messages/summary", params={name.rstrip("_"): value for name, value in query.items()})
    assert answer.status_code == 200, answer.text
    return answer.json()


async def failed(world: World, count: int, **changes: Any) -> None:
    """Write messages that died of an HTTP 503 at ``billing``."""
    sent = [message(number, expected=("billing",), **changes) for number in range(count)]
    died = [outcome(one, "billing", Status.DEAD, reason="HTTP 503; retries exhausted after 3") for one in sent]
    await world.store.write([*sent, *died])


async def test_a_search_is_summed_up_whole(world: World, client: httpx.AsyncClient) -> None:
    await failed(world, 12, headers={"X-Tenant": "north"})
    found = await summary(client, destination="orders", from_=format_time(NOON), to=format_time(NOON + 60_000))
    assert (found["messages"], found["step_seconds"]) == (12, 1)
    assert (found["from"], found["to"]) == (format_time(NOON), format_time(NOON + 60_000))
    assert found["periods"] == [{"at": format_time(NOON), "states": {"dead": 12}}]
    assert found["searched"]["complete"]
    values = {(one["of"], one["name"]): one["values"] for one in found["shared"]}
    narrowed = {"destination": "orders", "from": format_time(NOON), "to": format_time(NOON + 60_000)}
    assert values["signature", ""] == [
        {"value": "HTTP 503", "messages": 12, "filter": {**narrowed, "signature": "HTTP 503"}}
    ]
    assert values["header", "x-tenant"] == [
        {"value": "north", "messages": 12, "filter": {**narrowed, "header": "x-tenant: north"}}
    ]
    assert values["node", ""][0]["filter"] is None
    assert ("destination", "") not in values


async def test_every_filter_that_it_gives_finds_what_it_says(world: World, client: httpx.AsyncClient) -> None:
    await failed(world, 5, headers={"X-Tenant": "north"}, key="one")
    for one in (await summary(client))["shared"]:
        for value in one["values"]:
            if value["filter"] is not None:
                assert (await summary(client, **value["filter"]))["messages"] == value["messages"]


async def test_many_are_looked_at_only_so_far(
    world: World, client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    await failed(world, 7)
    monkeypatch.setattr(summaries, "MOST", 4)
    monkeypatch.setattr(summaries, "_PAGE", 2)
    found = await summary(client)
    assert found["messages"] == 4
    assert (found["searched"]["complete"], found["searched"]["reason"]) == (False, "limit")
    assert (found["searched"]["from"], found["from"]) == (format_time(NOON + 3), format_time(NOON))


async def test_nothing_is_found(client: httpx.AsyncClient) -> None:
    found = await summary(client, source="nobody")
    assert (found["messages"], found["periods"], found["shared"]) == (0, [], [])


async def test_what_is_no_search_is_refused(client: httpx.AsyncClient) -> None:
    problem(await client.get("/messages/summary", params={"status": "lost"}), 422, "status")
