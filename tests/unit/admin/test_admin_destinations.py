"""Destinations over the admin API."""

from __future__ import annotations

import httpx
import pytest

from bus.domain.delivery.delivery import Origin
from bus.domain.destination import FORMER_KEPT, FormerTransport, Ordering, TransportName
from bus.testing.transport import MemoryTransport
from bus.testing.writes import message, row
from tests.unit.admin.admin_world import BILLING, World, made, problem

DESTINATION = {
    "code": "orders",
    "transport": "direct",
    "cluster": None,
    "routing": None,
    "ordering": "none",
    "retention_days": 30,
    "store_rate": None,
    "spool_share": 0.66,
    "rate": None,
    "burst": None,
    "max_bytes": 1_048_576,
    "paused": False,
    "traced": False,
    "refuse_unchecked_keys": False,
    "owner": "",
    "pv_min": None,
    "pv_max": None,
    "mask": [],
}


async def test_a_destination_has_the_defaults_of_the_contract(client: httpx.AsyncClient) -> None:
    assert (await client.put("/destinations/orders", json={})).json() == DESTINATION
    assert (await client.get("/destinations/orders")).json() == DESTINATION
    await client.put("/destinations/a.b", json={"code": "a.b"})
    answer = (await client.get("/destinations")).json()
    assert [item["code"] for item in answer["items"]] == ["a.b", "orders"]
    assert answer["next"] is None


async def test_a_destination_takes_what_is_sent_and_put_resets_the_rest(client: httpx.AsyncClient) -> None:
    fields = {
        "retention_days": 3,
        "store_rate": 2.5,
        "spool_share": 0.25,
        "rate": 5.0,
        "burst": 9,
        "max_bytes": 100,
        "paused": True,
        "traced": True,
    }
    assert (await client.put("/destinations/orders", json=fields)).json() == DESTINATION | fields
    assert (await client.put("/destinations/orders", json={"max_bytes": 7})).json() == DESTINATION | {"max_bytes": 7}


async def test_patch_changes_only_what_is_sent(client: httpx.AsyncClient) -> None:
    await client.put("/destinations/orders", json={"retention_days": 3, "paused": True})
    answer = await client.patch("/destinations/orders", json={"paused": False})
    assert answer.json() == DESTINATION | {"retention_days": 3}
    assert (await client.patch("/destinations/orders", json={})).json() == DESTINATION | {"retention_days": 3}
    problem(await client.patch("/destinations/nowhere", json={"paused": True}), 404)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *(("nonsense", 1), ("transport", "kafka"), ("ordering", "keys"), ("ordering", "strict"), ("cluster", "x")),
        *(("retention_days", 0), ("retention_days", 3651), ("retention_days", "x"), ("retention_days", 1.5)),
        *(
            ("spool_share", 0),
            ("spool_share", 1.5),
            ("rate", 0),
            ("burst", 0),
            ("burst", 1.5),
            ("store_rate", 0),
            ("store_rate", -1),
            ("max_bytes", 0),
            ("max_bytes", 16 * 2**20 + 1),
            ("paused", "perhaps"),
            ("traced", "perhaps"),
            ("mask", "body"),
            ("mask", ["bodies"]),
            ("mask", ["body"] * 101),
        ),
        *(("code", "other"), ("code", "no way"), ("code", ""), ("code", None)),
    ],
)
@pytest.mark.parametrize("method", ["PUT", "PATCH"])
@pytest.mark.usefixtures("orders")
async def test_an_impossible_field_of_a_destination_is_a_422(
    client: httpx.AsyncClient, method: str, field: str, value: object
) -> None:
    problem(await client.request(method, "/destinations/orders", json={field: value}), 422, field)
    assert (await client.get("/destinations/orders")).json() == DESTINATION


@pytest.mark.parametrize("code", ["no%20way", ".x", "-x", "%C3%A9", "x" * 129])
async def test_an_impossible_code_is_a_422(client: httpx.AsyncClient, code: str) -> None:
    for method in ("GET", "PUT", "PATCH", "DELETE"):
        problem(await client.request(method, f"/destinations/{code}", json={}), 422, "code")


@pytest.mark.usefixtures("orders")
async def test_a_destination_is_removed_once_it_is_empty(world: World, client: httpx.AsyncClient) -> None:
    await made(client)
    problem(await client.delete("/destinations/orders"), 409)
    await client.delete(BILLING)
    later = message(1, destination="orders", deliver_at=2**42)
    await world.store.compensate([row(later, "", by=Origin.TRANSPORT)])
    await world.clock.advance(1)
    assert (await client.delete("/destinations/orders")).status_code == 204
    for method in ("GET", "DELETE"):
        problem(await client.request(method, "/destinations/orders"), 404)
    problem(await client.get("/destinations/orders/subscriptions"), 404)
    assert await world.rows() == []


async def test_a_change_of_transport_keeps_the_former_one() -> None:
    world = World(MemoryTransport("kafka"))
    direct, kafka = TransportName.DIRECT, TransportName.KAFKA
    until = world.clock.now() + FORMER_KEPT

    def former() -> tuple[FormerTransport, ...]:
        return world.registry.destination("orders").former

    async with world.client() as client:
        await client.put("/destinations/orders", json={})
        await made(client)
        assert former() == ()
        assert (await client.put("/destinations/orders", json={"transport": "kafka"})).status_code == 200
        assert former() == (FormerTransport(direct, until),)
        await world.clock.advance(60)
        await client.patch("/destinations/orders", json={"paused": True})
        await client.put("/destinations/orders", json={"transport": "kafka"})
        assert former() == (FormerTransport(direct, until),)
        await client.patch("/destinations/orders", json={"transport": "direct"})
        assert former() == (FormerTransport(kafka, until + 60_000),)
    for transport in (world.transport, *world.brokers):
        assert ("orders", "billing") in (transport.lags() or {})


async def test_an_order_is_kept_on_the_transport_that_it_began_on(world: World, client: httpx.AsyncClient) -> None:
    answer = await client.put("/destinations/orders", json={"ordering": "key"})
    assert (answer.status_code, answer.json()["ordering"]) == (200, "key")
    problem(await client.put("/destinations/orders", json={"ordering": "strict"}), 422, "ordering")
    problem(await client.put("/destinations/orders", json={"ordering": "key", "transport": "kafka"}), 422, "transport")
    assert world.context.registry.destination("orders").ordering is Ordering.KEY


async def test_an_order_and_batches_exclude_each_other(client: httpx.AsyncClient) -> None:
    await client.put("/destinations/orders", json={"ordering": "key"})
    path, fields = "/destinations/orders/subscriptions/billing", {"url": "http://127.0.0.1:9000/hook"}
    problem(await client.put(path, json=fields | {"batch": 2}), 422, "batch")
    assert (await client.put(path, json=fields | {"on_failure": "park"})).json()["on_failure"] == "park"
    await client.patch("/destinations/orders", json={"ordering": "none"})
    assert (await client.patch(path, json={"batch": 2})).status_code == 200
    problem(await client.patch("/destinations/orders", json={"ordering": "key"}), 422, "batch")
    document = (await client.get("/configuration")).json()
    document["destinations"][0] |= {"ordering": "key", "subscriptions": []}
    problem(await client.put("/configuration", json=document), 422, "destinations.0.batch")
    answer = await client.put("/configuration", params={"prune": True}, json=document)
    assert answer.status_code == 200, answer.text
