"""The audit log: every change and every read of a body is in it, without secrets, before it is answered."""

from __future__ import annotations

import asyncio
from pathlib import Path

import httpx
import pytest

from admin.housekeeping import keep_house
from bus.domain.delivery.delivery import Status
from bus.domain.times import DAY
from bus.security.audit_log import AUDIT, AuditLog, AuditQuery
from bus.security.principals import ANYONE
from bus.stores.sqlite import SqliteStore
from bus.testing.clock import ManualClock
from bus.testing.store import MemoryStore
from tests.unit.admin.admin_world import BILLING, World, problem, put

# A login of whom nobody knows yet: one that holds is an entry. What a pipeline tells of itself every two seconds.
UNAUDITED = {("post", "/api/v1/session"), ("put", "/api/v1/pipeline")}


async def entries(client: httpx.AsyncClient, **asked: object) -> list[dict]:
    answer = await client.get("/audit", params=asked)
    assert answer.status_code == 200, answer.text
    return answer.json()["items"]


async def test_a_change_says_who_when_what_and_how_it_went(world: World) -> None:
    key = await world.keyring.create_key(roles=("admin",), name="ops")
    key_id = world.keyring.all_keys()[0].id
    async with world.client(key) as client:
        await client.put("/destinations/orders", json={"retention_days": 9})
        await client.patch("/destinations/orders", json={"paused": True})
        patched, made = await entries(client)
    assert patched == {
        "id": patched["id"],
        "at": "2026-11-21T12:00:00.000Z",
        "who": {"kind": "key", "id": key_id, "name": "key ops", "address": "127.0.0.1"},
        "method": "PATCH",
        "resource": "destinations/orders",
        "changes": {"paused": {"before": False, "after": True}},
        "status": 200,
        "outcome": "done",
    }
    assert made["changes"]["retention_days"] == {"before": None, "after": 9}


async def test_an_open_bus_says_so(client: httpx.AsyncClient, orders: None) -> None:
    (made,) = await entries(client)
    assert made["who"]["kind"] == "open"


async def test_no_secret_is_in_the_log(world: World, client: httpx.AsyncClient, orders: None) -> None:
    secret, other = "whsec_" + "A" * 32, "whsec_" + "B" * 32
    await put(client, secret=secret, headers={"X-Token": "confidential"})
    await put(client, secret=other, headers={"X-Token": "restricted"})
    await put(client, sekret="whsec_misspelt")
    made = (await client.post(f"{BILLING}/rotate-secret", json={})).json()["secret"]
    key = (await client.post("/keys", json={"role": "admin"})).json()["key"]
    async with world.client(key) as own:
        password = (await own.post("/users", json={"name": "ann"})).json()["password"]
        _, _, _, misspelt, changed, _, _ = await entries(own)
    assert changed["changes"] == {
        "secret": {"before": "***", "after": "***"},
        "headers": {"before": {"X-Token": "***"}, "after": {"X-Token": "***"}},
    }
    assert (misspelt["outcome"], misspelt["changes"]["sekret"]) == ("refused", {"before": None, "after": None})
    kept = b"".join(document.value for document in await world.store.list(AUDIT))
    for text in (secret, other, "confidential", "restricted", "whsec_misspelt", made, key, password):
        assert text.encode() not in kept


async def test_what_is_refused_is_in_the_log_and_who_is_not_known_is_not(world: World) -> None:
    await world.keyring.create_key(roles=("admin",))
    viewer = await world.keyring.create_key(roles=("viewer",))
    async with world.client(viewer) as client, world.client("bus_wrong") as stranger:
        problem(await client.put("/destinations/orders", json={"max_bytes": 5}), 403)
        problem(await stranger.put("/destinations/orders", json={}), 401)
    async with world.client(await world.keyring.create_key(roles=("admin",))) as admin:
        problem(await admin.put("/destinations/orders", json={"max_bytes": 0}), 422)
        problem(
            await admin.put("/destinations/orders", content=b"{", headers={"content-type": "application/json"}), 400
        )
        problem(await admin.delete("/destinations/orders"), 404)
        found = await entries(admin)
    assert [(entry["method"], entry["status"], entry["outcome"]) for entry in found] == [
        ("DELETE", 404, "refused"),
        ("PUT", 400, "refused"),
        ("PUT", 422, "refused"),
        ("PUT", 403, "refused"),
    ]
    assert found[3]["changes"] == {"max_bytes": {"before": None, "after": None}}


async def test_a_read_of_a_body_is_in_the_log_and_other_reads_are_not(world: World, client: httpx.AsyncClient) -> None:
    (sent,) = await world.written(1, Status.DELIVERED)
    assert (await client.get(f"/messages/{sent.id}/body")).content == sent.body
    await client.get(f"/messages/{sent.id}")
    await client.get("/messages")
    (read,) = await entries(client, what=f"messages/{sent.id}")
    assert (read["method"], read["resource"], read["status"]) == ("GET", f"messages/{sent.id}/body", 200)
    assert await entries(client) == [read]


async def test_while_the_store_is_away_nothing_changes_and_no_body_is_read(world: World, orders: None) -> None:
    async with world.client() as client:
        (sent,) = await world.written(1, Status.DELIVERED)
        world.store.down = True
        problem(await client.patch("/destinations/orders", json={"paused": True}), 503)
        problem(await client.get(f"/messages/{sent.id}/body"), 503)
        assert not world.registry.destination("orders").paused
        world.store.down = False
        assert len(await entries(client)) == 1


async def test_a_change_whose_outcome_could_not_be_kept_is_there_all_the_same(world: World, orders: None) -> None:
    async with world.client() as client:
        world.store.left = 2  # the entry and the destination
        problem(await client.put("/destinations/mails", json={}), 503)
        world.store.down, world.store.left = False, None
        newest, _ = await entries(client)
    assert (newest["resource"], newest["outcome"], newest["status"]) == ("destinations/mails", "unknown", None)


async def test_a_failure_inside_is_an_outcome(world: World, orders: None, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(world.registry, "put_destination", fail)
    async with world.client() as client:
        with pytest.raises(ZeroDivisionError):
            await client.put("/destinations/orders", json={})
        newest, _ = await entries(client)
    assert (newest["status"], newest["outcome"]) == (500, "failed")


async def test_pages_and_filters(world: World, client: httpx.AsyncClient) -> None:
    for number in range(7):
        await client.put(f"/destinations/d{number}", json={})
        await world.clock.advance(1)
    found, cursor = [], None
    while True:
        asked = {"limit": 3} | ({"cursor": cursor} if cursor else {})
        page = (await client.get("/audit", params=asked)).json()
        found += [entry["resource"] for entry in page["items"]]
        cursor = page["next"]
        if cursor is None:
            break
    assert found == [f"destinations/d{number}" for number in reversed(range(7))]
    between = {"from": "2026-11-21T12:00:02Z", "to": "2026-11-21T12:00:04Z"}
    assert [entry["resource"] for entry in await entries(client, **between)] == ["destinations/d3", "destinations/d2"]
    assert [entry["resource"] for entry in await entries(client, what="destinations/d5")] == ["destinations/d5"]
    assert await entries(client, who="ann") == []
    assert len(await entries(client, who="open")) == 7
    problem(await client.get("/audit", params={"cursor": "x"}), 422, "cursor")


async def test_every_route_that_may_change_something_is_audited(world: World) -> None:
    (sent,) = await world.written(1, Status.DEAD)
    async with world.client() as client:
        await client.put("/destinations/orders", json={})
        await put(client)
        job_id = (await client.post("/resends", json={"filter": {}})).json()["id"]
        values = {"code": "orders", "name": "billing", "message_id": sent.id, "job_id": job_id}
        for path, methods in world.app.openapi()["paths"].items():
            for method in set(methods) - {"get"}:
                if (method, path) in UNAUDITED:
                    continue
                place = path.removeprefix("/api/v1").format_map({**dict.fromkeys(_names(path), "none"), **values})
                before = len(await world.store.list(AUDIT))
                await client.request(method, place, json={"nonsense": 1})
                assert len(await world.store.list(AUDIT)) == before + 1, (method, path)


def _names(path: str) -> list[str]:
    return [part[1:-1] for part in path.split("/") if part.startswith("{")]


async def test_old_entries_are_dropped(world: World, client: httpx.AsyncClient) -> None:
    await client.put("/destinations/old", json={})
    await world.clock.advance(86_400 * 200)
    await client.put("/destinations/young", json={})
    house = asyncio.create_task(keep_house(world.services))
    await world.clock.advance(86_400 * 166)
    assert [entry["resource"] for entry in await entries(client)] == ["destinations/young"]
    house.cancel()
    await asyncio.gather(house, return_exceptions=True)


async def test_housekeeping_outlives_a_store_that_is_away(world: World, client: httpx.AsyncClient) -> None:
    await client.put("/destinations/old", json={})
    await world.clock.advance(86_400 * 366)
    world.store.down = True
    house = asyncio.create_task(keep_house(world.services))
    await world.clock.advance(1)
    world.store.down = False
    await world.clock.advance(3600)
    assert await entries(client) == []
    house.cancel()
    await asyncio.gather(house, return_exceptions=True)


async def test_a_page_looks_at_a_bounded_number_of_entries_and_says_where_to_go_on() -> None:
    clock = ManualClock()
    log = AuditLog(MemoryStore(), clock)
    await log.add(log.entry(ANYONE, "PUT", "rare", changes={}, address=""))
    for _ in range(5000):
        clock.jump(1)
        await log.add(log.entry(ANYONE, "PUT", "usual", changes={}, address=""))
    first = await log.read(AuditQuery(what="rare"), after=None, limit=10)
    assert first.entries == []
    second = await log.read(AuditQuery(what="rare"), after=first.next, limit=10)
    assert [entry.resource for entry in second.entries] == ["rare"]
    assert second.next is None


async def test_entries_outlive_the_process(tmp_path: Path) -> None:
    clock = ManualClock()
    store = await SqliteStore.open(tmp_path / "store")
    log = AuditLog(store, clock)
    made = [log.entry(ANYONE, "PUT", f"rates/{number}", changes={}, address="") for number in range(600)]
    for entry in made:
        await log.add(entry)
    await log.complete(made[0], 200)
    await store.close()
    store = await SqliteStore.open(tmp_path / "store")
    log = AuditLog(store, clock)
    found = await log.read(AuditQuery(), after=None, limit=1000)
    assert {entry.resource for entry in found.entries} == {f"rates/{number}" for number in range(600)}
    assert [entry.status for entry in found.entries if entry.resource == "rates/0"] == [200]
    clock.jump(2 * DAY)
    assert await log.expire(1) == 600
    assert (await log.read(AuditQuery(), after=None, limit=10)).entries == []
    await store.close()
