"""Resend jobs started and looked at over the admin API."""

from __future__ import annotations

from typing import Any

import httpx

from bus.domain.delivery.delivery import Status
from tests.unit.admin.admin_world import World

DEAD = {"destination": "orders", "status": "dead"}


async def start(client: httpx.AsyncClient, chosen: dict[str, Any] | None = None, **fields: Any) -> str:
    answer = await client.post("/resends", json={"filter": DEAD if chosen is None else chosen, **fields})
    assert answer.status_code == 202, answer.text
    return answer.json()["id"]


async def job(client: httpx.AsyncClient, job_id: str) -> dict[str, Any]:
    answer = await client.get(f"/resends/{job_id}")
    assert answer.status_code == 200, answer.text
    return answer.json()


async def items(client: httpx.AsyncClient, job_id: str) -> list[dict[str, Any]]:
    found, cursor = [], "0"
    while cursor is not None:
        page = (await client.get(f"/resends/{job_id}/items", params={"cursor": cursor})).json()
        found += page["items"]
        cursor = page["next"]
    return found


async def attempt_all(world: World, *states: Status) -> None:
    """Attempt every row that is there, with these results in turn."""
    for number, row in enumerate(await world.rows()):
        await world.attempted(row, states[number % len(states)])


def balanced(counts: dict[str, int]) -> bool:
    return counts["selected"] == sum(count for name, count in counts.items() if name != "selected")
