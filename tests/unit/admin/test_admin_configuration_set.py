"""The whole configuration as one set: what differs is said and done, what is not named stays."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from bus.domain.destination import TransportName
from bus.errors import TransportRefused
from bus.testing.transport import MemoryTransport
from tests.unit.admin.admin_world import World, problem

WHERE = "/configuration"
URL = "http://127.0.0.1:8000/hook"
BILLING = {"name": "billing", "url": URL, "secret": "auto", "headers": {"x-token": "t"}}
MAIL = {"name": "mail", "url": URL, "retry": {"first": "5s", "factor": 3, "max": "1h"}}
ORDERS = {"code": "orders", "retention_days": 9, "subscriptions": [BILLING, MAIL]}
SET = {
    "destinations": [ORDERS, {"code": "paid"}],
    "rates": {"receiver": 100, "dispatcher": None},
}


def changes(answer: httpx.Response) -> list[tuple[str, str]]:
    assert answer.status_code == 200, answer.text
    return [(change["change"], change["resource"]) for change in answer.json()["changes"]]


async def test_a_set_is_put_and_what_is_exported_of_it_differs_in_nothing(
    world: World, client: httpx.AsyncClient
) -> None:
    dry = await client.put(WHERE, params={"dry_run": True}, json=SET)
    assert ("made", "destinations/orders/subscriptions/billing") in changes(dry)
    assert not world.registry.catalog.destinations
    answer = await client.put(WHERE, json=SET)
    assert changes(answer) == changes(dry)
    assert answer.json()["secrets"].keys() == {"orders/billing"}
    known = world.registry.subscription("orders", "billing")
    exported = (await client.get(WHERE)).json()
    assert exported["version"] == answer.json()["version"]
    assert "secret" not in str(exported)
    assert exported["destinations"][0]["subscriptions"][0]["headers"] == {"x-token": "t"}
    assert changes(await client.put(WHERE, params={"prune": True}, json=exported)) == []
    assert world.registry.subscription("orders", "billing") == known
    assert world.registry.rates.receiver == 100


async def test_what_is_not_named_stays_until_it_is_pruned_and_what_waits_is_said(
    world: World, client: httpx.AsyncClient
) -> None:
    await client.put(WHERE, json=SET)
    await world.registry.pause(("orders", "billing"), "paused by a person")
    smaller: dict[str, Any] = {"destinations": [{"code": "orders", "subscriptions": [BILLING]}]}
    assert changes(await client.put(WHERE, json=smaller)) == [("changed", "destinations/orders")]
    assert world.registry.subscription("orders", "billing").paused
    pruned = await client.put(WHERE, params={"prune": True}, json=smaller)
    assert changes(pruned) == [("removed", "destinations/orders/subscriptions/mail"), ("removed", "destinations/paid")]
    assert pruned.json()["changes"][0]["waiting"] == 0
    assert world.registry.catalog.names("orders") == ("billing",)
    assert set(world.registry.catalog.destinations) == {"orders"}


async def test_a_set_with_a_fault_changes_nothing_and_says_where_it_is(world: World, client: httpx.AsyncClient) -> None:
    for subscription, at in (
        ({"name": "b", "url": "ftp://x"}, "destinations.0.subscriptions.1.url"),
        ({"name": "b", "url": URL, "filter": "["}, "destinations.0.subscriptions.1.filter"),
        ({"name": "a", "url": URL}, "destinations.0.subscriptions.1.name"),
    ):
        body = {"destinations": [{"code": "orders", "subscriptions": [{"name": "a", "url": URL}, subscription]}]}
        problem(await client.put(WHERE, json=body), 422, at)
    assert not world.registry.catalog.destinations


async def test_a_set_made_from_an_older_version_is_refused(client: httpx.AsyncClient) -> None:
    await client.put(WHERE, json=SET)
    exported = (await client.get(WHERE)).json()
    await client.put("/destinations/later", json={})
    problem(await client.put(WHERE, json=exported), 409)
    assert changes(await client.put(WHERE, json={**exported, "version": None})) == []


async def test_each_resource_is_in_the_audit_log(client: httpx.AsyncClient) -> None:
    await client.put(WHERE, json=SET)
    entries = (await client.get("/audit")).json()["items"]
    found = {(entry["method"], entry["resource"], entry["status"]) for entry in entries}
    assert ("PUT", "configuration", 200) in found
    assert ("PUT", "destinations/orders/subscriptions/billing", 200) in found
    assert "whsec" not in str(entries)


async def test_one_who_may_not_configure_puts_nothing(world: World) -> None:
    key = await world.keyring.create_key(roles=("operator",), destinations=("orders",))
    async with world.client(key) as client:
        problem(await client.put(WHERE, json=SET), 403)
        problem(await client.get(WHERE), 403)
    assert not world.registry.catalog.destinations


async def test_a_store_that_fails_in_the_middle_is_told_and_the_set_can_be_put_again(
    world: World, client: httpx.AsyncClient
) -> None:
    world.store.left = 4
    said = problem(await client.put(WHERE, json=SET), 503)
    assert "put the same set again" in said["hint"]
    world.store.left, world.store.down = None, False
    await world.registry.refresh()
    assert changes(await client.put(WHERE, json=SET))
    assert changes(await client.put(WHERE, json=SET)) == []


async def test_queues_that_a_broker_refuses_undo_the_whole_set(monkeypatch: pytest.MonkeyPatch) -> None:
    kafka = MemoryTransport(TransportName.KAFKA)
    world = World(kafka)
    async with world.client() as client:

        async def refuse(*_: object) -> None:
            raise TransportRefused("the topic has other settings")

        monkeypatch.setattr(kafka, "ensure", refuse)
        body = {"destinations": [{**ORDERS, "transport": "kafka"}, {"code": "paid"}]}
        problem(await client.put(WHERE, json=body), 409)
        assert not world.registry.catalog.destinations
        assert not world.registry.catalog.subscriptions
