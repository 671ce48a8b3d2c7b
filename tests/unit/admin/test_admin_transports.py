"""The progress of a destination's move to another transport, with its unknowns."""

from __future__ import annotations

from typing import Any

import httpx
import msgspec
import pytest

from bus.cluster.member import COLLECTION, Member
from bus.domain.destination import switched
from bus.domain.times import DAY
from bus.ports.spool import NewRecord
from bus.ports.transport import Lag
from bus.testing.transport import MemoryTransport
from bus.testing.writes import NOON
from tests.unit.admin.admin_world import URL, World, problem

PATH = "/destinations/orders/transports"
BILLING, MAIL = ("orders", "billing"), ("orders", "mail")


class Broker(MemoryTransport):
    """A broker that holds what the test says; None while it does not answer."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self._name = name
        self.figures: dict[tuple[str, str], Lag] | None = {}
        self.trouble = ""

    @property
    def name(self) -> str:
        return self._name

    def lags(self) -> dict[tuple[str, str], Lag] | None:
        return self.figures

    def conditions(self) -> dict[str, str]:
        return {self._name: self.trouble}


@pytest.fixture
def kafka() -> Broker:
    return Broker("kafka")


@pytest.fixture
def nsq() -> Broker:
    return Broker("nsq")


@pytest.fixture
async def world(kafka: Broker, nsq: Broker) -> World:
    world = World(kafka, nsq)
    async with world.client() as client:
        await client.put("/destinations/orders", json={"transport": "kafka"})
        for name in ("billing", "mail"):
            await client.put(f"/destinations/orders/subscriptions/{name}", json={"url": URL})
    return world


async def tell(world: World, owner: str, **fields: Any) -> None:
    plain: dict[str, Any] = {"roles": ("receiver",), "node": owner, "url": "http://127.0.0.1:1", "version": "1"}
    member = Member(owner=owner, **{"started_at": NOON, "revision": world.registry.revision, **plain, **fields})
    await world.store.put(COLLECTION, owner, msgspec.json.encode(member))
    await world.context.members.step()


async def switch(world: World, name: str = "nsq") -> None:
    """Switch as a route does, without waiting for processes that do not exist."""
    known = world.registry.destination("orders")
    changed = msgspec.structs.replace(known, transport=name)
    await world.registry.put_destination(switched(known, changed, world.clock.now()))


async def transports(client: httpx.AsyncClient) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    answer = await client.get(PATH)
    assert answer.status_code == 200, answer.text
    found = answer.json()
    return found, {transport["transport"]: transport for transport in found["items"]}


async def test_before_a_switch_there_is_the_present_transport_and_the_fallback(
    world: World, client: httpx.AsyncClient, kafka: Broker
) -> None:
    kafka.figures = {BILLING: Lag(7, NOON)}
    found, by_name = await transports(client)
    assert {name: transport["role"] for name, transport in by_name.items()} == {
        "kafka": "present",
        "direct": "fallback",
    }
    assert (found["transport"], found["since"], found["complete"]) == ("kafka", None, True)
    assert by_name["kafka"]["subscriptions"] == [
        {"subscription": "billing", "waiting": 7, "oldest": "2026-11-21T12:00:00.000Z"},
        {"subscription": "mail", "waiting": 0, "oldest": None},
    ]
    assert by_name["kafka"]["drained"] is False
    assert by_name["direct"]["drained"] is True


async def test_a_switch_is_complete_when_the_old_transport_is_empty_and_receivers_have_confirmed(
    world: World, client: httpx.AsyncClient, kafka: Broker
) -> None:
    await tell(world, "r1", unpublished={"orders": NOON + 9})
    kafka.figures = {BILLING: Lag(7, NOON), MAIL: Lag(0, None)}
    await switch(world)
    found, by_name = await transports(client)
    assert [(transport["transport"], transport["role"]) for transport in found["items"]] == [
        ("nsq", "present"),
        ("kafka", "former"),
        ("direct", "fallback"),
    ]
    assert (found["since"], found["unpublished_since"]) == ("2026-11-21T12:00:00.000Z", "2026-11-21T12:00:00.009Z")
    assert by_name["kafka"]["left_at"] == "2026-11-21T12:00:00.000Z"
    assert by_name["kafka"]["attached_until"] == "2026-11-22T12:00:00.000Z"
    assert by_name["kafka"]["drained"] is found["complete"] is False
    assert (found["receivers"]["alive"], found["receivers"]["confirmed"]) == (1, 0)
    kafka.figures = {}
    found, by_name = await transports(client)
    assert by_name["kafka"]["drained"] is True
    assert found["complete"] is False
    await tell(world, "r1")
    found, _ = await transports(client)
    assert found["receivers"]["items"][0]["confirmed"] is found["complete"] is True


async def test_while_a_broker_does_not_say_it_is_not_known(
    world: World, client: httpx.AsyncClient, kafka: Broker
) -> None:
    await switch(world)
    kafka.figures, kafka.trouble = None, "no answer"
    found, by_name = await transports(client)
    assert found["complete"] is by_name["kafka"]["drained"] is None
    assert [line["waiting"] for line in by_name["kafka"]["subscriptions"]] == [None, None]
    assert by_name["kafka"]["trouble"] == "kafka: no answer"


async def test_a_transport_that_is_not_set_up_here_is_not_known(world: World, client: httpx.AsyncClient) -> None:
    await switch(world)
    del world.context.router._transports["kafka"], world.context.router._publishers["kafka"]
    _, by_name = await transports(client)
    assert by_name["kafka"]["drained"] is None
    assert "not in the configuration" in by_name["kafka"]["trouble"]


async def test_the_direct_queues_of_all_dispatchers_count(world: World, client: httpx.AsyncClient) -> None:
    direct = world.context.spools["direct"]
    direct.attach("orders", "billing")
    await direct.append([NewRecord("orders", b"x", NOON + 7), NewRecord("orders", b"y", NOON + 8)])
    _, by_name = await transports(client)
    assert by_name["direct"]["subscriptions"] == [
        {"subscription": "billing", "waiting": 2, "oldest": "2026-11-21T12:00:00.007Z"},
        {"subscription": "mail", "waiting": 0, "oldest": None},
    ]
    await tell(world, "d2", roles=("dispatcher",))
    _, by_name = await transports(client)
    assert [line["waiting"] for line in by_name["direct"]["subscriptions"]] == [None, None]
    assert by_name["direct"]["drained"] is None


async def test_a_transport_that_was_left_and_taken_again_is_the_present_one(
    world: World, client: httpx.AsyncClient
) -> None:
    await switch(world)
    await world.clock.advance(60)
    await switch(world, "kafka")
    found, by_name = await transports(client)
    assert {name: transport["role"] for name, transport in by_name.items()} == {
        "kafka": "present",
        "nsq": "former",
        "direct": "fallback",
    }
    assert found["since"] == "2026-11-21T12:01:00.000Z"
    assert world.registry.destination("orders").former[0].until == NOON + 60_000 + DAY


async def test_a_limited_key_sees_no_urls_of_receivers(world: World) -> None:
    await tell(world, "r1")
    await world.keyring.create_key(roles=("admin",))
    key = await world.keyring.create_key(roles=("viewer",), destinations=("orders",))
    async with world.client(key) as client:
        found, _ = await transports(client)
        assert found["receivers"] == {"alive": 1, "confirmed": 1, "items": None}
        problem(await client.get("/destinations/mails/transports"), 403)


async def test_a_destination_that_is_not_there_has_none(client: httpx.AsyncClient) -> None:
    problem(await client.get("/destinations/none/transports"), 404)
