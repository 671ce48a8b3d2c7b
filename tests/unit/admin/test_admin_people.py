"""Users: made, changed and removed by admins; no answer has a hash."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx
import pytest

from tests.unit.admin.admin_world import World, problem


@pytest.fixture
async def admin(world: World) -> AsyncIterator[httpx.AsyncClient]:
    async with world.client(await world.keyring.create_key(roles=("admin",))) as client:
        yield client


async def test_a_user_is_made_shown_changed_and_removed(world: World, admin: httpx.AsyncClient) -> None:
    made = await admin.post("/users", json={"name": "ann", "role": "operator", "destinations": ["orders"]})
    assert made.status_code == 201
    password = made.json().pop("password")
    user = {
        "name": "ann",
        "role": "operator",
        "destinations": ["orders"],
        "created_at": "2026-11-21T12:00:00.000Z",
        "logs_in_by": "password",
        "blocked": False,
    }
    assert {name: value for name, value in made.json().items() if name != "password"} == user
    assert (await admin.get("/users/ann")).json() == user
    assert (await admin.get("/users")).json() == {"items": [user], "next": None}
    patched = await admin.patch("/users/ann", json={"role": "viewer"})
    assert patched.json() == {**user, "role": "viewer"}
    assert (await admin.patch("/users/ann", json={"destinations": []})).json()["destinations"] == []
    assert (await admin.delete("/users/ann")).status_code == 204
    for answer in (
        await admin.get("/users/ann"),
        await admin.delete("/users/ann"),
        await admin.patch("/users/ann", json={}),
    ):
        problem(answer, 404)
    problem(await admin.post("/users/ann/reset-password"), 404)
    entries = (await admin.get("/audit")).text
    assert password not in entries
    assert "argon2" not in entries


async def test_no_answer_has_a_hash(world: World, admin: httpx.AsyncClient) -> None:
    answers = [
        await admin.post("/users", json={"name": "ann"}),
        await admin.get("/users"),
        await admin.get("/users/ann"),
    ]
    answers += [await admin.patch("/users/ann", json={"role": "admin"}), await admin.post("/users/ann/reset-password")]
    stored = world.keyring.user("ann")
    assert stored is not None
    for answer in answers:
        assert answer.status_code in (200, 201)
        assert "argon2" not in answer.text
        assert stored.password not in answer.text


async def test_a_reset_makes_another_password_and_ends_the_sessions(world: World, admin: httpx.AsyncClient) -> None:
    first = (await admin.post("/users", json={"name": "ann"})).json()["password"]
    async with world.client() as client:
        assert (await client.post("/session", json={"name": "ann", "password": first})).status_code == 201
        second = (await admin.post("/users/ann/reset-password")).json()["password"]
        assert second != first
        problem(await client.get("/session"), 401)
        problem(await client.post("/session", json={"name": "ann", "password": first}), 401)
        assert (await client.post("/session", json={"name": "ann", "password": second})).status_code == 201


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"name": "bob"}, "name"),
        ({"role": "root"}, "role"),
        ({"role": "producer"}, "role"),
        ({"destinations": ["no way"]}, "destinations.0"),
        ({"password": "$argon2id$"}, "password"),
        ({"role": "admin", "destinations": ["orders"]}, None),
    ],
)
async def test_an_impossible_change_is_a_422(admin: httpx.AsyncClient, body: dict, field: str | None) -> None:
    await admin.post("/users", json={"name": "ann"})
    problem(await admin.patch("/users/ann", json=body), 422, field)
    assert (await admin.get("/users/ann")).json()["role"] == "viewer"


async def test_limits_that_would_hold_nobody_are_refused(admin: httpx.AsyncClient) -> None:
    problem(await admin.post("/users", json={"name": "ann", "role": "admin", "destinations": ["orders"]}), 422)


async def test_the_last_user_stays_since_without_it_the_bus_would_be_open(world: World) -> None:
    password = await world.keyring.add_user("ann", "admin")
    async with world.client() as client:
        begun = await client.post("/session", json={"name": "ann", "password": password})
        client.headers.update({"origin": "http://localhost", "x-csrf-token": begun.json()["csrf"]})
        problem(await client.delete("/users/ann"), 409)
        assert (await client.post("/users", json={"name": "bob"})).status_code == 201
        assert (await client.delete("/users/ann")).status_code == 204
        problem(await client.get("/users"), 401)
    assert not world.keyring.is_open
