"""Conditions of a search beyond plain fields, and the facts that its response gives about itself."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from bus.domain.delivery.delivery import Status
from bus.domain.times import format_time
from bus.ports.store import Page, SearchedRange, Stop
from bus.testing.contracts.store_conditions import ended
from bus.testing.writes import NOON, message, outcome
from tests.unit.admin.admin_world import World, problem

TRACE = "0af7651916cd43dd8448eb211c80319c"


async def found(client: httpx.AsyncClient, **query: Any) -> list[str]:
    """Return the biz ids of one page."""
    answer = await client.get("/messages", params=query)
    assert answer.status_code == 200, answer.text
    return [item["biz_id"] for item in answer.json()["items"]]


async def written(world: World) -> None:
    """Write four messages, each different in all that can be asked for."""
    sent = [
        message(
            0, key="k-0", traceparent=f"00-{TRACE}-b7ad6b7169203331-01", body=b'{"order": {"lines": [{"sku": "A"}]}}'
        ),
        message(1, headers={"X-Tenant": "t1"}, body=b'{"order": {"lines": [{"sku": "B"}]}}'),
        message(2, headers={"X-Tenant": "t2"}, body=b"not JSON: sku"),
        message(3, expected=()),
    ]
    await world.store.write(sent)
    await world.store.write(
        [
            ended(sent[0], "billing", Status.RETRYING, 503, reason="HTTP 503"),
            ended(sent[1], "billing", Status.DEAD, None, error="Read timed out"),
            ended(sent[2], "billing", Status.DELIVERED, 200),
        ]
    )


@pytest.mark.parametrize(
    ("query", "places"),
    [
        ({"ref": "k-0"}, [0]),
        ({"ref": TRACE}, [0]),
        ({"ref": "order-2"}, [2]),
        ({"ref": message(3).id}, [3]),
        ({"ref": "order"}, []),
        ({"status_class": "5xx"}, [0]),
        ({"status_class": "2xx"}, [2]),
        ({"status_class": "none", "subscription": "billing"}, [1]),
        ({"status_class": "4xx"}, []),
        ({"error": "TIMED out"}, [1]),
        ({"error": "503", "status": "retrying"}, [0]),
        ({"error": "503", "status": "dead"}, []),
        ({"header": "x-tenant"}, [2, 1]),
        ({"header": "x-tenant: t2"}, [2]),
        ({"body_path": "order.lines[0].sku"}, [1, 0]),
        ({"body_path": "order.lines[0].sku", "body_value": "B"}, [1]),
        ({"text": "sku"}, [2, 1, 0]),
        ({"text": "sku", "header": "x-tenant"}, [2, 1]),
        ({"text": "nowhere"}, []),
    ],
)
async def test_every_condition_is_asked_of_the_store(
    world: World, client: httpx.AsyncClient, query: dict[str, str], places: list[int]
) -> None:
    await written(world)
    assert await found(client, **query) == [f"order-{place}" for place in places]
    dry_run = await client.post("/resends", json={"filter": query, "dry_run": True})
    assert dry_run.status_code == 200, dry_run.text
    assert [item["biz_id"] for item in dry_run.json()["sample"]] == [f"order-{place}" for place in places]


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ({"body_path": "order..id"}, "body_path"),
        ({"body_path": "order[*].id"}, "body_path"),
        ({"body_path": "a | b"}, "body_path"),
        ({"body_path": "a" * 600}, "body_path"),
        ({"body_path": ""}, "body_path"),
        ({"body_value": "1"}, "body_value"),
        ({"body_path": "[x]", "body_value": "1"}, "body_path"),
        ({"header": "no name: x"}, "header"),
        ({"header": ": x"}, "header"),
        ({"status_class": "6xx"}, "status_class"),
        ({"ref": ""}, "ref"),
        ({"text": ""}, "text"),
        ({"error": "x" * 5000}, "error"),
    ],
)
async def test_an_impossible_condition_names_its_field(
    client: httpx.AsyncClient, query: dict[str, str], field: str
) -> None:
    problem(await client.get("/messages", params=query), 422, field)
    problem(await client.get("/messages/export", params=query), 422, field)
    problem(await client.post("/resends", json={"filter": query, "dry_run": True}), 422, f"filter.{field}")


async def test_a_job_says_every_condition_of_its_filter(world: World, client: httpx.AsyncClient) -> None:
    given = {
        "destination": "orders",
        "subscription": "billing",
        "status": "dead",
        "ref": "k-0",
        "status_class": "5xx",
        "error": "timed out",
        "header": "x-tenant: t1",
        "body_path": "order.id",
        "body_value": "1",
        "text": "sku",
    }
    job_id = (await client.post("/resends", json={"filter": given})).json()["id"]
    shown = (await client.get(f"/resends/{job_id}")).json()["filter"]
    assert {name: shown[name] for name in given} == given


async def test_a_resend_takes_only_the_deliveries_that_ended_so(world: World, client: httpx.AsyncClient) -> None:
    (sent,) = await world.written(1, names=("billing", "mail"))
    await world.store.write([ended(sent, "billing", Status.DEAD, 503), ended(sent, "mail", Status.DEAD, None)])
    answer = await client.post("/resends", json={"filter": {"status_class": "none"}, "dry_run": True})
    assert answer.json()["count"] == 1
    await client.post("/resends", json={"filter": {"error": "x", "destination": "orders"}})
    await client.post("/resends", json={"filter": {"status_class": "5xx", "destination": "orders"}})
    await world.clock.advance(1)
    assert (await world.delivery(sent.id, "billing")).status is Status.RESEND
    assert (await world.delivery(sent.id, "mail")).status is Status.DEAD


async def test_a_row_says_how_often_it_was_tried_and_when_again(world: World, client: httpx.AsyncClient) -> None:
    sent = await world.written(3, names=("billing", "mail"))
    await world.store.write([outcome(sent[0], "billing", Status.RETRYING, 3), outcome(sent[0], "mail", Status.DEAD, 9)])
    await world.store.write([outcome(sent[1], "billing", Status.DEAD, 8), outcome(sent[1], "mail", Status.DELIVERED)])
    rows = {row["biz_id"]: row for row in (await client.get("/messages")).json()["items"]}
    assert [(rows[f"order-{n}"]["attempts"], rows[f"order-{n}"]["next_attempt_at"]) for n in range(3)] == [
        (3, format_time(sent[0].received_at + 30 + 1_000)),
        (8, None),
        (0, None),
    ]


async def test_complete_empty_and_full_pages_are_told_apart(world: World, client: httpx.AsyncClient) -> None:
    await world.written(5)
    start, end = format_time(NOON), format_time(NOON + 4)
    whole = (await client.get("/messages", params={"from": start, "to": end})).json()
    assert (len(whole["items"]), whole["next"]) == (4, None)
    assert whole["searched"] == {"from": start, "to": end, "complete": True, "reason": None, "archived": []}
    empty = (await client.get("/messages", params={"q": "nowhere"})).json()
    assert (empty["items"], empty["next"]) == ([], None)
    assert empty["searched"] == {"from": None, "to": None, "complete": True, "reason": None, "archived": []}
    first = (await client.get("/messages", params={"limit": 2})).json()
    assert first["searched"] == {
        "from": format_time(NOON + 3),
        "to": None,
        "complete": False,
        "reason": "limit",
        "archived": [],
    }
    last = (await client.get("/messages", params={"cursor": first["next"], "to": end})).json()
    assert last["searched"] == {"from": None, "to": end, "complete": True, "reason": None, "archived": []}


async def test_a_page_that_ran_out_of_time_says_how_far_it_got(
    world: World, client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def search(*_: Any, **__: Any) -> Page:
        return Page([], "ab", SearchedRange(NOON, 1 << 48, Stop.TIME))

    monkeypatch.setattr(world.store, "search", search)
    answer = (await client.get("/messages", params={"text": "x"})).json()
    assert (answer["items"], answer["next"]) == ([], "ab")
    assert answer["searched"] == {
        "from": format_time(NOON),
        "to": None,
        "complete": False,
        "reason": "time",
        "archived": [],
    }


async def test_a_body_is_read_only_when_asked_of(world: World, client: httpx.AsyncClient) -> None:
    (sent,) = await world.written(1)
    world.store._bodies[sent.id] = b"something else"
    assert await found(client, text="something else") == ["order-0"]
    assert await found(client, q="something else") == []
