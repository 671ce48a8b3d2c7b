"""Everybody asks for everything: who may not is refused whatever the operation, and what they asked for has no effect.

The operations come from the OpenAPI document; what each wants is written down here once more, apart from the routes.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from itertools import product
from typing import Any, NamedTuple

import httpx
import pytest

from bus.domain.delivery.delivery import Status
from tests.unit.admin.admin_world import URL, World
from tests.unit.admin.incident_shapes import put

CODES = ("orders", "cards", "mails", "refunds", "stock")
KINDS = ("key", "session", "session without proof")
ROLES = ("producer", "viewer", "operator", "admin")
# From docs/configuration.md, "Keys".
MAY = {
    "producer": set(),
    "viewer": {"read"},
    "operator": {"read", "resend", "pause"},
    "admin": {"read", "resend", "pause", "configure"},
}
HERE = {"origin": "http://localhost"}


class Wanted(NamedTuple):
    """What an operation wants: an action, and where: on ``orders``, on ``all`` destinations, on ``some`` of them, or on
    what is ``found`` only by who may see ``orders``.
    """

    action: str
    where: str
    body: Any = None
    query: Mapping[str, str] = {}


FILTER = {"filter": {"destination": "orders"}}
BACKLOG = {"filter": {"destination": "orders", "subscription": "billing"}}
NORMS = {"until": "2026-11-21T12:00:00Z", "count": 0, "items": []}
PIPELINE = {"started_at": "2026-11-21T12:00:00Z", "lake": "lake"}
REPORT = {"run": 1, "verdict": "proven", "checked": "2026-11-21T12:00:00Z"}
PROOF = {"checked": "2026-11-21T12:00:00Z", "missing": 0, "contradicted": 0, "items": []}
OPERATIONS = {
    "GET /api/v1/configuration": Wanted("configure", "some"),
    "PUT /api/v1/configuration": Wanted("configure", "orders", {"destinations": [{"code": "orders"}]}),
    "GET /api/v1/destinations": Wanted("read", "some"),
    "GET /api/v1/destinations/{code}": Wanted("read", "orders"),
    "PUT /api/v1/destinations/{code}": Wanted("configure", "orders", {"retention_days": 3}),
    "PATCH /api/v1/destinations/{code}": Wanted("configure", "orders", {"paused": True}),
    "DELETE /api/v1/destinations/{code}": Wanted("configure", "orders"),
    "GET /api/v1/destinations/{code}/subscriptions": Wanted("read", "orders"),
    "GET /api/v1/destinations/{code}/subscriptions/{name}": Wanted("read", "orders"),
    "PUT /api/v1/destinations/{code}/subscriptions/{name}": Wanted("configure", "orders", {"url": URL, "rate": 1}),
    "PATCH /api/v1/destinations/{code}/subscriptions/{name}": Wanted("pause", "orders", {"paused": True}),
    "DELETE /api/v1/destinations/{code}/subscriptions/{name}": Wanted("configure", "orders"),
    "POST /api/v1/destinations/{code}/subscriptions/{name}/rotate-secret": Wanted("configure", "orders", {}),
    "GET /api/v1/destinations/{code}/subscriptions/{name}/keys": Wanted("read", "orders"),
    "POST /api/v1/destinations/{code}/subscriptions/{name}/keys/resume": Wanted("resend", "orders", {"key": "c1"}),
    "POST /api/v1/destinations/{code}/subscriptions/{name}/keys/skip": Wanted("resend", "orders", {"key": "c1"}),
    "POST /api/v1/destinations/{code}/subscriptions/{name}/sample": Wanted("configure", "orders", {"body": 1}),
    "POST /api/v1/destinations/{code}/release-order": Wanted("configure", "orders", {}),
    "GET /api/v1/destinations/{code}/ordering": Wanted("read", "orders"),
    "POST /api/v1/destinations/{code}/ordering/abandon": Wanted(
        "configure", "orders", {"group": "g1", "reason": "a try"}
    ),
    "POST /api/v1/destinations/{code}/ordering/release-producer": Wanted("configure", "orders", {"reason": "a try"}),
    "GET /api/v1/lookup/migrations": Wanted("read", "all"),
    "POST /api/v1/lookup/migrations": Wanted("pause", "all", {"topic": "orders", "to": "west"}),
    "GET /api/v1/lookup/migrations/{migration_id}": Wanted("read", "all"),
    "POST /api/v1/lookup/migrations/{migration_id}/advance": Wanted("pause", "all", {}),
    "POST /api/v1/lookup/migrations/{migration_id}/{steering}": Wanted("pause", "all", {}),
    "GET /api/v1/destinations/{code}/transports": Wanted("read", "orders"),
    "GET /api/v1/destinations/{code}/actions": Wanted("read", "orders"),
    "GET /api/v1/destinations/{code}/subscriptions/{name}/actions": Wanted("read", "orders"),
    "GET /api/v1/destinations/{code}/subscriptions/{name}/activity": Wanted("read", "orders"),
    "GET /api/v1/messages/export": Wanted("read", "orders", query={"destination": "orders"}),
    "GET /api/v1/messages/summary": Wanted("read", "orders", query={"destination": "orders"}),
    "GET /api/v1/messages": Wanted("read", "orders", query={"destination": "orders"}),
    "GET /api/v1/messages/{message_id}": Wanted("read", "found"),
    "GET /api/v1/messages/{message_id}/body": Wanted("read", "found"),
    "POST /api/v1/messages/{message_id}/resend": Wanted("resend", "found", {}),
    "POST /api/v1/messages/{message_id}/edit": Wanted("resend", "found", {"body": True, "reason": "a try"}),
    "GET /api/v1/messages/{message_id}/deliveries/{subscription}/attempts/{attempt}": Wanted("read", "found"),
    "POST /api/v1/resends": Wanted("resend", "orders", FILTER),
    "POST /api/v1/discards": Wanted("resend", "orders", BACKLOG),
    "GET /api/v1/resends": Wanted("read", "some"),
    "POST /api/v1/resends/deliveries": Wanted(
        "resend", "orders", {"destination": "orders", "deliveries": [{"id": "{message_id}", "subscription": "billing"}]}
    ),
    "GET /api/v1/resends/{job_id}": Wanted("read", "found"),
    "PATCH /api/v1/resends/{job_id}": Wanted("resend", "found", {"rate": 1}),
    "DELETE /api/v1/resends/{job_id}": Wanted("resend", "found"),
    "POST /api/v1/resends/{job_id}/pause": Wanted("resend", "found"),
    "POST /api/v1/resends/{job_id}/resume": Wanted("resend", "found"),
    "POST /api/v1/resends/{job_id}/rerun": Wanted("resend", "found", {}),
    "GET /api/v1/resends/{job_id}/items": Wanted("read", "found"),
    "GET /api/v1/resends/{job_id}/items/export": Wanted("read", "found"),
    "GET /api/v1/stats": Wanted("read", "orders", query={"destination": "orders"}),
    "GET /api/v1/failures": Wanted("read", "orders", query={"destination": "orders"}),
    "GET /api/v1/overview": Wanted("read", "some"),
    "GET /api/v1/conditions": Wanted("read", "some"),
    "GET /api/v1/alarms": Wanted("read", "some"),
    "GET /api/v1/alarms/{incident_id}": Wanted("read", "found"),
    "POST /api/v1/alarms/{incident_id}/acknowledge": Wanted("pause", "all", {}),
    "GET /api/v1/alarm-silences": Wanted("read", "all"),
    "POST /api/v1/alarm-silences": Wanted("pause", "all", {"rule": "dead"}),
    "DELETE /api/v1/alarm-silences/{silence_id}": Wanted("pause", "all"),
    "GET /api/v1/alarm-rules": Wanted("read", "some"),
    "POST /api/v1/alarm-trials": Wanted("configure", "all", {}),
    "GET /api/v1/findings": Wanted("read", "all"),
    "PUT /api/v1/findings/norms": Wanted("resend", "all", NORMS),
    "PUT /api/v1/findings/proof": Wanted("resend", "all", PROOF),
    "GET /api/v1/pipeline": Wanted("read", "all"),
    "PUT /api/v1/pipeline": Wanted("resend", "all", PIPELINE),
    "GET /api/v1/pipeline/proof": Wanted("read", "all"),
    "PUT /api/v1/pipeline/proof": Wanted("resend", "all", REPORT),
    "POST /api/v1/pipeline/runs": Wanted("resend", "all", {"job": "reconcile"}),
    "GET /api/v1/processes": Wanted("read", "all"),
    "GET /api/v1/processes/{owner}": Wanted("read", "all"),
    "GET /api/v1/producers": Wanted("read", "all"),
    "GET /api/v1/compensations": Wanted("read", "orders", query={"destination": "orders"}),
    "GET /api/v1/orphans": Wanted("read", "all"),
    "GET /api/v1/spools": Wanted("read", "all"),
    "GET /api/v1/rates": Wanted("read", "all"),
    "PUT /api/v1/rates": Wanted("configure", "all", {"receiver": 1}),
    "GET /api/v1/clusters": Wanted("read", "all"),
    "PUT /api/v1/clusters": Wanted("configure", "all", {"cluster": None}),
    "POST /api/v1/emptied-store": Wanted("configure", "all", {"accept": True}),
    "GET /api/v1/health": Wanted("read", "all"),
    "POST /api/v1/partitions/{name}/drop": Wanted("configure", "all", {}),
    "GET /api/v1/keys": Wanted("configure", "all"),
    "POST /api/v1/keys": Wanted("configure", "all", {"role": "admin"}),
    "PATCH /api/v1/keys/{key_id}": Wanted("configure", "all", {"rate": 5}),
    "DELETE /api/v1/keys/{key_id}": Wanted("configure", "all"),
    "GET /api/v1/users": Wanted("configure", "all"),
    "POST /api/v1/users": Wanted("configure", "all", {"name": "mallory", "role": "admin"}),
    "GET /api/v1/users/{user}": Wanted("configure", "all"),
    "PATCH /api/v1/users/{user}": Wanted("configure", "all", {"role": "admin"}),
    "DELETE /api/v1/users/{user}": Wanted("configure", "all"),
    "POST /api/v1/users/{user}/reset-password": Wanted("configure", "all"),
    "GET /api/v1/views": Wanted("read", "some"),
    "GET /api/v1/views/{name}": Wanted("read", "some"),
    "PUT /api/v1/views/{name}": Wanted("read", "some", {"page": "messages"}),
    "DELETE /api/v1/views/{name}": Wanted("read", "some"),
    "GET /api/v1/secrets": Wanted("configure", "all"),
    "POST /api/v1/secrets/reseal": Wanted("configure", "all"),
    "GET /api/v1/audit": Wanted("configure", "all"),
    "GET /api/v1/history": Wanted("read", "orders", query={"resource": "destinations/orders"}),
}
# Whoever asks, for themselves.
OWN = ("/api/v1/session",)


class Principal(NamedTuple):
    """Somebody: how they show who they are, what their role is, and to what they are limited."""

    kind: str
    role: str
    destinations: tuple[str, ...]

    def outcome(self, operation: str, wanted: Wanted) -> int | None:
        """Return the status with which they are refused; None when they may."""
        if self.kind == "session without proof" and not operation.startswith("GET "):
            return 403
        if wanted.action not in MAY[self.role]:
            return 403
        if not self.destinations or self.role == "admin" or wanted.where == "some":
            return None
        if wanted.where == "all" or "orders" not in self.destinations:
            return 404 if wanted.where == "found" else 403
        return None


class Stage:
    """A world with something of everything of ``orders``."""

    def __init__(self, world: World, values: dict[str, str]) -> None:
        self.world = world
        self.values = values

    @classmethod
    async def make(cls) -> Stage:
        world = World()
        async with world.client() as client:
            for code in CODES:
                assert (await client.put(f"/destinations/{code}", json={})).status_code == 200
            await client.put("/destinations/orders/subscriptions/billing", json={"url": URL, "secret": "auto"})
            (sent,) = await world.written(1, Status.DEAD)
            job = (await client.post("/resends", json=FILTER)).json()["id"]
            await client.put("/views/billing", json={"page": "messages", "shared": True})
        victim = await world.keyring.create_key(roles=("viewer",))
        await world.keyring.add_user("ann", "viewer")
        values = {"message_id": sent.id, "job_id": job, "key_id": victim.split("_")[1], "owner": "owner-1"}
        known = {"code": "orders", "name": "billing", "subscription": "billing", "attempt": "1", "user": "ann"}
        known |= {"migration_id": "orders-1", "steering": "pause", "incident_id": "i1", "silence_id": "s1"}
        await put(world, "i1")
        return cls(world, values | known)

    async def enter(self, principal: Principal, client: httpx.AsyncClient, number: int) -> None:
        """Have a client be somebody."""
        keyring = self.world.keyring
        if principal.kind == "key":
            key = await keyring.create_key(roles=(principal.role,), destinations=principal.destinations)
            client.headers["authorization"] = f"Bearer {key}"
            return
        password = await keyring.add_user(f"u{number}", principal.role, principal.destinations)
        begun = await client.post("/session", json={"name": f"u{number}", "password": password}, headers=HERE)
        assert begun.status_code == 201, begun.text
        client.headers.update(HERE)
        if principal.kind == "session":
            client.headers["x-csrf-token"] = begun.json()["csrf"]

    async def ask(self, client: httpx.AsyncClient, operation: str, wanted: Wanted) -> httpx.Response:
        """Ask for what is there."""
        method, _, path = operation.partition(" ")
        url = path.removeprefix("/api/v1").format_map(self.values)
        content = {"json": _filled(wanted.body, self.values)} if wanted.body is not None else {}
        return await client.request(method, url, params=dict(wanted.query), **content)

    async def kept(self) -> dict[str, Any]:
        """Return all that the store has of what an operation may change, but for who is who and what was asked."""
        documents = self.world.store
        found = {
            name: await documents.list(name)
            for name in (
                "destinations",
                "subscriptions",
                "settings",
                "views",
                "findings",
                "pipeline",
                "pipeline_wishes",
            )
        }
        trace = await documents.trace(self.values["message_id"])
        return {**found, "jobs": await self.world.services.jobs.all(), "trace": trace}


def _filled(body: Any, values: Mapping[str, str]) -> Any:
    if isinstance(body, dict):
        return {name: _filled(value, values) for name, value in body.items()}
    if isinstance(body, list):
        return [_filled(value, values) for value in body]
    return body.format_map(values) if isinstance(body, str) else body


def one_of_each() -> list[Principal]:
    scopes = ((), ("orders",), ("cards", "mails"))
    return [Principal(*each) for each in product(KINDS, ROLES, scopes) if _is_possible(each[0], each[1])]


def many(count: int, seed: int) -> list[Principal]:
    dice, found = random.Random(seed), []
    while len(found) < count:
        kind, role = dice.choice(KINDS), dice.choice(ROLES)
        if _is_possible(kind, role):
            found.append(Principal(kind, role, tuple(dice.sample(CODES, dice.randrange(len(CODES))))))
    return found


def _is_possible(kind: str, role: str) -> bool:
    return kind == "key" or role != "producer"


async def refuse_everybody(principals: list[Principal]) -> int:
    """Have everybody ask for all that they may not; return how often somebody was refused."""
    stage = await Stage.make()
    before, asked = await stage.kept(), 0
    for number, principal in enumerate(principals):
        async with stage.world.client() as client:
            await stage.enter(principal, client, number)
            for operation, wanted in OPERATIONS.items():
                status = principal.outcome(operation, wanted)
                if status is None:
                    continue
                answer = await stage.ask(client, operation, wanted)
                assert answer.status_code == status, (principal, operation, answer.text)
                asked += 1
    assert await stage.kept() == before
    return asked


async def test_every_operation_is_here() -> None:
    paths = World().app.openapi()["paths"]
    documented = {f"{method.upper()} {path}" for path, found in paths.items() for method in found}
    assert {one for one in documented if not one.partition(" ")[2].startswith(OWN)} == set(OPERATIONS)


async def test_who_may_not_is_refused_whatever_it_is_and_changes_nothing() -> None:
    assert await refuse_everybody(one_of_each()) > 1_000


@pytest.mark.proof
@pytest.mark.timeout(1_200)
async def test_a_thousand_principals_are_refused_what_they_may_not() -> None:
    asked = await refuse_everybody(many(1_000, seed=20261124))
    print({"proof": "principals", "principals": 1_000, "operations": len(OPERATIONS), "refused": asked, "bypasses": 0})


@pytest.mark.parametrize("operation", OPERATIONS)
async def test_who_may_is_let_in(operation: str) -> None:
    wanted, stage = OPERATIONS[operation], await Stage.make()
    role = next(role for role in ROLES if wanted.action in MAY[role])
    limited = ("orders",) if wanted.where != "all" and role != "admin" else ()
    async with stage.world.client() as client:
        await stage.enter(Principal("key", role, limited), client, 0)
        answer = await stage.ask(client, operation, wanted)
        assert answer.status_code not in (401, 403), answer.text
