"""Whoever may not see everything sees nothing that a masking rule names, wherever content is shown."""

from __future__ import annotations

import json
from typing import Any

import httpx
import msgspec
import pytest
from fastapi import FastAPI

from admin.requests.masking import MasksDep
from admin.showing.masks import Masks
from bus.domain.delivery.delivery import Attempt, Status
from bus.domain.message import Message
from bus.domain.searching.masking import LARGEST
from bus.errors import AccessDenied
from bus.security.audit_log import AuditQuery
from bus.security.principals import ANYONE, Principal
from bus.testing.writes import attempt, message, outcome
from tests.unit.admin.admin_world import World, problem

BODY = b'{"order": 42, "card": {"number": "4111111"}, "items": [{"email": "ann@example.org"}]}'
SECRETS = ("4111111", "ann@example.org", "Basic c2VjcmV0")
RULES = ["body.card.number", "body.items[*].email", "headers.authorization"]
VIEWER = Principal("v", "viewer", ("viewer",), ())


@pytest.fixture
async def keys(world: World) -> dict[str, str]:
    """Make a destination with rules, and a key of each role."""
    async with world.client() as client:
        assert (await client.put("/destinations/orders", json={"mask": RULES})).status_code == 200
        assert (await client.put("/destinations/plain", json={})).status_code == 200
    return {role: await world.keyring.create_key(roles=(role,)) for role in ("viewer", "operator", "admin")}


async def sent(world: World, number: int = 0, **fields: Any) -> Message:
    """Write a message that a subscriber refused, quoting it."""
    headers = {"Authorization": "Basic c2VjcmV0", "trace": "t-1"}
    one = message(number, **{"body": BODY, "headers": headers, "content_type": "application/json", **fields})
    answer = b"no: " + one.body[:200]
    made = msgspec.structs.replace(attempt("a-1", 1, one.received_at), response=answer, status_code=503)
    await world.store.write([one, outcome(one, "billing", Status.RETRYING, attempt=made)])
    return one


@pytest.mark.parametrize("role", ["viewer", "operator", "admin"])
async def test_a_body_is_masked_for_all_who_do_not_ask_for_more(world: World, keys: dict[str, str], role: str) -> None:
    one = await sent(world)
    async with world.client(keys[role]) as client:
        answer = await client.get(f"/messages/{one.id}/body")
    assert answer.headers["bus-masked"] == "true"
    assert answer.headers["content-type"] == "application/json"
    assert answer.json() == {"order": 42, "card": {"number": "***"}, "items": [{"email": "***"}]}


@pytest.mark.parametrize("role", ["viewer", "operator", "admin"])
async def test_a_trace_hides_headers_and_what_subscribers_answered(
    world: World, keys: dict[str, str], role: str
) -> None:
    one, _ = await sent(world), await sent(world, 1)
    async with world.client(keys[role]) as client:
        answer = await client.get(f"/messages/{one.id}")
        listed = await client.get("/messages")
        summary = await client.get("/messages/summary")
    trace = answer.json()
    assert trace["masked"] is True
    assert trace["message"]["headers"] == {"Authorization": "***", "trace": "t-1"}
    (tried,) = trace["deliveries"][0]["attempts"]
    assert (tried["response"], tried["status_code"]) == (None, 503)
    assert not [secret for secret in SECRETS if secret in answer.text + listed.text + summary.text]


async def test_an_admin_who_asks_sees_everything_and_the_log_says_so(world: World, keys: dict[str, str]) -> None:
    one = await sent(world)
    async with world.client(keys["admin"]) as client:
        body = await client.get(f"/messages/{one.id}/body", params={"unmasked": True})
        trace = await client.get(f"/messages/{one.id}", params={"unmasked": "true"})
        await client.get(f"/messages/{one.id}", params={"unmasked": "false"})
        gone = await client.get("/messages/nothing", params={"unmasked": "true"})
        summary = await client.get("/messages/summary", params={"unmasked": "true"})
        entries = (await client.get("/audit", params={"what": "messages"})).json()["items"]
    assert body.content == BODY
    assert "bus-masked" not in body.headers
    assert trace.json()["masked"] is False
    assert trace.json()["message"]["headers"]["Authorization"] == "Basic c2VjcmV0"
    assert trace.json()["deliveries"][0]["attempts"][0]["response"] == "no: " + BODY.decode()
    assert gone.status_code == 404
    assert summary.json()["messages"] == 1
    found = [(entry["resource"], entry["changes"], entry["status"]) for entry in reversed(entries)]
    asked = {"unmasked": {"before": None, "after": "true"}}
    assert found == [
        (f"messages/{one.id}/body", asked, 200),
        (f"messages/{one.id}", asked, 200),
        (f"messages/{one.id}", {"unmasked": {"before": None, "after": "false"}}, 200),
        ("messages/nothing", asked, 404),
        ("messages/summary", asked, 200),
    ]


@pytest.mark.parametrize("role", ["viewer", "operator"])
async def test_nobody_else_sees_it_by_asking(world: World, keys: dict[str, str], role: str) -> None:
    one = await sent(world)
    async with world.client(keys[role]) as client:
        for path in (f"/messages/{one.id}", f"/messages/{one.id}/body"):
            answer = await client.get(path, params={"unmasked": "true"})
            problem(answer, 403)
            assert not [secret for secret in SECRETS if secret in answer.text]
            problem(await client.get(path, params={"unmasked": "perhaps"}), 422, "unmasked")
    async with world.client(keys["admin"]) as client:
        entries = (await client.get("/audit", params={"what": "messages"})).json()["items"]
    assert {entry["outcome"] for entry in entries} == {"refused"}
    assert (await _may(world, keys[role]), await _may(world, keys["admin"])) == (False, True)


async def _may(world: World, key: str) -> bool:
    async with world.client(key) as client:
        return "unmask" in (await client.get("/session")).json()["may"]


@pytest.mark.parametrize("body", [b"<card>4111111</card>", b'{"card": 4111111,}', b"[" * 50_000])
async def test_a_body_that_cannot_be_masked_is_withheld(world: World, keys: dict[str, str], body: bytes) -> None:
    one = await sent(world, body=body)
    async with world.client(keys["viewer"]) as client:
        answer = await client.get(f"/messages/{one.id}/body")
    assert "withheld" in problem(answer, 403)["detail"]
    assert "4111111" not in answer.text
    async with world.client(keys["admin"]) as client:
        assert (await client.get(f"/messages/{one.id}/body", params={"unmasked": "true"})).content == body
        newest, refused = (await client.get("/audit", params={"what": "messages"})).json()["items"]
    assert (newest["status"], refused["status"]) == (200, 403)


async def test_a_big_body_is_masked_and_a_bigger_one_withheld(world: World, keys: dict[str, str]) -> None:
    big = json.dumps({"card": {"number": "4111111"}, "rest": "x" * 1_000_000}).encode()
    first, second = await sent(world, body=big), await sent(world, 1, body=big + b" " * LARGEST)
    async with world.client(keys["viewer"]) as client:
        masked = await client.get(f"/messages/{first.id}/body")
        problem(await client.get(f"/messages/{second.id}/body"), 403)
    assert masked.json() == {"card": {"number": "***"}, "rest": "x" * 1_000_000}


async def test_what_has_no_rules_is_shown_as_it_is(world: World, keys: dict[str, str]) -> None:
    one = await sent(world, destination="plain")
    async with world.client(keys["viewer"]) as client:
        body, trace = await client.get(f"/messages/{one.id}/body"), await client.get(f"/messages/{one.id}")
    assert body.content == BODY
    assert "bus-masked" not in body.headers
    assert trace.json()["masked"] is False
    assert trace.json()["deliveries"][0]["attempts"][0]["response"] == "no: " + BODY.decode()


async def test_a_new_rule_holds_for_what_is_there_and_a_destination_keeps_its_rules_to_the_end(
    world: World, keys: dict[str, str]
) -> None:
    one = await sent(world, destination="plain")
    async with world.client(keys["admin"]) as client, world.client(keys["viewer"]) as viewer:
        await client.patch("/destinations/plain", json={"mask": ["body"]})
        assert (await viewer.get(f"/messages/{one.id}/body")).content == b'"***"'
        assert "masking rules" in problem(await client.delete("/destinations/plain"), 409)["detail"]
        assert (await client.patch("/destinations/plain", json={"mask": []})).json()["mask"] == []
        assert (await viewer.get(f"/messages/{one.id}/body")).content == BODY
        assert (await client.delete("/destinations/plain")).status_code == 204


def test_of_each_field_of_an_attempt_it_is_known_whether_it_may_quote_the_message() -> None:
    # A field that is new here is one that Masks.trace must know of, or one that can say nothing of a message.
    harmless = {"id", "n", "by", "started_at", "duration", "phases", "status_code", "error", "node"}
    harmless |= {"generation", "taken_at", "batch", "is_late", "receipt"}
    assert set(Attempt.__struct_fields__) - harmless == {"response"}


async def test_who_sends_on_what_was_read_must_see_all_of_it(world: World, keys: dict[str, str]) -> None:
    catalog = world.registry.catalog
    Masks(catalog, VIEWER).require_whole("plain")
    Masks(catalog, ANYONE, unmasked=True).require_whole("orders")
    for masks in (Masks(catalog, VIEWER), Masks(catalog, ANYONE)):
        with pytest.raises(AccessDenied, match="masked"):
            masks.require_whole("orders")


@pytest.mark.parametrize("role", ["operator", "admin"])
async def test_an_attempt_its_curl_and_a_pretty_body_are_masked(world: World, keys: dict[str, str], role: str) -> None:
    one = await sent(world)
    paths = (f"/messages/{one.id}/deliveries/billing/attempts/1", f"/messages/{one.id}/body?as=pretty")
    async with world.client(keys[role]) as client:
        answers = [await client.get(path) for path in paths]
        edited = await client.post(f"/messages/{one.id}/edit", json={"body": {"card": "***"}, "reason": "x"})
        for path in paths:
            shown = await client.get(path, params={"as": "pretty", "unmasked": "true"})
            assert shown.status_code == (200 if role == "admin" else 403)
            assert ("4111111" in shown.text) is (role == "admin")
        logged = await world.services.audit.read(AuditQuery(what=paths[0].strip("/")), after=None, limit=9)
    assert len(logged.entries) == 1
    for answer in answers:
        assert answer.status_code == 200
        assert not [secret for secret in SECRETS if secret in answer.text]
    attempt = answers[0].json()
    assert attempt["masked"] is True
    assert "Authorization: ***" in attempt["request"]["curl"]
    assert (attempt["response"]["body"], attempt["response"]["status_code"]) == (None, 503)
    assert answers[1].headers["bus-masked"] == "true"
    assert "masked" in problem(edited, 403)["detail"]


@pytest.mark.parametrize("condition", [{"body_path": "card"}, {"text": "4111"}, {"header": "authorization: Basic x"}])
async def test_a_search_must_not_guess_hidden_values(
    world: World, keys: dict[str, str], condition: dict[str, str]
) -> None:
    await sent(world)
    await sent(world, 1, destination="plain")
    async with world.client(keys["operator"]) as client, world.client(keys["admin"]) as admin:
        for place in ({}, {"destination": "orders"}):
            asked = {**condition, **place}
            for path in ("/messages", "/messages/export"):
                for reader in (client, admin):
                    assert "without such rules" in problem(await reader.get(path, params=asked), 403)["hint"]
                assert (await admin.get(path, params={**asked, "unmasked": "true"})).status_code == 200
            problem(await client.post("/resends", json={"filter": asked, "dry_run": True}), 403)
            problem(await client.post("/resends", json={"filter": asked}), 403)
        assert (await client.get("/messages", params={**condition, "destination": "plain"})).status_code == 200
        assert (await client.get("/messages", params={"destination": "orders", "q": "x"})).status_code == 200


@pytest.mark.parametrize("options", [{}, {"bodies": "true"}, {"format": "csv"}])
async def test_an_export_is_masked(world: World, keys: dict[str, str], options: dict[str, str]) -> None:
    await sent(world)
    await sent(world, 1, body=b"<card>4111111</card>")
    async with world.client(keys["operator"]) as client, world.client(keys["admin"]) as admin:
        answer = await client.get("/messages/export", params=options)
        whole = await admin.get("/messages/export", params={**options, "unmasked": "true"})
    assert answer.status_code == 200
    assert not [secret for secret in SECRETS if secret in answer.text]
    if options == {"bodies": "true"}:
        withheld, masked = (json.loads(line) for line in answer.text.splitlines()[:2])
        assert "withheld" in withheld["body_withheld"]
        assert (masked["masked"], masked["body"]["card"]) == (True, {"number": "***"})
        assert masked["headers"] == {"Authorization": "***", "trace": "t-1"}
        assert "4111111" in whole.text


async def test_no_route_shows_what_is_hidden_without_the_log(world: World, keys: dict[str, str]) -> None:
    app = FastAPI()
    app.state.services = world.services

    @app.get("/careless")
    async def careless(masks: MasksDep) -> bool:
        return masks.unmasked

    headers = {"authorization": f"Bearer {keys['admin']}"}
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost", headers=headers) as client:
        assert (await client.get("/careless")).json() is False
        with pytest.raises(RuntimeError, match="AuditedRoute"):
            await client.get("/careless", params={"unmasked": "true"})


async def test_the_rules_are_in_the_log_of_changes(client: httpx.AsyncClient, orders: None) -> None:
    await client.patch("/destinations/orders", json={"mask": ["body.a"]})
    newest = (await client.get("/audit")).json()["items"][0]
    assert newest["changes"] == {"mask": {"before": [], "after": ["body.a"]}}
