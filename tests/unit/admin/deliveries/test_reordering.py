"""A resend to a strictly ordered destination is refused, unless it may be out of order."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from bus.domain.delivery.delivery import Status
from tests.unit.admin.admin_world import World, problem, running
from tests.unit.admin.chain_shapes import strict_world


@pytest.fixture
async def world() -> World:
    world = await strict_world()
    await world.clock.advance(60)
    return world


async def refused(client: httpx.AsyncClient, path: str, **body: Any) -> dict[str, Any]:
    """Check that a request is refused, and return the body with which it is not."""
    said = problem(await client.post(path, json=body), 422, "reorder")
    assert "a strict order is kept by orders" in said["detail"]
    assert "--reorder" in said["hint"]
    return {**body, "reorder": True}


async def test_one_message_is_resent_and_edited_out_of_order_only_when_that_is_said(
    world: World, client: httpx.AsyncClient
) -> None:
    (sent,) = await world.written(1, Status.DEAD, names=("billing", "mail"))
    for path, body in ((f"/messages/{sent.id}/resend", {}), (f"/messages/{sent.id}/edit", {"reason": "x"})):
        answer = await client.post(path, json=await refused(client, path, **body))
        assert answer.status_code == 202, answer.text


@pytest.mark.parametrize("chosen", [{"destination": "orders"}, {}])
async def test_a_bulk_resend_that_may_take_some_is_refused_and_its_dry_run_is_not(
    world: World, chosen: dict[str, str]
) -> None:
    await world.written(2, Status.DEAD, names=("billing", "mail"))
    async with running(world) as client:
        answer = await client.post("/resends", json={"filter": chosen, "dry_run": True})
        assert (answer.status_code, answer.json()["count"]) == (200, 4)
        body = await refused(client, "/resends", filter=chosen)
        job = (await client.post("/resends", json=body)).json()["id"]
        await world.clock.advance(5)
        assert (await client.delete(f"/resends/{job}")).status_code == 200
        await world.clock.advance(5)
        again = await refused(client, f"/resends/{job}/rerun", outcomes=["canceled", "waiting"])
        assert (await client.post(f"/resends/{job}/rerun", json=again)).status_code in (202, 409)


async def test_deliveries_that_were_found_are_refused(world: World, client: httpx.AsyncClient) -> None:
    (sent,) = await world.written(1)
    body = {"destination": "orders", "deliveries": [{"id": sent.id, "subscription": "billing"}]}
    answer = await client.post("/resends/deliveries", json=await refused(client, "/resends/deliveries", **body))
    assert answer.status_code == 202, answer.text


async def test_others_are_resent_as_ever(world: World, client: httpx.AsyncClient) -> None:
    assert (await client.post("/resends", json={"filter": {"destination": "plain"}})).status_code == 202
