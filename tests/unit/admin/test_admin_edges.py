"""Whatever the admin answers, a browser renders and keeps none of it; and a body over the limit is refused."""

from __future__ import annotations

import httpx
import pytest

from admin.requests.bodies import LARGEST
from bus.domain.delivery.delivery import Status
from tests.unit.admin.admin_world import URL, World, problem

EXPECTED = {
    "cache-control": "no-store",
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'; sandbox",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
}


async def test_every_answer_has_them_refusals_and_bodies_too(world: World, client: httpx.AsyncClient) -> None:
    (sent,) = await world.written(1, Status.DELIVERED)
    asked = [
        ("GET", "/destinations", 200),
        ("GET", f"/messages/{sent.id}/body", 200),
        ("GET", "/messages/nothing", 404),
        ("GET", "/nothing", 404),
        ("PUT", "/destinations/orders", 422),
        ("PATCH", "/messages", 405),
        ("POST", "/session", 422),
    ]
    for method, path, status in asked:
        answer = await client.request(method, path)
        assert answer.status_code == status, (method, path)
        assert {name: answer.headers.get_list(name) for name in EXPECTED} == {
            name: [value] for name, value in EXPECTED.items()
        }
    assert answer.headers["content-type"] == "application/problem+json"


async def test_a_refused_method_is_told_all_that_its_path_takes(client: httpx.AsyncClient) -> None:
    for path, methods in (
        ("/destinations/orders", "DELETE, GET, PATCH, PUT"),
        ("/keys", "GET, POST"),
        ("/messages/export", "GET"),
        ("/resends/deliveries", "POST"),
    ):
        answer = await client.request("LOCK", path)
        problem(answer, 405)
        assert answer.headers["allow"] == methods


@pytest.mark.parametrize(
    ("method", "path", "body", "field"),
    [
        ("POST", "/resends", {"filter": {}, "dry_run": 0}, "dry_run"),
        ("POST", "/resends", {"filter": {}, "dry_run": "no"}, "dry_run"),
        ("POST", "/resends", {"filter": {}, "rate": "5"}, "rate"),
        ("PUT", "/destinations/orders", {"paused": "yes"}, "paused"),
        ("PUT", "/destinations/orders", {"max_bytes": "1"}, "max_bytes"),
        ("PUT", "/destinations/orders/subscriptions/billing", {"url": URL, "timeout_seconds": True}, "timeout_seconds"),
        ("PUT", "/views/morning", {"page": "messages", "shared": 1}, "shared"),
    ],
)
async def test_what_only_reads_like_a_number_or_a_flag_is_refused(
    client: httpx.AsyncClient, method: str, path: str, body: dict[str, object], field: str
) -> None:
    problem(await client.request(method, path, json=body), 422, field)


async def test_whole_numbers_are_numbers_too(client: httpx.AsyncClient) -> None:
    answer = await client.put("/rates", json={"receiver": 5, "dispatcher": 2.5})
    assert (answer.status_code, answer.json()) == (200, {"receiver": 5, "dispatcher": 2.5})
    assert (await client.put("/destinations/orders", json={"max_bytes": 1000.0})).json()["max_bytes"] == 1000


async def test_a_failure_inside_has_them(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(world.introspection, "health", fail)
    transport = httpx.ASGITransport(world.app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost/api/v1") as client:
        answer = await client.get("/health")
    assert answer.status_code == 500
    assert {name: answer.headers[name] for name in EXPECTED} == EXPECTED


async def test_a_body_over_the_limit_is_refused_before_it_is_whole(world: World) -> None:
    read = 0

    async def endless():
        nonlocal read
        while True:
            read += 65_536
            yield b" " * 65_536

    await world.keyring.create_key(roles=("admin",))
    async with world.client() as client:
        answer = await client.post("/session", content=endless(), headers={"content-type": "application/json"})
    problem(answer, 413)
    assert read < 2 * LARGEST
