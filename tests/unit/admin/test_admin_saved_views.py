"""Saved views: one's own, those that others share, and nothing beyond one's rights."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest

from admin.access import saved_views
from tests.unit.admin.admin_world import World, problem

VIEW = {"page": "failures", "query": "destination=orders&status=dead"}


async def key_of(world: World, role: str, *destinations: str, name: str = "") -> httpx.AsyncClient:
    return world.client(await world.keyring.create_key(roles=(role,), destinations=destinations, name=name))


async def names(client: httpx.AsyncClient) -> list[str]:
    answer = await client.get("/views")
    assert answer.status_code == 200, answer.text
    assert answer.json()["next"] is None
    return [item["name"] for item in answer.json()["items"]]


async def test_a_view_is_kept_changed_read_and_removed(world: World) -> None:
    async with await key_of(world, "viewer", name="ann") as client:
        made = await client.put("/views/Dead orders", json=VIEW)
        assert made.status_code == 200
        key_id = world.keyring.all_keys()[0].id
        assert made.json() == {
            **VIEW,
            "name": "Dead orders",
            "shared": False,
            "owner": {"kind": "key", "id": key_id, "name": "key ann"},
            "mine": True,
            "version": 1,
            "updated_at": "2026-11-21T12:00:00.000Z",
        }
        assert (await client.get("/views/Dead orders")).json() == made.json()
        changed = await client.put("/views/Dead orders", json={"page": "find", "query": "?q=x", "name": "Dead orders"})
        assert (changed.json()["query"], changed.json()["version"]) == ("q=x", 2)
        assert await names(client) == ["Dead orders"]
        assert (await client.delete("/views/Dead orders")).status_code == 204
        assert await names(client) == []
        for method in ("GET", "DELETE"):
            assert "GET /api/v1/views" in problem(await client.request(method, "/views/Dead orders"), 404)["hint"]


async def test_a_person_has_views_too_and_they_go_with_the_person(world: World) -> None:
    password = await world.keyring.add_user("ann", "viewer")
    admin = await key_of(world, "admin")
    async with world.client() as client, admin:
        csrf = (await client.post("/session", json={"name": "ann", "password": password})).json()["csrf"]
        headers = {"x-csrf-token": csrf, "sec-fetch-site": "same-origin"}
        for name, shared in (("mine", False), ("ours", True)):
            answer = await client.put(f"/views/{name}", json={**VIEW, "shared": shared}, headers=headers)
            assert answer.json()["owner"] == {"kind": "user", "id": "ann", "name": "ann"}
        assert await names(admin) == ["ours"]
        await admin.delete("/users/ann")
        assert [document.key for document in await world.store.list("views")] == ["user:ann/ours"]


async def test_a_key_that_is_revoked_takes_its_own_along(world: World) -> None:
    admin = await key_of(world, "admin")
    async with admin, await key_of(world, "viewer") as client:
        await client.put("/views/mine", json=VIEW)
        other = next(key.id for key in world.keyring.all_keys() if key.roles == ("viewer",))
        assert (await admin.delete(f"/keys/{other}")).status_code == 204
        assert await world.store.list("views") == []


async def test_others_see_what_is_shared_and_change_none_of_it(world: World) -> None:
    ann, bob = await key_of(world, "viewer", name="ann"), await key_of(world, "operator", name="bob")
    async with ann, bob:
        await ann.put("/views/open", json={**VIEW, "shared": True})
        await ann.put("/views/secret", json=VIEW)
        assert await names(bob) == ["open"]
        found = (await bob.get("/views/open")).json()
        assert (found["mine"], found["owner"]["name"]) == (False, "key ann")
        owner = f"key:{found['owner']['id']}"
        problem(await bob.get("/views/secret"), 404)
        problem(await bob.get("/views/secret", params={"owner": owner}), 404)
        problem(await bob.delete("/views/secret", params={"owner": owner}), 404)
        problem(await bob.delete("/views/open"), 404)
        problem(await bob.delete("/views/open", params={"owner": owner}), 403)
        # One of the same name is bob's own, and goes first; the other is had by its owner.
        await bob.put("/views/open", json={"page": "find"})
        assert (await bob.get("/views/open")).json()["page"] == "find"
        assert (await bob.get("/views/open", params={"owner": owner})).json()["page"] == "failures"
        assert await names(bob) == ["open", "open"]
        async with await key_of(world, "admin") as admin:
            problem(await admin.delete("/views/secret", params={"owner": owner}), 404)
            assert (await admin.delete("/views/open", params={"owner": owner})).status_code == 204
        assert await names(ann) == ["secret"]


@pytest.mark.parametrize(
    ("query", "visible"),
    [
        ("destination=orders", True),
        ("status=dead&destination=orders&destination=mail", True),
        ("destination=orders&destination=salaries", False),
        ("destination=salaries", False),
        ("destination=%73alaries", False),
        ("status=dead", False),
        ("destination=", False),
    ],
)
async def test_a_shared_view_is_seen_as_far_as_rights_go(world: World, query: str, visible: bool) -> None:
    async with await key_of(world, "admin") as admin, await key_of(world, "viewer", "orders", "mail") as limited:
        await admin.put("/views/v", json={"page": "find", "query": query, "shared": True})
        assert await names(limited) == (["v"] if visible else [])
        assert (await limited.get("/views/v")).status_code == (200 if visible else 404)


async def test_who_may_not_read_has_no_views(world: World) -> None:
    async with await key_of(world, "producer") as client:
        for method, body in (("GET", None), ("PUT", VIEW), ("DELETE", None)):
            problem(await client.request(method, "/views/v", json=body), 403)
        problem(await client.get("/views"), 403)
    async with world.client() as stranger:
        problem(await stranger.get("/views"), 401)


@pytest.mark.parametrize(
    ("name", "change", "field"),
    [
        ("v", {"page": None}, "page"),
        ("v", {"page": "Find!"}, "page"),
        ("v", {"query": "a" * 2001}, "query"),
        ("v", {"query": "a\nb"}, "query"),
        ("v", {"shared": "perhaps"}, "shared"),
        ("v", {"version": -1}, "version"),
        ("v", {"name": "other"}, "name"),
        ("v", {"more": 1}, "more"),
        ("a" * 81, {}, "name"),
        ("%20v", {}, "name"),
        ("v%00", {}, "name"),
        ("%E2%80%AEv", {}, "name"),
    ],
)
async def test_what_is_wrong_is_named(client: httpx.AsyncClient, name: str, change: dict[str, Any], field: str) -> None:
    problem(await client.put(f"/views/{name}", json={**VIEW, **change}), 422, field)
    assert await names(client) == []


async def test_a_version_that_is_gone_is_a_conflict_and_one_of_two_at_once_wins(client: httpx.AsyncClient) -> None:
    assert (await client.put("/views/v", json={**VIEW, "version": 0})).json()["version"] == 1
    assert "changed meanwhile" in problem(await client.put("/views/v", json={**VIEW, "version": 0}), 409)["detail"]
    both = await asyncio.gather(
        *(client.put("/views/v", json={**VIEW, "page": page, "version": 1}) for page in ("one", "two"))
    )
    assert sorted(answer.status_code for answer in both) == [200, 409]
    kept = next(answer.json() for answer in both if answer.status_code == 200)
    assert (await client.get("/views/v")).json() == kept


async def test_views_are_bounded(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(saved_views, "MOST_OF_ONE", 2)
    monkeypatch.setattr(saved_views, "MOST_OF_ALL", 3)
    async with await key_of(world, "viewer") as ann, await key_of(world, "viewer") as bob:
        for name in ("a", "b"):
            assert (await ann.put(f"/views/{name}", json=VIEW)).status_code == 200
        assert "remove one" in problem(await ann.put("/views/c", json=VIEW), 409)["hint"]
        assert (await ann.put("/views/a", json={**VIEW, "shared": True})).status_code == 200
        assert (await bob.put("/views/a", json=VIEW)).status_code == 200
        problem(await bob.put("/views/b", json=VIEW), 409)


async def test_what_is_saved_is_in_the_log(client: httpx.AsyncClient) -> None:
    await client.put("/views/v", json=VIEW)
    await client.delete("/views/v")
    entries = (await client.get("/audit", params={"what": "views/v"})).json()["items"]
    assert [(entry["method"], entry["outcome"]) for entry in entries] == [("DELETE", "done"), ("PUT", "done")]
