"""People log in, may do what their role may, and are asked for proof that a change comes from a page of ours."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http.cookies import SimpleCookie

import httpx
import pytest
from argon2 import PasswordHasher

from bus.domain.delivery.delivery import Status
from bus.security import passwords
from bus.security.audit_log import AuditQuery
from bus.security.keys import Action
from bus.testing.writes import message
from tests.unit.admin.admin_world import BILLING, URL, World, problem

HERE = {"origin": "http://localhost"}


@pytest.fixture
async def world() -> World:
    world = World()
    async with world.client() as client:
        for code in ("orders", "mails"):
            await client.put(f"/destinations/{code}", json={})
            await client.put(f"/destinations/{code}/subscriptions/billing", json={"url": URL})
    return world


async def log_in(client: httpx.AsyncClient, password: str, name: str = "ann", **headers: str) -> httpx.Response:
    return await client.post("/session", json={"name": name, "password": password}, headers={**HERE, **headers})


@asynccontextmanager
async def person(world: World, role: str, *destinations: str, name: str = "ann") -> AsyncIterator[httpx.AsyncClient]:
    """Have a browser in which a new user has logged in, and whose pages show what they must."""
    password = await world.keyring.add_user(name, role, destinations)
    async with world.client() as client:
        begun = await log_in(client, password, name)
        assert begun.status_code == 201, begun.text
        client.headers.update({**HERE, "x-csrf-token": begun.json()["csrf"]})
        yield client


def cookies(answer: httpx.Response) -> SimpleCookie:
    found = SimpleCookie()
    for line in answer.headers.get_list("set-cookie"):
        found.load(line)
    return found


async def test_a_login_tells_who_i_am_and_what_i_may(world: World) -> None:
    password = await world.keyring.add_user("ann", "operator", ("orders",))
    async with world.client() as client:
        begun = await log_in(client, password)
        assert begun.status_code == 201
        assert begun.json() == {
            "kind": "user",
            "name": "ann",
            "roles": ["operator"],
            "destinations": ["orders"],
            "may": ["read", "resend", "pause"],
            "logs_in_by": "password",
            "csrf": begun.json()["csrf"],
            "expires_at": "2026-11-22T00:00:00.000Z",
            "idle_seconds": 1800,
        }
        assert (await client.get("/session")).json() == begun.json()


async def test_the_cookies_are_for_the_browser_only(world: World) -> None:
    password = await world.keyring.add_user("ann", "viewer")
    async with world.client() as client:
        plain = cookies(await log_in(client, password))
        secure = cookies(await log_in(client, password, origin="https://bus.example", host="bus.example"))
    assert set(plain) == {"bus_session", "bus_device"}
    assert set(secure) == {"__Host-bus_session", "__Host-bus_device"}
    for found, is_secure in ((plain, False), (secure, True)):
        for cookie in found.values():
            assert cookie["httponly"]
            assert cookie["samesite"] == "strict"
            assert cookie["path"] == "/"
            assert not cookie["domain"]
            assert bool(cookie["secure"]) is is_secure


async def test_a_key_and_an_open_bus_have_no_session(world: World) -> None:
    async with world.client() as client:
        found = (await client.get("/session")).json()
        assert (found["kind"], found["csrf"], found["may"]) == ("open", None, [action.value for action in Action])
    key = await world.keyring.create_key(roles=("viewer",), name="ops")
    async with world.client(key) as client:
        found = (await client.get("/session")).json()
        assert (found["kind"], found["name"], found["csrf"]) == ("key", "key ops", None)
        assert (await client.delete("/session")).status_code == 204
        problem(await client.put("/session/password", json={"current_password": "x", "password": "y"}), 403)
    async with world.client() as client:
        problem(await client.get("/session"), 401)


@pytest.mark.parametrize(("name", "password"), [("ann", "wrong"), ("bob", "wrong"), ("", ""), ("ann", "\x00")])
async def test_a_wrong_name_or_password_is_one_answer(world: World, name: str, password: str) -> None:
    await world.keyring.add_user("ann", "viewer")
    async with world.client() as client:
        refused = problem(await log_in(client, password, name), 401)
        assert refused["detail"] == "the name or the password is wrong"
        problem(await client.get("/session"), 401)


async def test_who_logs_out_is_out_in_every_process_and_after_a_restart(world: World) -> None:
    async with person(world, "viewer") as client:
        kept = dict(client.cookies)
        world.restart()
        assert (await _again(world, kept).get("/destinations")).status_code == 200
        assert (await client.delete("/session")).status_code == 204
        assert "bus_session" not in client.cookies
        problem(await _again(world, kept).get("/destinations"), 401)


def _again(world: World, kept: dict[str, str]) -> httpx.AsyncClient:
    client = world.client()
    client.cookies.update(kept)
    return client


async def test_a_session_ends_by_the_settings(world: World) -> None:
    world.context.settings.session_idle, world.context.settings.session_lifetime = 600, 1800
    world.services.__init__(world.context, world.introspection)
    async with person(world, "viewer") as client:
        for _ in range(3):
            await world.clock.advance(540)
            assert (await client.get("/session")).status_code == 200
        await world.clock.advance(180)
        ended = problem(await client.get("/session"), 401)
        assert ended["detail"] == "the session has ended"


@pytest.mark.parametrize(
    "headers",
    [
        {"x-csrf-token": ""},
        {"x-csrf-token": "0" * 64},
        {"x-csrf-token": "\u00e9"},
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"origin": ""},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"sec-fetch-site": "none"},
    ],
)
async def test_a_change_that_another_page_makes_a_browser_send_is_refused(
    world: World, headers: dict[str, str]
) -> None:
    async with person(world, "admin") as client:
        encoded = [(name.encode(), value.encode()) for name, value in headers.items()]
        for method, path, body in (
            ("PATCH", "/destinations/orders", {"paused": True}),
            ("POST", "/keys", {"role": "admin"}),
            ("DELETE", "/session", None),
        ):
            problem(await client.request(method, path, json=body, headers=encoded), 403)
        assert not world.registry.destination("orders").paused
        assert world.keyring.all_keys() == []
        assert (await client.get("/session")).status_code == 200


async def test_a_change_without_origin_and_token_is_refused(world: World) -> None:
    async with person(world, "admin") as client:
        for name in ("origin", "x-csrf-token"):
            value = client.headers.pop(name)
            problem(await client.patch("/destinations/orders", json={"paused": True}), 403)
            client.headers[name] = value
        client.headers.pop("origin")
        client.headers["sec-fetch-site"] = "same-origin"
        assert (await client.patch("/destinations/orders", json={"paused": True})).status_code == 200


async def test_the_token_of_one_session_is_none_of_another(world: World) -> None:
    async with person(world, "admin") as ann, person(world, "admin", name="bob") as bob:
        ann.headers["x-csrf-token"] = bob.headers["x-csrf-token"]
        problem(await ann.patch("/destinations/orders", json={"paused": True}), 403)


async def test_a_key_needs_neither_origin_nor_token_and_goes_before_a_cookie(world: World) -> None:
    key = await world.keyring.create_key(roles=("admin",))
    async with person(world, "viewer") as client:
        bearer = {"authorization": f"Bearer {key}", "origin": "http://evil.example", "x-csrf-token": ""}
        patched = await client.patch("/destinations/orders", json={"paused": True}, headers=bearer)
        assert patched.status_code == 200
        problem(await client.get("/destinations", headers={"authorization": "Bearer bus_wrong"}), 401)


async def test_another_page_cannot_log_a_browser_in(world: World) -> None:
    password = await world.keyring.add_user("ann", "viewer")
    async with world.client() as client:
        problem(await log_in(client, password, origin="http://evil.example"), 403)
        problem(await log_in(client, password, **{"sec-fetch-site": "cross-site"}), 403)
        assert (await client.post("/session", json={"name": "ann", "password": password})).status_code == 201


async def test_a_person_with_limits_sees_and_changes_only_these_destinations(world: World) -> None:
    (sent,) = await world.written(1, Status.DEAD)
    foreign = message(99, destination="mails", expected=("billing",))
    await world.store.write([foreign])
    other = foreign.id
    async with person(world, "operator", "orders") as client:
        assert [item["code"] for item in (await client.get("/destinations")).json()["items"]] == ["orders"]
        assert (await client.patch(BILLING, json={"paused": True})).status_code == 200
        problem(await client.patch(BILLING.replace("orders", "mails"), json={"paused": True}), 403)
        assert (await client.get(f"/messages/{sent.id}")).status_code == 200
        problem(await client.get(f"/messages/{other}"), 404)
        problem(await client.get(f"/messages/{other}/body"), 404)
        problem(await client.get("/messages"), 403)
        problem(await client.put("/destinations/orders", json={}), 403)
        problem(await client.get("/users"), 403)
        problem(await client.get("/audit"), 403)


@pytest.mark.parametrize("role", ["viewer", "operator", "admin"])
async def test_a_role_may_what_a_key_of_it_may(world: World, role: str) -> None:
    key = await world.keyring.create_key(roles=(role,))
    async with person(world, role) as client, world.client(key) as other:
        for method, path, body in (
            ("GET", "/messages", None),
            ("POST", "/resends", {"filter": {}, "dry_run": True}),
            ("PATCH", BILLING, {"paused": True}),
            ("PATCH", "/destinations/orders", {"paused": False}),
            ("GET", "/users", None),
        ):
            asked = [await one.request(method, path, json=body) for one in (client, other)]
            assert asked[0].status_code == asked[1].status_code, (method, path)


async def test_what_a_person_changes_and_a_login_are_in_the_log(world: World) -> None:
    async with person(world, "admin") as client:
        await client.patch("/destinations/orders", json={"paused": True})
        found = (await client.get("/audit", params={"who": "ann"})).json()["items"]
    assert [(entry["who"]["kind"], entry["method"], entry["resource"]) for entry in found] == [
        ("user", "PATCH", "destinations/orders"),
        ("user", "POST", "session"),
    ]


async def test_a_password_is_changed_by_who_has_it_and_ends_all_sessions(world: World) -> None:
    password = await world.keyring.add_user("ann", "viewer")
    async with world.client() as elsewhere, world.client() as client:
        assert (await log_in(elsewhere, password)).status_code == 201
        begun = await log_in(client, password)
        client.headers.update({**HERE, "x-csrf-token": begun.json()["csrf"]})
        wanted = {"current_password": password, "password": "correct horse battery"}
        problem(
            await client.put("/session/password", json={**wanted, "current_password": "x"}), 422, "current_password"
        )
        problem(await client.put("/session/password", json={**wanted, "password": "short"}), 422, "password")
        changed = await client.put("/session/password", json=wanted)
        assert changed.status_code == 200, changed.text
        assert changed.json()["csrf"] != begun.json()["csrf"]
        assert (await client.get("/session")).status_code == 200
        problem(await elsewhere.get("/session"), 401)
        problem(await log_in(elsewhere, password), 401)
        assert (await log_in(elsewhere, wanted["password"])).status_code == 201


async def test_who_fails_often_waits_ever_longer_and_is_told_how_long(world: World) -> None:
    password = await world.keyring.add_user("ann", "viewer")
    waits = []
    async with world.client() as client:
        for _ in range(5):
            problem(await log_in(client, "wrong"), 401)
        for _ in range(4):
            refused = await log_in(client, password)
            problem(refused, 429)
            waits.append(int(refused.headers["retry-after"]))
            await world.clock.advance(waits[-1])
            problem(await log_in(client, "wrong"), 401)
        assert waits == [1, 2, 4, 8]
        await world.clock.advance(16)
        assert (await log_in(client, password)).status_code == 201


async def test_a_stranger_does_not_lock_a_person_out(world: World) -> None:
    password = await world.keyring.add_user("ann", "viewer")
    async with world.client() as known:
        assert (await log_in(known, password)).status_code == 201
        async with _from(world, "203.0.113.9") as stranger:
            for _ in range(100):
                await log_in(stranger, "guess")
                await world.clock.advance(1)
            problem(await log_in(stranger, password), 429)
            assert (await log_in(known, password)).status_code == 201
            async with _from(world, "198.51.100.7") as elsewhere:
                assert (await log_in(elsewhere, password)).status_code == 201


async def test_many_addresses_are_held_up_for_seconds_and_a_known_browser_not_at_all(world: World) -> None:
    password = await world.keyring.add_user("ann", "viewer")
    async with world.client() as known:
        assert (await log_in(known, password)).status_code == 201
        statuses = []
        for number in range(60):
            async with _from(world, f"203.0.113.{number}") as stranger:
                statuses.append((await log_in(stranger, "guess")).status_code)
        assert statuses.count(401) == 30
        assert (await log_in(known, password)).status_code == 201
        await world.clock.advance(11)
        async with _from(world, "198.51.100.7") as elsewhere:
            assert (await log_in(elsewhere, password)).status_code == 201


async def test_many_attempts_at_a_time_are_no_way_around_the_wait(world: World) -> None:
    await world.keyring.add_user("ann", "viewer")
    async with world.client() as client:
        answers = await asyncio.gather(*(log_in(client, "wrong") for _ in range(30)))
    assert sorted(answer.status_code for answer in answers).count(401) == 5


async def test_a_device_of_another_person_is_none(world: World) -> None:
    await world.keyring.add_user("bob", "viewer")
    async with person(world, "viewer") as client:
        for _ in range(5):
            problem(await log_in(client, "wrong", "bob"), 401)
        problem(await log_in(client, "wrong", "bob"), 429)


def _from(world: World, address: str) -> httpx.AsyncClient:
    transport = httpx.ASGITransport(world.app, client=(address, 5))
    return httpx.AsyncClient(transport=transport, base_url="http://localhost/api/v1")


async def test_while_the_store_is_away_nobody_logs_in_or_out_and_who_is_in_stays(world: World) -> None:
    password = await world.keyring.add_user("bob", "viewer")
    async with person(world, "viewer") as client:
        assert (await client.get("/health")).status_code == 200
        world.store.down = True
        assert (await client.get("/health")).status_code == 200
        problem(await client.delete("/session"), 503)
        async with world.client() as other:
            problem(await log_in(other, password, "bob"), 503)
            assert not other.cookies
        world.store.down = False
        assert (await client.delete("/session")).status_code == 204


async def test_behind_a_trusted_proxy_each_client_is_counted_by_its_own_address(world: World) -> None:
    world.context.settings.trusted_proxies = "127.0.0.0/8"
    world.services.__init__(world.context, world.introspection)
    password = await world.keyring.add_user("ann", "viewer")
    async with world.client() as proxy:
        for port in range(5):
            problem(await log_in(proxy, "wrong", **{"x-forwarded-for": f"203.0.113.9:{port}"}), 401)
        problem(await log_in(proxy, password, **{"x-forwarded-for": "1.2.3.4, 203.0.113.9"}), 429)
        begun = await log_in(proxy, password, **{"x-forwarded-for": "198.51.100.7"})
        assert begun.status_code == 201
    (entry,) = (await world.services.audit.read(AuditQuery(what="session"), after=None, limit=9)).entries
    assert entry.address == "198.51.100.7"


class Counting(PasswordHasher):
    """Counts the hashes that are compared."""

    compared = 0

    def verify(self, hash: str | bytes, password: str | bytes) -> bool:  # noqa: A002
        self.compared += 1
        return super().verify(hash, password)


async def test_a_name_that_nobody_has_costs_as_much_work(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    await world.keyring.add_user("ann", "viewer")
    hasher = Counting(time_cost=1, memory_cost=8, parallelism=1)
    monkeypatch.setattr(passwords, "_HASHER", hasher)
    async with world.client() as client:
        for number, name in enumerate(("ann", "bob", "ann", "eve"), 1):
            problem(await log_in(client, "wrong", name), 401)
            assert hasher.compared == number
