"""Resend jobs as they are asked for and listed, and by which keys."""

from __future__ import annotations

import httpx
import pytest

from bus.domain.delivery.delivery import Status
from tests.unit.admin.admin_world import World, problem
from tests.unit.admin.deliveries.jobs import DEAD, start

PATHS = [
    ("GET", "", None),
    ("GET", "/items", None),
    ("GET", "/items/export", None),
    ("PATCH", "", {"rate": 5}),
    ("POST", "/pause", None),
    ("POST", "/resume", None),
    ("DELETE", "", None),
    ("POST", "/rerun", None),
]


async def test_jobs_are_listed_the_newest_first_in_pages(world: World, client: httpx.AsyncClient) -> None:
    made = []
    for _ in range(5):
        made.append(await start(client))
        await world.clock.advance(0.01)
    page = (await client.get("/resends", params={"limit": 2})).json()
    assert [one["id"] for one in page["items"]] == made[:2:-1]
    rest = (await client.get("/resends", params={"limit": 50, "cursor": page["next"]})).json()
    assert [one["id"] for one in rest["items"]] == made[2::-1]
    assert rest["next"] is None


@pytest.mark.parametrize(
    ("body", "field"),
    [
        *(({}, "filter"), ({"filter": {}, "rate": 0}, "rate"), ({"filter": {}, "nonsense": 1}, "nonsense")),
        *(({"filter": {"nonsense": 1}}, "filter.nonsense"), ({"filter": {"status": "lost"}}, "filter.status")),
        *(({"filter": {"from": "x"}}, "filter.from"), ({"filter": {}, "reason": "x" * 1001}, "reason")),
        *(({"filter": {}, "dry_run": "perhaps"}, "dry_run"), ({"filter": None}, "filter")),
    ],
)
async def test_an_impossible_job_is_a_422(client: httpx.AsyncClient, body: dict, field: str) -> None:
    problem(await client.post("/resends", json=body), 422, field)
    assert (await client.get("/resends")).json()["items"] == []


async def test_a_job_that_is_not_there_is_a_404(client: httpx.AsyncClient) -> None:
    for method, path, body in PATHS:
        problem(await client.request(method, f"/resends/nothing{path}", json=body), 404)
    problem(await client.get("/resends/nothing/items", params={"cursor": "x"}), 422, "cursor")


async def test_a_key_of_one_destination_resends_its_own_and_sees_no_other_job(
    world: World, client: httpx.AsyncClient
) -> None:
    await world.written(2, Status.DEAD)
    foreign = [await start(client, {}), await start(client, {"destination": "mails"})]
    await world.clock.advance(1)
    key = await world.keyring.create_key(roles=("operator",), destinations=("orders",))
    async with world.client(key) as operator:
        for chosen in ({}, {"destination": "mails"}, {"q": "x"}):
            for dry_run in (True, False):
                problem(await operator.post("/resends", json={"filter": chosen, "dry_run": dry_run}), 403)
        assert (await operator.post("/resends", json={"filter": DEAD, "dry_run": True})).status_code == 200
        own = await start(operator)
        assert [one["id"] for one in (await operator.get("/resends")).json()["items"]] == [own]
        for method, path, body in PATHS:
            for job_id in foreign:
                answer = await operator.request(method, f"/resends/{job_id}{path}", json=body)
                problem(answer, 404)
                nowhere = await operator.request(method, f"/resends/nothing{path}", json=body)
                assert answer.text.replace(job_id, "nothing") == nowhere.text
            assert (await operator.request(method, f"/resends/{own}{path}", json=body)).status_code in (200, 202, 409)


async def test_a_viewer_reads_jobs_and_steers_none(world: World, client: httpx.AsyncClient) -> None:
    await world.written(2, Status.DEAD)
    job_id = await start(client, rate=0.001)
    key = await world.keyring.create_key(roles=("viewer",), destinations=("orders",))
    async with world.client(key) as viewer:
        for method, path, body in PATHS:
            answer = await viewer.request(method, f"/resends/{job_id}{path}", json=body)
            if method == "GET":
                assert answer.status_code == 200, path
            else:
                problem(answer, 403)


async def test_the_pages_of_a_limited_key_are_full(world: World, client: httpx.AsyncClient) -> None:
    own = []
    for number in range(6):
        await world.clock.advance(0.01)
        job_id = await start(client, {"destination": "orders" if number % 2 else "mails"})
        own += [job_id] if number % 2 else []
    key = await world.keyring.create_key(roles=("viewer",), destinations=("orders",))
    async with world.client(key) as viewer:
        page = (await viewer.get("/resends", params={"limit": 2})).json()
        rest = (await viewer.get("/resends", params={"limit": 2, "cursor": page["next"]})).json()
    assert [one["id"] for one in page["items"] + rest["items"]] == own[::-1]
    assert rest["next"] is None
