"""Findings of the pipeline through the API: stored, bounded, shown, and judged by the rules of alarms."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from bus.domain.health.findings import MOST_TOLD
from tests.unit.admin.admin_world import URL, World, problem

AT = "2026-11-21T11:00:00.000Z"
OUT = {
    "destination": "orders",
    "subscription": "shop",
    "metric": "latency",
    "since": AT,
    "value": 900.5,
    "norm": 100,
    "low": None,
    "high": 400,
}
SHORT = {
    "destination": "orders",
    "subscription": "shop",
    "missing": 2,
    "contradicted": 1,
    "since": AT,
    "until": AT,
}


def norms(*items: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return {"until": AT, "count": len(items), "items": list(items), **changes}


def proof(*items: dict[str, Any], **changes: Any) -> dict[str, Any]:
    sums = {name: sum(one[name] for one in items) for name in ("missing", "contradicted")}
    return {"checked": AT, **sums, "items": list(items), **changes}


@pytest.fixture
async def world() -> World:
    return World()


@pytest.fixture
async def client(world: World) -> AsyncIterator[httpx.AsyncClient]:
    async with world.client() as client:
        await client.put("/destinations/orders", json={})
        await client.put("/destinations/orders/subscriptions/shop", json={"url": URL})
        yield client


async def alarms(client: httpx.AsyncClient) -> list[tuple[str, str]]:
    found = (await client.get("/overview")).json()["alarms"]
    return [(str(one["destination"]), one["severity"]) for one in found if one["destination"] == "orders"]


async def test_norms_that_are_out_are_shown_and_judged_until_none_is_told(
    world: World, client: httpx.AsyncClient
) -> None:
    assert (await client.get("/findings")).json() == {"norms": None, "proof": None}
    answer = await client.put("/findings/norms", json=norms(OUT))
    assert answer.status_code == 200
    told = answer.json()
    assert told == {
        "until": AT,
        "told_at": "2026-11-21T12:00:00.000Z",
        "by": "anyone",
        "count": 1,
        "items": [{**OUT, "norm": 100.0, "high": 400.0}],
    }
    assert (await client.get("/findings")).json() == {"norms": told, "proof": None}
    assert await alarms(client) == [("orders", "warning")]
    await client.put("/findings/norms", json=norms())
    await world.clock.advance(6)
    assert await alarms(client) == []


async def test_norms_that_nobody_tells_again_are_over_after_three_hours(
    world: World, client: httpx.AsyncClient
) -> None:
    await client.put("/findings/norms", json=norms(OUT))
    for hours, count in ((2.9, 1), (0.2, 0)):
        await world.clock.advance(hours * 3600)
        assert len(await alarms(client)) == count
    assert (await client.get("/findings")).json()["norms"]["count"] == 1


async def test_a_proof_is_shown_and_judged_until_another_one_is_told(world: World, client: httpx.AsyncClient) -> None:
    told = (await client.put("/findings/proof", json=proof(SHORT))).json()
    assert told == {
        "checked": AT,
        "since": None,
        "before": None,
        "with_store": False,
        "told_at": "2026-11-21T12:00:00.000Z",
        "by": "anyone",
        "missing": 2,
        "contradicted": 1,
        "items": [SHORT],
    }
    assert await alarms(client) == [("orders", "critical"), ("orders", "warning")]
    later = (await client.put("/findings/proof", json=proof(since="2026-11-21T11:00:01Z"))).json()
    assert (later["items"], later["missing"], later["since"]) == ([SHORT], 2, "2026-11-21T11:00:01.000Z")
    await client.put("/findings/proof", json=proof())
    await world.clock.advance(6)
    assert await alarms(client) == []


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "until"),
        (norms(until="noon"), "until"),
        (norms(count=-1), "count"),
        (norms(OUT, count=0), None),
        (norms(OUT, OUT), None),
        (norms(*[OUT] * (MOST_TOLD + 1)), "items"),
        (norms({**OUT, "destination": "no way"}), "items.0.destination"),
        (norms({**OUT, "subscription": "x" * 65}), "items.0.subscription"),
        (norms({**OUT, "metric": "mood"}), "items.0.metric"),
        (norms({**OUT, "value": -1}), "items.0.value"),
        (norms({**OUT, "value": "900"}), "items.0.value"),
        (norms({**OUT, "value": 400}), "items.0"),
        (norms({**OUT, "high": None, "low": 1000}), "items.0"),
        (norms({**OUT, "subscription": ""}), "items.0"),
        (norms({**OUT, "nonsense": 1}), "items.0.nonsense"),
    ],
)
async def test_norms_that_cannot_be_meant(client: httpx.AsyncClient, body: dict[str, Any], field: str | None) -> None:
    problem(await client.put("/findings/norms", json=body), 422, field)
    assert (await client.get("/findings")).json()["norms"] is None


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "checked"),
        (proof(since="1h"), "since"),
        (proof(with_store="yes"), "with_store"),
        (proof(SHORT, missing=1), None),
        (proof(SHORT, contradicted=0), None),
        (proof(SHORT, SHORT), None),
        (proof(*[SHORT] * (MOST_TOLD + 1)), "items"),
        (proof({**SHORT, "missing": -1}, missing=0), "items.0.missing"),
        (proof({**SHORT, "subscription": "a b"}), "items.0.subscription"),
        (proof({**SHORT, "until": None}), "items.0.until"),
    ],
)
async def test_proofs_that_cannot_be_meant(client: httpx.AsyncClient, body: dict[str, Any], field: str | None) -> None:
    problem(await client.put("/findings/proof", json=body), 422, field)
    assert (await client.get("/findings")).json()["proof"] is None


async def test_an_operator_tells_of_all_destinations_or_of_none(world: World, client: httpx.AsyncClient) -> None:
    whole = await world.keyring.create_key(roles=("operator",), name="pipeline")
    limited = await world.keyring.create_key(roles=("operator",), destinations=("orders",))
    viewer = await world.keyring.create_key(roles=("viewer",))
    for key in (limited, viewer):
        async with world.client(key) as own:
            problem(await own.put("/findings/norms", json=norms(OUT)), 403)
            problem(await own.put("/findings/proof", json=proof(SHORT)), 403)
    async with world.client(whole) as own:
        assert (await own.put("/findings/norms", json=norms(OUT))).json()["by"] == "key pipeline"
    async with world.client(viewer) as own:
        assert (await own.get("/findings")).json()["norms"]["by"] == "key pipeline"
    async with world.client(limited) as own:
        problem(await own.get("/findings"), 403)
        assert await alarms(own) == [("orders", "warning")]


async def test_what_was_told_is_in_the_audit_log(world: World, client: httpx.AsyncClient) -> None:
    await client.put("/findings/proof", json=proof(SHORT))
    entry = (await client.get("/audit")).json()["items"][0]
    assert (entry["method"], entry["resource"], entry["status"]) == ("PUT", "findings/proof", 200)
    assert entry["changes"]["missing"]["after"] == 2


async def test_while_the_store_is_away_nothing_is_told(world: World, client: httpx.AsyncClient) -> None:
    world.store.down = True
    for kind, body in (("norms", norms()), ("proof", proof())):
        problem(await client.put(f"/findings/{kind}", json=body), 503)
