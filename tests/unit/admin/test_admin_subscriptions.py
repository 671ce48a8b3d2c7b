"""Subscriptions over the admin API, their secrets among them."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from bus.domain.delivery.delivery import Status
from bus.domain.subscription import Secret
from bus.domain.tracing.events import Stage
from bus.testing.writes import message, outcome
from tests.unit.admin.admin_world import BILLING, SUBSCRIPTION, URL, World, made, problem


@pytest.mark.usefixtures("orders")
async def test_a_subscription_has_the_defaults_of_the_contract(world: World, client: httpx.AsyncClient) -> None:
    assert await made(client) == SUBSCRIPTION
    assert (await client.get(BILLING)).json() == SUBSCRIPTION
    assert (await client.get("/destinations/orders/subscriptions")).json() == {"items": [SUBSCRIPTION], "next": None}
    assert set(world.transport.lags() or {}) == {("orders", "billing")}


@pytest.mark.usefixtures("orders")
async def test_a_subscription_takes_every_field(client: httpx.AsyncClient) -> None:
    fields = {
        "name": "billing",
        "url": "https://example.com/a?b=c",
        "max_concurrency": 3,
        "rate": 0.5,
        "timeout_seconds": 0.25,
        "retry": {"first": "5s", "factor": 3.0, "max": "12h"},
        "retry_max_age": "1d",
        "retry_max_attempts": 7,
        "filter": "body.n > `3`",
        "headers": {"X-Tenant": "a"},
        "paused": True,
        "routing_pattern": "eu.*.shoes",
        "stuck_after": "90s",
        "batch": 100,
        "batch_format": "json",
    }
    expected = SUBSCRIPTION | fields | {"paused_reason": "paused by a person"}
    assert await made(client, **fields) == expected
    assert (await client.get(BILLING)).json() == expected


BAD_FIELDS: list[tuple[str, object]] = [
    *(
        ("nonsense", 1),
        ("batch", 101),
        ("batch", 0),
        ("batch", "2"),
        ("batch_format", "xml"),
        ("on_failure", "drop"),
        ("routing_pattern", ""),
        ("routing_pattern", "a..b"),
        ("routing_pattern", "a.b#"),
        ("routing_pattern", "a." * 128 + "a"),
        ("name", "other"),
    ),
    *(("name", "no way"), ("url", ""), ("url", "ftp://example.com/"), ("url", "http://user:secret@example.com/")),
    *(
        ("url", "http://10.0.0.1/"),
        ("url", "http://169.254.169.254/"),
        ("url", "example.com"),
        ("url", "http://[::ffff:10.0.0.1]/"),
    ),
    *(("url", 7), ("url", None), ("max_concurrency", 0), ("max_concurrency", 10_001), ("rate", 0), ("rate", "fast")),
    *(("timeout_seconds", 0), ("timeout_seconds", 0.0001), ("timeout_seconds", 601)),
    *(("retry", []), ("retry", ["soon"]), ("retry", ["9" * 400 + "d"]), ("retry", {"first": "5s"}), ("retry", "5s")),
    *(("retry", {"first": "5s", "factor": 0.5, "max": "1h"}), ("retry", {"first": "1h", "factor": 2, "max": "1m"})),
    *(("retry", ["5s"] * 101), ("retry_max_age", "x"), ("retry_max_age", "4000d"), ("retry_max_attempts", 0)),
    *(
        ("retry_max_attempts", 10**30),
        ("filter", "body."),
        ("filter", "(" * 5000),
        ("filter", 7),
        ("stuck_after", "never"),
    ),
    *(
        ("headers", {"host": "x"}),
        ("headers", {"a b": "x"}),
        ("headers", {"a": "x\r\ny: z"}),
        ("headers", {"bus-key": "x"}),
    ),
    *(("headers", {"accept-encoding": "gzip"}), ("headers", {f"x-{n}": "" for n in range(65)}), ("headers", {"a": 1})),
    *(("secret", "short"), ("secret", "whsec_x"), ("secret", "whsec_" + "A" * 8), ("secret", 7)),
]


@pytest.mark.parametrize(("field", "value"), BAD_FIELDS, ids=range(len(BAD_FIELDS)))
@pytest.mark.usefixtures("orders")
async def test_an_impossible_field_of_a_subscription_is_a_422(
    world: World, client: httpx.AsyncClient, field: str, value: object
) -> None:
    fields = {"url": URL} | {field: value}
    found = problem(await client.put(BILLING, json=fields), 422)
    assert found["field"].split(".")[0] == field
    assert "[" not in found["field"]
    problem(await client.get(BILLING), 404)
    assert world.transport.lags() == {}
    await made(client)
    found = problem(await client.patch(BILLING, json={field: value}), 422)
    assert found["field"].split(".")[0] == field
    assert (await client.get(BILLING)).json() == SUBSCRIPTION


async def test_a_rule_that_is_broken_is_said_in_our_words(client: httpx.AsyncClient) -> None:
    await client.put("/destinations/orders", json={})
    found = problem(await client.put(BILLING, json={"url": URL, "routing_pattern": "a.b#"}), 422, "routing_pattern")
    assert found["detail"].startswith("routing_pattern: ")
    assert "Value error" not in found["detail"]


@pytest.mark.usefixtures("orders")
async def test_a_url_is_needed(client: httpx.AsyncClient) -> None:
    problem(await client.put(BILLING, json={}), 422, "url")


async def test_a_subscription_needs_its_destination(client: httpx.AsyncClient) -> None:
    for method in ("GET", "PUT", "PATCH", "DELETE"):
        problem(await client.request(method, BILLING, json={"url": URL}), 404)
    problem(await client.post(f"{BILLING}/rotate-secret", json={}), 404)


@pytest.mark.parametrize("name", ["no%20way", ".x", "x" * 65])
@pytest.mark.usefixtures("orders")
async def test_an_impossible_name_is_a_422(client: httpx.AsyncClient, name: str) -> None:
    problem(await client.put(f"/destinations/orders/subscriptions/{name}", json={"url": URL}), 422, "name")


@pytest.mark.usefixtures("orders")
async def test_patch_keeps_what_is_not_sent(world: World, client: httpx.AsyncClient) -> None:
    first = await made(client, secret="auto", headers={"X-A": "1"}, retry=["7s"], filter="body", rate=3)
    secrets = world.registry.subscription("orders", "billing").secrets
    answer = await client.patch(BILLING, json={"max_concurrency": 2})
    assert answer.json() == first | {"max_concurrency": 2, "secret": "set"}
    assert world.registry.subscription("orders", "billing").secrets == secrets
    answer = await client.patch(
        BILLING, json={"filter": None, "rate": None, "retry": {"first": "1s", "factor": 2, "max": "1m"}}
    )
    assert answer.json()["filter"] is None
    assert answer.json()["retry"] == {"first": "1s", "factor": 2.0, "max": "1m"}
    assert answer.json()["headers"] == {"X-A": "1"}


@pytest.mark.usefixtures("orders")
async def test_patch_keeps_who_paused_and_when_it_was_made(world: World, client: httpx.AsyncClient) -> None:
    await made(client)
    created_at = world.registry.subscription("orders", "billing").created_at
    await world.registry.pause(("orders", "billing"), "the subscriber answered 410 Gone")
    await world.clock.advance(60)
    answer = (await client.patch(BILLING, json={"max_concurrency": 2})).json()
    assert (answer["paused"], answer["paused_reason"]) == (True, "the subscriber answered 410 Gone")
    answer = (await client.patch(BILLING, json={"paused": False})).json()
    assert (answer["paused"], answer["paused_reason"]) == (False, "")
    answer = (await client.patch(BILLING, json={"paused": True})).json()
    assert answer["paused_reason"] == "paused by a person"
    assert world.registry.subscription("orders", "billing").created_at == created_at


@pytest.mark.usefixtures("orders")
async def test_a_secret_is_shown_once_when_it_was_made(world: World, client: httpx.AsyncClient) -> None:
    first = await made(client, secret="auto")
    assert first["secret"].startswith("whsec_")
    assert world.registry.subscription("orders", "billing").secrets == (Secret(first["secret"]),)
    assert (await client.get(BILLING)).json()["secret"] == "set"
    assert (await made(client, secret="auto"))["secret"] == "set"
    assert world.registry.subscription("orders", "billing").secrets == (Secret(first["secret"]),)
    given = "whsec_" + "A" * 32
    assert (await made(client, secret=given))["secret"] == "set"
    assert world.registry.subscription("orders", "billing").secrets == (Secret(given),)
    assert (await client.patch(BILLING, json={"secret": None})).json()["secret"] is None
    assert world.registry.subscription("orders", "billing").secrets == ()


@pytest.mark.usefixtures("orders")
async def test_a_rotation_lets_both_sign_until_the_overlap_is_over(world: World, client: httpx.AsyncClient) -> None:
    old = (await made(client, secret="auto"))["secret"]
    answer = await client.post(f"{BILLING}/rotate-secret", json={"overlap": "1h"})
    assert answer.status_code == 200
    new = answer.json()["secret"]
    stored = world.registry.subscription("orders", "billing")
    assert stored.signing_secrets(world.clock.now() + 3_599_999) == [new, old]
    assert stored.signing_secrets(world.clock.now() + 3_600_000) == [new]
    await client.patch(BILLING, json={"max_concurrency": 3})
    assert world.registry.subscription("orders", "billing").secrets == stored.secrets
    third = (await client.post(f"{BILLING}/rotate-secret", json={})).json()["secret"]
    stored = world.registry.subscription("orders", "billing")
    assert stored.signing_secrets(world.clock.now() + 3_599_999) == [third, new, old]
    assert stored.signing_secrets(world.clock.now() + 86_399_999) == [third, new]
    for _ in range(2):
        await client.post(f"{BILLING}/rotate-secret", json={})
    refused = problem(await client.post(f"{BILLING}/rotate-secret", json={}), 409)
    assert "5 secrets sign already" in refused["detail"]
    assert "0s" in refused["hint"]
    await world.clock.advance(3_600)
    assert (await client.post(f"{BILLING}/rotate-secret", json={})).status_code == 200
    stored = world.registry.subscription("orders", "billing")
    assert len(stored.secrets) == 5
    assert old not in stored.signing_secrets(world.clock.now())
    only = (await client.post(f"{BILLING}/rotate-secret", json={"overlap": "0s"})).json()["secret"]
    stored = world.registry.subscription("orders", "billing")
    assert [secret.value for secret in stored.secrets] == [only]
    problem(await client.post(f"{BILLING}/rotate-secret", json={"overlap": "soon"}), 422, "overlap")
    problem(await client.post(f"{BILLING}/rotate-secret", json={"nonsense": 1}), 422, "nonsense")
    problem(await client.post("/destinations/orders/subscriptions/nobody/rotate-secret", json={}), 404)


@pytest.mark.usefixtures("orders")
async def test_a_rotation_makes_the_first_secret_as_well(client: httpx.AsyncClient) -> None:
    await made(client)
    assert (await client.post(f"{BILLING}/rotate-secret", json={})).json()["secret"].startswith("whsec_")


@pytest.mark.usefixtures("orders")
async def test_removing_a_subscription_cancels_what_is_open(world: World, client: httpx.AsyncClient) -> None:
    await made(client)
    states = [Status.PENDING, Status.RETRYING, Status.DELIVERED, Status.DEAD]
    sent = await world.written(4, *states)
    await world.clock.advance(1)
    assert (await client.delete(BILLING)).status_code == 204
    found = [(await world.delivery(one.id)) for one in sent]
    assert [one.status for one in found] == [Status.CANCELED, Status.CANCELED, Status.DELIVERED, Status.DEAD]
    assert found[0].reason == "subscription removed"
    assert {(event.id, event.subscription, event.status) for event in world.events.of(Stage.SETTLED)} == {
        (one.id, "billing", "canceled") for one in sent[:2]
    }
    assert await world.rows() == []
    assert world.transport.lags() == {}
    for method in ("GET", "DELETE"):
        problem(await client.request(method, BILLING), 404)


@pytest.mark.usefixtures("orders")
async def test_a_subscription_that_is_made_again_meanwhile_keeps_its_deliveries(
    world: World, client: httpx.AsyncClient
) -> None:
    await made(client)
    (old,) = await world.written(1, Status.RETRYING)
    await world.clock.advance(1)
    new = message(1_500, expected=("billing",))
    plain = world.store.cancel

    async def slowly(*of: Any) -> int:
        await world.clock.advance(1)
        await made(client)
        await world.store.write([new, outcome(new, "billing", Status.RETRYING)])
        return await plain(*of)

    world.store.cancel = slowly
    assert (await client.delete(BILLING)).status_code == 204
    assert (await world.delivery(old.id)).status is Status.CANCELED
    assert (await world.delivery(new.id)).status is Status.RETRYING
    assert [found.message_id for found in await world.rows()] == [new.id]


@pytest.mark.parametrize(("role", "value"), [("viewer", "***"), ("operator", "***"), ("admin", "Bearer hidden")])
async def test_values_of_headers_are_shown_to_who_may_set_them(
    world: World, client: httpx.AsyncClient, orders: None, role: str, value: str
) -> None:
    await made(client, headers={"Authorization": "Bearer hidden"})
    key = await world.keyring.create_key(roles=(role,))
    async with world.client(key) as reader:
        answers = [await reader.get(BILLING), await reader.get("/destinations/orders/subscriptions")]
        if role != "viewer":
            answers.append(await reader.patch(BILLING, json={"paused": True}))
    for answer in answers:
        assert answer.status_code == 200
        assert ("Bearer hidden" in answer.text) is (role == "admin")
    assert answers[0].json()["headers"] == {"Authorization": value}
    assert world.registry.subscription("orders", "billing").headers == {"Authorization": "Bearer hidden"}
