"""Alarms name the resends and discards under way that cure them."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest
from msgspec.structs import replace

from admin.repair.jobs import JobRepository
from admin.showing.cures import Cures
from bus.domain.delivery.delivery import Status
from bus.observing import reading
from bus.security.principals import ANYONE
from tests.unit.admin.admin_world import running, subscribed
from tests.unit.admin.deliveries.jobs import start
from tests.unit.admin.incident_shapes import put, raised

BILLING = {"destination": "orders", "subscription": "billing"}
DEAD = replace(raised(), rule="dead", subscription="billing")


async def cures(client: httpx.AsyncClient) -> list[dict[str, Any]]:
    (alarm,) = (await client.get("/alarms/i1")).json()["alarms"]
    found: list[dict[str, Any]] = alarm["cures"]
    return found


@pytest.mark.parametrize(
    ("chosen", "rule", "covers"),
    [
        *((BILLING | {"status": status}, "dead", status == "dead") for status in ("dead", "retrying")),
        *((chosen, "dead", True) for chosen in ({}, {"destination": "orders"}, BILLING, BILLING | {"signature": "x"})),
        *((BILLING | {name: "x"}, "dead", False) for name in ("biz_id", "source", "q", "ref", "header")),
        *(({"destination": "mails"}, "dead", False), (BILLING | {"subscription": "mail"}, "dead", False)),
        *((BILLING | {"status": "pending"}, rule, True) for rule in ("backlog", "age", "stalled", "errors")),
        *((BILLING, rule, False) for rule in ("volume-low", "certificate", "norm")),
    ],
)
async def test_a_job_cures_an_alarm_that_its_filter_covers(chosen: dict, rule: str, covers: bool) -> None:
    world = await subscribed()
    await put(world, "i1", replace(DEAD, rule=rule))
    async with world.client() as client:
        job_id = await start(client, chosen)
        assert [one["id"] for one in await cures(client)] == ([job_id] if covers else [])


async def test_its_progress_is_told_until_it_is_over() -> None:
    world = await subscribed()
    await world.written(20, Status.DEAD)
    await put(world, "i1", DEAD)
    async with running(world) as client:
        job_id = await start(client, BILLING | {"status": "dead"}, rate=5, reason="mended")
        await world.clock.advance(0.5)
        (found,) = await cures(client)
        assert found == {
            "id": job_id,
            "kind": "resend",
            "state": "sending",
            "by": "anyone",
            "ended": 0,
            "total": 20,
        }
        for row in (await world.rows())[:3]:
            await world.attempted(row, Status.DELIVERED)
        await world.clock.advance(3)
        (found,) = await cures(client)
        assert found["ended"] == 3
        await client.delete(f"/resends/{job_id}")
        await world.clock.advance(3)
        assert await cures(client) == []


async def test_a_discard_is_named_too_and_no_alarm_that_is_over() -> None:
    world = await subscribed()
    await put(world, "i1", DEAD)
    await put(world, "i2", replace(DEAD, over_at=1), closed_at=1)
    async with world.client() as client:
        assert (await client.post("/discards", json={"filter": BILLING})).status_code == 202
        assert [one["kind"] for one in await cures(client)] == ["discard"]
        (alarm,) = (await client.get("/alarms/i2")).json()["alarms"]
        assert alarm["cures"] == []


async def test_a_limited_key_sees_no_job_of_the_whole_bus() -> None:
    world = await subscribed()
    await put(world, "i1", DEAD)
    async with world.client() as client:
        await start(client, {})
        own = await start(client, BILLING)
    async with world.client(await world.keyring.create_key(roles=("viewer",), destinations=("orders",))) as viewer:
        assert [one["id"] for one in await cures(viewer)] == [own]


async def test_a_store_that_hangs_or_is_away_is_asked_once_by_all_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "_PATIENCE", 0.01)
    world = await subscribed()
    asked = 0

    async def hang(*_: object, **__: object) -> list[object]:
        nonlocal asked
        asked += 1
        await asyncio.Event().wait()
        raise AssertionError

    monkeypatch.setattr(world.store, "list", hang)
    cures = Cures(JobRepository(world.store), world.clock)
    async with asyncio.timeout(10):
        found = await asyncio.gather(*(cures.under_way() for _ in range(5)))
    assert [one.of("dead", "orders", "billing", ANYONE) for one in found] == [[]] * 5
    assert asked == 1
