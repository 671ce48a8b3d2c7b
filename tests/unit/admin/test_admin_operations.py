"""Spools, rates, health, keys, users; and who may do what on which route."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx
import pytest

from admin.document import Document
from bus.domain.delivery.delivery import Status
from bus.ports.spool import NewRecord
from bus.registry import Rates
from bus.testing.writes import NOON
from receiver.documented import PATHS
from tests.unit.admin.admin_world import URL, World, problem


@pytest.fixture
async def world() -> World:
    world = World()
    async with world.client() as client:
        await client.put("/destinations/orders", json={})
        await client.put("/destinations/orders/subscriptions/billing", json={"url": URL})
    return world


@pytest.fixture
async def client(world: World) -> AsyncIterator[httpx.AsyncClient]:
    async with world.client() as client:
        yield client


async def test_spools_tell_how_far_each_consumer_is_behind(world: World, client: httpx.AsyncClient) -> None:
    await world.spools["outcomes"].append([NewRecord("orders", b"12345", NOON + 7), NewRecord("orders", b"", NOON + 9)])
    answer = (await client.get("/spools")).json()
    assert answer["next"] is None
    assert [item["name"] for item in answer["items"]] == ["receiver", "direct", "outcomes"]
    assert answer["items"][2] == {
        "name": "outcomes",
        "records": 2,
        "bytes": 69,
        "limit": 1 << 30,
        "damaged": 0,
        "consumers": [
            {"lane": "orders", "consumer": "store", "records": 2, "oldest": "2026-11-21T12:00:00.007Z"},
        ],
    }


async def test_rates_are_changed_while_it_runs(world: World, client: httpx.AsyncClient) -> None:
    assert (await client.get("/rates")).json() == {"receiver": None, "dispatcher": None}
    assert (await client.put("/rates", json={"receiver": 5})).json() == {"receiver": 5.0, "dispatcher": None}
    assert world.registry.rates == Rates(5.0, None)
    assert (await client.get("/rates")).json() == {"receiver": 5.0, "dispatcher": None}
    for field, value in (("receiver", 0), ("dispatcher", "x"), ("nonsense", 1)):
        problem(await client.put("/rates", json={field: value}), 422, field)
    assert world.registry.rates == Rates(5.0, None)


async def test_health_has_a_line_for_each_part(world: World, client: httpx.AsyncClient) -> None:
    assert (await client.get("/health")).json() == {
        "status": "ok",
        "node": "node-1",
        "checks": [{"name": "direct", "ok": True, "detail": ""}],
    }
    world.offer(conditions={"store": lambda: "", "spool receiver": lambda: "full"})
    assert (await client.get("/health")).json() == {
        "status": "degraded",
        "node": "node-1",
        "checks": [
            {"name": "store", "ok": True, "detail": ""},
            {"name": "spool receiver", "ok": False, "detail": "full"},
            {"name": "direct", "ok": True, "detail": ""},
        ],
    }


async def test_keys_are_made_listed_and_revoked(world: World, client: httpx.AsyncClient) -> None:
    answer = await client.post("/keys", json={"name": "ops", "role": "admin"})
    assert answer.status_code == 201
    admin = answer.json()
    assert (admin["role"], admin["destinations"]) == ("admin", [])
    problem(await client.get("/keys"), 401)
    async with world.client(admin["key"]) as own:
        other = (await own.post("/keys", json={"destinations": ["orders"]})).json()
        assert (other["role"], other["destinations"]) == ("producer", ["orders"])
        listed = (await own.get("/keys")).json()["items"]
        assert [(key["name"], key["roles"], key["destinations"]) for key in listed] == [
            ("ops", ["admin"], []),
            ("", ["producer"], ["orders"]),
        ]
        assert other["id"] == listed[1]["id"]
        assert listed[1]["role"] == "producer"
        assert [key["last_used_at"] for key in listed] == ["2026-11-21T12:00:00.000Z", None]
        assert other["key"] not in (await own.get("/keys")).text
        limited = (await own.patch(f"/keys/{other['id']}", json={"rate": 5, "burst": 9})).json()
        assert (limited["rate"], limited["burst"], limited["role"]) == (5, 9, "producer")
        assert (await own.patch(f"/keys/{other['id']}", json={"rate": None})).json()["burst"] == 9
        for name, value in (("rate", 0), ("burst", 0), ("role", "admin")):
            problem(await own.patch(f"/keys/{other['id']}", json={name: value}), 422, name)
        problem(await own.patch("/keys/nothing", json={"rate": 5}), 404)
        assert (await own.delete(f"/keys/{listed[1]['id']}")).status_code == 204
        problem(await own.delete(f"/keys/{listed[1]['id']}"), 404)
        problem(await own.delete(f"/keys/{listed[0]['id']}"), 409)
        assert (await own.get("/keys")).status_code == 200


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("/keys", {"role": "root"}, "role"),
        ("/keys", {"destinations": ["no way"]}, "destinations.0"),
        ("/keys", {"nonsense": 1}, "nonsense"),
        ("/keys", {"name": "x" * 201}, "name"),
        ("/users", {}, "name"),
        ("/users", {"name": "no way"}, "name"),
        ("/users", {"name": "ann", "role": "producer"}, "role"),
    ],
)
async def test_an_impossible_key_or_user_is_a_422(
    world: World, client: httpx.AsyncClient, path: str, body: dict, field: str
) -> None:
    problem(await client.post(path, json=body), 422, field)
    assert world.keyring.is_open


async def test_users_are_made_and_listed(world: World, client: httpx.AsyncClient) -> None:
    key = (await client.post("/keys", json={"role": "admin"})).json()["key"]
    async with world.client(key) as own:
        answer = await own.post("/users", json={"name": "ann@example.com"})
        assert (answer.status_code, answer.json()["role"]) == (201, "viewer")
        assert len(answer.json()["password"]) >= 16
        problem(await own.post("/users", json={"name": "ann@example.com"}), 409)
        (user,) = (await own.get("/users")).json()["items"]
        assert (user["name"], user["role"], user["destinations"]) == ("ann@example.com", "viewer", [])


async def test_an_open_bus_refuses_a_foreign_host(client: httpx.AsyncClient) -> None:
    problem(await client.get("/destinations", headers={"host": "evil.example"}), 403)


BILLING = "/destinations/orders/subscriptions/billing"
READ = [
    *(
        "/destinations",
        "/destinations/orders",
        "/destinations/orders/subscriptions",
        BILLING,
        "/messages",
        "/messages/MESSAGE",
    ),
    "/messages/MESSAGE/deliveries/billing/attempts/1",
    *("/messages/MESSAGE/body", "/resends", "/spools", "/rates", "/clusters", "/health", "/stats", "/failures"),
    "/overview",
    "/conditions",
    *("/views", "/views/V", "/messages/export", "/messages/summary"),
]
READ += ["/destinations/orders/transports", "/destinations/orders/actions", f"{BILLING}/actions", f"{BILLING}/activity"]
READ += ["/destinations/orders/ordering", f"{BILLING}/keys", "/history?resource=destinations/orders"]
READ += ["/lookup/migrations", "/lookup/migrations/orders-1"]
READ += ["/alarms", "/alarms/A", "/alarm-silences", "/alarm-rules", "/findings"]
READ += ["/producers", "/pipeline", "/pipeline/proof"]
READ += ["/processes", "/processes/owner-1", "/compensations", "/orphans"]
OWN = [("PUT", "/views/V", {"page": "find"}), ("DELETE", "/views/V", None)]
RESEND = [
    ("POST", "/messages/MESSAGE/resend", None),
    ("POST", "/messages/MESSAGE/edit", {"reason": "x"}),
    ("POST", "/resends", {"filter": {}, "dry_run": True}),
    ("POST", "/discards", {"filter": {"destination": "orders", "subscription": "billing"}, "dry_run": True}),
    ("POST", f"{BILLING}/keys/resume", {"key": "c1"}),
    ("POST", f"{BILLING}/keys/skip", {"key": "c1"}),
    ("POST", "/resends/deliveries", {"destination": "orders", "deliveries": [], "reason": "x"}),
    ("PUT", "/findings/norms", {"until": "2026-11-21T12:00:00Z", "count": 0, "items": []}),
    ("PUT", "/findings/proof", {"checked": "2026-11-21T12:00:00Z", "missing": 0, "contradicted": 0, "items": []}),
    ("PUT", "/pipeline", {"started_at": "2026-11-21T12:00:00Z", "lake": "lake"}),
    ("PUT", "/pipeline/proof", {"run": 1, "verdict": "proven", "checked": "2026-11-21T12:00:00Z"}),
    ("POST", "/pipeline/runs", {"job": "reconcile"}),
]
PAUSE = [("PATCH", BILLING, {"paused": True}), ("PATCH", BILLING, {"paused": False})]
PAUSE += [("POST", f"/lookup/migrations/orders-1/{deed}", None) for deed in ("advance", "pause")]
PAUSE += [("POST", "/alarms/A/acknowledge", None), ("POST", "/alarm-silences", {"rule": "dead"})]
PAUSE += [("DELETE", "/alarm-silences/S", None)]
PAUSE += [("POST", "/lookup/migrations", {"topic": "orders", "to": "west"})]
CONFIGURE = [
    *(
        ("PUT", "/destinations/orders", {}),
        ("PATCH", "/destinations/orders", {"paused": False}),
        ("POST", "/destinations/orders/release-order", {}),
        ("GET", "/audit", None),
        ("GET", "/keys", None),
    ),
    *(("PUT", BILLING, {"url": URL}), ("PATCH", BILLING, {"paused": False, "rate": 1}), ("GET", "/users", None)),
    *(
        ("POST", f"{BILLING}/rotate-secret", {}),
        ("PUT", "/rates", {}),
        ("POST", "/partitions/20260131-30d/drop", {"messages": 0, "deliveries": 0, "checksum": "0" * 30}),
        ("PUT", "/clusters", {"preferred": None}),
        ("POST", "/emptied-store", {"accept": False}),
        ("POST", "/keys", {}),
        ("PATCH", "/keys/nothing", {}),
        ("POST", "/users", {"name": "x"}),
        ("GET", "/users/nobody", None),
        ("PATCH", "/users/nobody", {}),
        ("DELETE", "/users/nobody", None),
        ("POST", "/users/nobody/reset-password", None),
        ("GET", "/secrets", None),
        ("POST", "/secrets/reseal", None),
    ),
    *(("DELETE", BILLING, None), ("DELETE", "/destinations/orders", None), ("DELETE", "/keys/nothing", None)),
]
CONFIGURE += [("POST", f"{BILLING}/sample", {}), ("POST", "/alarm-trials", {})]
CONFIGURE += [
    ("POST", "/destinations/orders/ordering/abandon", {"group": "g1", "reason": "x"}),
    ("POST", "/destinations/orders/ordering/release-producer", {"reason": "x"}),
]
ROUTES = [("read", "GET", path, None) for path in READ] + [
    (action, *route)
    for action, routes in (("read", OWN), ("resend", RESEND), ("pause", PAUSE), ("configure", CONFIGURE))
    for route in routes
]
MAY = {
    "producer": set(),
    "viewer": {"read"},
    "operator": {"read", "resend", "pause"},
    "admin": {"read", "resend", "pause", "configure"},
}


@pytest.mark.parametrize("role", list(MAY))
async def test_a_role_may_do_what_it_is_for_and_nothing_else(world: World, role: str) -> None:
    (sent,) = await world.written(1, Status.DEAD)
    await world.keyring.create_key(roles=("admin",))
    key = await world.keyring.create_key(roles=(role,))
    async with world.client(key) as client, world.client() as nobody, world.client("bus_wrong") as wrong:
        for action, method, path, body in ROUTES:
            place = path.replace("MESSAGE", sent.id)
            refused = await nobody.request(method, place, json=body)
            problem(refused, 401)
            assert refused.headers["www-authenticate"] == "Bearer"
            problem(await wrong.request(method, place, json=body), 401)
            answer = await client.request(method, place, json=body)
            if action in MAY[role]:
                assert answer.status_code not in (401, 403), (method, path, answer.text)
                assert answer.status_code < 500
            else:
                problem(answer, 403)


async def test_every_route_is_in_that_list(world: World) -> None:
    document = world.app.openapi()
    routes = {
        (method.upper(), path.removeprefix("/api/v1"))
        for path, methods in document["paths"].items()
        if path.startswith("/api/v1")
        for method in methods
    }
    names = {
        "/MESSAGE": "/{message_id}",
        "subscriptions/billing": "subscriptions/{name}",
        "destinations/orders": "destinations/{code}",
        "deliveries/billing/attempts/1": "deliveries/{subscription}/attempts/{attempt}",
        "/processes/owner-1": "/processes/{owner}",
        "/migrations/orders-1/pause": "/migrations/{migration_id}/{steering}",
        "/migrations/orders-1": "/migrations/{migration_id}",
        "/views/V": "/views/{name}",
        "/alarms/A": "/alarms/{incident_id}",
        "/alarm-silences/S": "/alarm-silences/{silence_id}",
        "/partitions/20260131-30d": "/partitions/{name}",
    }
    listed = set()
    for _, method, path, _ in ROUTES:
        for given, name in names.items():
            path = path.replace(given, name)  # noqa: PLW2901
        listed.add(
            (
                method,
                path.partition("?")[0]
                .replace("/keys/nothing", "/keys/{key_id}")
                .replace("/users/nobody", "/users/{user}"),
            )
        )
    assert routes - listed == {
        ("GET", "/resends/{job_id}"),
        ("GET", "/resends/{job_id}/items"),
        ("GET", "/resends/{job_id}/items/export"),
        ("PATCH", "/resends/{job_id}"),
        ("POST", "/resends/{job_id}/pause"),
        ("POST", "/resends/{job_id}/resume"),
        ("POST", "/resends/{job_id}/rerun"),
        ("DELETE", "/resends/{job_id}"),
        # In test_admin_configuration_set.
        ("GET", "/configuration"),
        ("PUT", "/configuration"),
        # Of whoever asks, whatever they may do.
        ("POST", "/session"),
        ("GET", "/session"),
        ("GET", "/session/methods"),
        ("GET", "/session/oidc"),
        ("GET", "/session/oidc/callback"),
        ("DELETE", "/session"),
        ("PUT", "/session/password"),
    }


async def test_a_key_of_one_destination_sees_no_other(world: World) -> None:
    await world.keyring.create_key(roles=("admin",))
    key = await world.keyring.create_key(roles=("operator",), destinations=("orders",))
    async with world.client(key) as client:
        assert (await client.get("/destinations/orders")).status_code == 200
        assert (await client.patch(BILLING, json={"paused": True})).status_code == 200
        problem(await client.get("/destinations/mails"), 403)
        problem(await client.get("/messages"), 403)
        problem(await client.get("/keys"), 403)


async def test_a_list_holds_what_a_key_may_see(world: World) -> None:
    async with world.client() as client:
        await client.put("/destinations/mails", json={})
    limited = await world.keyring.create_key(roles=("viewer",), destinations=("orders", "none"))
    whole = await world.keyring.create_key(roles=("viewer",))
    for key, codes in ((limited, ["orders"]), (whole, ["mails", "orders"])):
        async with world.client(key) as client:
            assert [item["code"] for item in (await client.get("/destinations")).json()["items"]] == codes


async def test_the_document_has_the_hot_routes_as_well(world: World) -> None:
    world.offer(documented=PATHS)
    transport = httpx.ASGITransport(Document(world.services))
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        document = (await client.get("/openapi.json")).json()
        problem(await client.post("/openapi.json"), 405)
        problem(await client.get("/openapi.json/more"), 404)
    assert document["openapi"].startswith("3.")
    assert {"/v1/messages", "/v1/messages/{destination}", "/api/v1/destinations"} <= set(document["paths"])
