"""Allowed actions, with reasons where not, equal to the refusals of the routes."""

from __future__ import annotations

import dataclasses
from typing import Any

import httpx
import pytest

from bus.security.egress import EgressPolicy
from tests.unit.admin.admin_world import BILLING, URL, World, problem

ALLOWED = {"allowed": True, "why": "", "why_text": None, "hint": "", "hint_text": None}
DENIED = {"allowed": False}


@pytest.fixture
async def world() -> World:
    world = World()
    async with world.client() as client:
        await client.put("/destinations/orders", json={})
        await client.put(BILLING, json={"url": URL})
        await client.put("/destinations/empty", json={})
    return world


async def get(client: httpx.AsyncClient, path: str) -> dict[str, Any]:
    answer = await client.get(path)
    assert answer.status_code == 200, answer.text
    return answer.json()


def said(verdict: dict[str, Any]) -> dict[str, Any]:
    """Return a refusal in English; it can be said in other languages too."""
    assert verdict["why"] == verdict["why_text"]["template"].format(**verdict["why_text"]["values"])
    assert verdict["hint"] == verdict["hint_text"]["template"].format(**verdict["hint_text"]["values"])
    return {name: value for name, value in verdict.items() if not name.endswith("_text")}


async def test_a_destination_with_subscriptions_is_not_removed(client: httpx.AsyncClient) -> None:
    found = await get(client, "/destinations/orders/actions")
    refused = problem(await client.delete("/destinations/orders"), 409)
    assert found["remove"] == {
        **DENIED,
        "why": refused["detail"],
        "why_text": {"template": "{code} still has subscriptions", "values": {"code": "'orders'"}},
        "hint": refused["hint"],
        "hint_text": {"template": refused["hint"], "values": {}},
    }
    assert {name: refused[name] for name in ("detail_text", "hint_text")} == {
        "detail_text": found["remove"]["why_text"],
        "hint_text": found["remove"]["hint_text"],
    }
    assert (await get(client, "/destinations/empty/actions"))["remove"] == ALLOWED
    assert (await client.delete("/destinations/empty")).status_code == 204


async def test_a_transport_that_is_not_set_up_is_not_switched_to(client: httpx.AsyncClient) -> None:
    found = (await get(client, "/destinations/orders/actions"))["switch"]
    assert set(found) == {"kafka", "rabbitmq", "nsq"}
    for name, verdict in found.items():
        refused = problem(await client.patch("/destinations/orders", json={"transport": name}), 422, "transport")
        assert said(verdict) == {**DENIED, "why": refused["detail"], "hint": refused["hint"]}


async def test_without_a_dispatcher_there_is_no_sample(world: World, client: httpx.AsyncClient) -> None:
    assert (await get(client, f"{BILLING}/actions"))["sample"] == ALLOWED
    me = world.context.members.me
    world.context.members._me = me.__class__(
        owner=me.owner, node="n", url="u", roles=("admin",), version="1", started_at=0
    )
    refused = problem(await client.post(f"{BILLING}/sample", json={"body": 1}), 503)
    found = (await get(client, f"{BILLING}/actions"))["sample"]
    assert said(found) == {**DENIED, "why": refused["detail"], "hint": refused["hint"]}


async def test_a_url_that_is_denied_by_now_stops_what_calls_it(world: World, client: httpx.AsyncClient) -> None:
    world.services.context = dataclasses.replace(world.context, egress=EgressPolicy())
    found = await get(client, f"{BILLING}/actions")
    asked = {
        "sample": ("POST", f"{BILLING}/sample", {"body": 1}),
        "resume": ("PATCH", BILLING, {"paused": False}),
        "pause": ("PATCH", BILLING, {"paused": True}),
    }
    for name, (method, path, body) in asked.items():
        refused = problem(await client.request(method, path, json=body), 422, "url")
        assert found[name]["why"] == refused["detail"]
    assert found["remove"] == found["change"] == ALLOWED


DONE_BY = {
    "/destinations/orders/actions": {
        "change": ("PATCH", "/destinations/orders", {"paused": False}),
        "pause": ("PATCH", "/destinations/orders", {"paused": False}),
        "add_subscription": ("PUT", "/destinations/orders/subscriptions/new", {"url": URL}),
        "remove": ("DELETE", "/destinations/orders", None),
    },
    f"{BILLING}/actions": {
        "change": ("PATCH", BILLING, {"rate": 5}),
        "pause": ("PATCH", BILLING, {"paused": True}),
        "resume": ("PATCH", BILLING, {"paused": False}),
        "rotate": ("POST", f"{BILLING}/rotate-secret", {}),
        "remove": ("DELETE", BILLING, None),
    },
}


@pytest.mark.parametrize("role", ["viewer", "operator", "admin"])
async def test_who_may_not_do_it_is_told_so_and_the_routes_agree(world: World, role: str) -> None:
    async with world.client() as client:
        await client.delete("/destinations/empty")
    await world.keyring.create_key(roles=("admin",))
    key = await world.keyring.create_key(roles=(role,))
    async with world.client(key) as client:
        for path, actions in DONE_BY.items():
            found = await get(client, path)
            for name, (method, place, body) in actions.items():
                answer = await client.request(method, place, json=body)
                assert found[name]["allowed"] is answer.is_success, (name, found[name], answer.text)
                if not answer.is_success:
                    assert found[name]["why"] == answer.json()["detail"], name
            assert found["resend"]["allowed"] is (role != "viewer")


async def test_a_limited_key_asks_about_its_own(world: World) -> None:
    await world.keyring.create_key(roles=("admin",))
    key = await world.keyring.create_key(roles=("operator",), destinations=("orders",))
    async with world.client(key) as client:
        assert (await get(client, f"{BILLING}/actions"))["pause"] == ALLOWED
        problem(await client.get("/destinations/empty/actions"), 403)


async def test_what_is_not_there_has_no_actions(client: httpx.AsyncClient) -> None:
    for path in ("/destinations/none/actions", "/destinations/orders/subscriptions/none/actions"):
        problem(await client.get(path), 404)


@pytest.mark.parametrize(
    ("field", "value", "template", "values"),
    [
        ("retention_days", 0, "expected {ge} or more", {"ge": 1}),
        ("mask", ["x"], None, {"rule": "'x'"}),
    ],
)
async def test_a_value_that_is_refused_can_be_said_in_another_language(
    client: httpx.AsyncClient, field: str, value: object, template: str | None, values: dict[str, Any]
) -> None:
    refused = problem(await client.put("/destinations/empty", json={field: value}), 422, field)
    told = refused["detail_text"]
    assert (told["template"], told["values"]["field"]) == ("{field}: {why}", field)
    why = told["values"]["why"]
    assert template in (None, why["template"])
    assert why["values"] == values
    assert refused["detail"] == f"{field}: {why['template'].format(**why['values'])}"


@pytest.mark.parametrize(
    ("field", "value", "why"),
    [
        ("retention_days", "x", "expected a whole number"),
        ("retention_days", 1.5, "expected a whole number"),
        ("rate", "x", "expected a number"),
        ("rate", 0, "expected more than 0"),
        ("spool_share", 2, "expected 1 or less"),
        ("paused", 1, "expected true or false"),
        ("transport", "post", "expected 'direct', 'kafka', 'rabbitmq' or 'nsq'"),
        ("owner", "a b", "expected a text that matches '^[A-Za-z0-9_.@+-]*$'"),
        ("owner", "a" * 65, "expected 64 characters at most"),
        ("owner", None, "expected text"),
        ("mask", "x", "expected a list"),
        ("mask", ["body.a"] * 1000, "entries at most"),
        ("colour", 1, "there is no such field"),
    ],
)
async def test_what_is_expected_of_a_field_is_said_in_the_words_of_the_bus(
    client: httpx.AsyncClient, field: str, value: object, why: str
) -> None:
    refused = problem(await client.put("/destinations/empty", json={field: value}), 422, field)
    assert refused["detail"].startswith(f"{field}: ")
    assert refused["detail"].endswith(why)


async def test_a_path_of_nothing_can_be_said_in_another_language(client: httpx.AsyncClient) -> None:
    refused = problem(await client.get("/nothing"), 404)
    assert refused["detail_text"] == {"template": refused["detail"], "values": {}}
