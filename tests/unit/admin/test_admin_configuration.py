"""Rules of every configuration over the admin API: bodies, conflicts, refusing brokers, the store, restarts."""

from __future__ import annotations

import httpx
import pytest

from bus.domain.destination import TransportName
from bus.errors import TransportRefused
from bus.testing.transport import MemoryTransport
from tests.unit.admin.admin_world import BILLING, SUBSCRIPTION, URL, World, made, problem, put


@pytest.mark.parametrize("content", [b"{", b"", b"[1", b"\xff"])
@pytest.mark.usefixtures("orders")
async def test_what_is_no_json_is_a_400(client: httpx.AsyncClient, content: bytes) -> None:
    headers = {"content-type": "application/json"}
    for method in ("PUT", "PATCH"):
        answer = await client.request(method, "/destinations/orders", content=content, headers=headers)
        problem(answer, 422 if content == b"" else 400)


@pytest.mark.parametrize("content", [b"[]", b"1", b"null", b'"x"'])
@pytest.mark.usefixtures("orders")
async def test_what_is_no_object_is_a_422(client: httpx.AsyncClient, content: bytes) -> None:
    headers = {"content-type": "application/json"}
    for method in ("PUT", "PATCH"):
        problem(await client.request(method, "/destinations/orders", content=content, headers=headers), 422)


@pytest.mark.parametrize("number", ["Infinity", "-Infinity", "NaN", "1e999"])
@pytest.mark.usefixtures("orders")
async def test_a_number_without_end_is_refused(client: httpx.AsyncClient, number: str) -> None:
    headers = {"content-type": "application/json"}
    content = f'{{"store_rate": {number}}}'
    problem(await client.put("/destinations/orders", content=content, headers=headers), 422, "store_rate")
    problem(await client.patch("/destinations/orders", content=content, headers=headers), 422, "store_rate")
    content = f'{{"url": "{URL}", "rate": {number}}}'
    problem(await client.put(BILLING, content=content, headers=headers), 422, "rate")
    content = f'{{"filter": {{}}, "rate": {number}}}'
    problem(await client.post("/resends", content=content, headers=headers), 422, "rate")
    problem(await client.put("/rates", content=f'{{"receiver": {number}}}', headers=headers), 422, "receiver")


async def test_what_is_not_there_and_what_is_not_done_there(client: httpx.AsyncClient) -> None:
    found = problem(await client.get("/nothing"), 404)
    assert (found["detail"], found["hint"]) == ("there is nothing at this path", "see /openapi.json")
    answer = await client.post("/destinations/orders", json={})
    problem(answer, 405)
    assert set(answer.headers["allow"].split(", ")) >= {"GET"}


@pytest.mark.usefixtures("orders")
async def test_of_two_changes_at_once_none_is_lost_unsaid(world: World, client: httpx.AsyncClient) -> None:
    await made(client)
    known = world.registry.subscription("orders", "billing")
    await world.registry.pause(("orders", "billing"), "410")
    world.registry.catalog.subscriptions["orders", "billing"] = known
    problem(await client.patch(BILLING, json={"max_concurrency": 2}), 409)


class Choosy(MemoryTransport):
    """A broker that does not let the bus make some queues, or does not answer."""

    def __init__(self) -> None:
        super().__init__("kafka")
        self.refused: set[str] = set()

    async def ensure(self, destination, subscriptions):
        if self.refused & {found.name for found in subscriptions}:
            raise TransportRefused("the queue is there with other settings", hint="delete it")
        await super().ensure(destination, subscriptions)


async def test_what_a_broker_refuses_is_taken_back() -> None:
    kafka = Choosy()
    world = World(kafka)
    kafka.refused = {"billing"}
    async with world.client() as client:
        await client.put("/destinations/orders", json={"transport": "kafka"})
        found = problem(await client.put(BILLING, json={"url": URL}), 409)
        assert ("other settings; nothing was changed" in found["detail"], found["hint"]) == (True, "delete it")
        assert (await client.get(BILLING)).status_code == 404
        await client.put("/destinations/orders", json={"transport": "direct"})
        await made(client)
        problem(await client.put("/destinations/orders", json={"transport": "kafka"}), 409)
        assert world.registry.destination("orders").transport is TransportName.DIRECT
        kafka.refused = set()
        assert (await client.put("/destinations/orders", json={"transport": "kafka"})).status_code == 200


async def test_a_broker_that_refused_before_or_is_away_holds_up_no_change() -> None:
    kafka = Choosy()
    world = World(kafka)
    async with world.client() as client:
        await client.put("/destinations/orders", json={"transport": "kafka"})
        kafka.unreachable = True
        await made(client)
        kafka.unreachable, kafka.refused = False, {"billing"}
        await world.context.router.apply(world.registry.catalog)
        assert (await client.patch(BILLING, json={"paused": True})).json()["paused"]


@pytest.mark.usefixtures("orders")
async def test_a_store_that_is_down_is_a_503_with_when_to_come_again(world: World, client: httpx.AsyncClient) -> None:
    world.store.down = True
    answer = await put(client)
    problem(answer, 503)
    assert answer.headers["retry-after"] == "1"
    assert (await client.get("/destinations/orders")).status_code == 200


async def test_what_is_configured_is_there_after_a_restart(world: World) -> None:
    async with world.client() as client:
        await client.put("/destinations/orders", json={"retention_days": 3})
        await made(client, rate=2)
    world.restart()
    await world.registry.load()
    async with world.client() as client:
        assert (await client.get(BILLING)).json() == SUBSCRIPTION | {"rate": 2.0}
        await made(client)


@pytest.mark.usefixtures("orders")
async def test_statuses_that_end_a_delivery_are_kept_and_checked(world: World, client: httpx.AsyncClient) -> None:
    answer = await client.put(BILLING, json={"url": URL, "dead_on": [422, 400]})
    assert answer.json()["dead_on"] == [400, 422]
    assert world.registry.subscription("orders", "billing").dead_on == (400, 422)
    for wrong in ([410], [429], [200], ["422"], list(range(430, 447))):
        answer = await client.put(BILLING, json={"url": URL, "dead_on": wrong})
        assert answer.status_code == 422
        assert "dead_on" in answer.text
