"""Strictly ordered destinations: their chains are told whatever shape they have, and two decisions are a person's."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from bus.domain.ordering.chain import Chain, Gap, Lease, Segment, lost
from bus.domain.ordering.document import COLLECTION, decode_chain, encode_chain
from bus.errors import Conflict, StoreUnavailable
from tests.unit.admin.admin_world import World, problem
from tests.unit.admin.chain_shapes import FLOWING, GONE, HERE, MOVED, SHAPES, chain, fill, shape, strict_world

ORDER = "/destinations/orders/ordering"
ABANDON = f"{ORDER}/abandon"
RELEASE = f"{ORDER}/release-producer"


@pytest.fixture
async def world() -> World:
    return await strict_world()


async def told(client: httpx.AsyncClient) -> Any:
    answer = await client.get(ORDER)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def kept(world: World) -> Chain:
    found = await world.store.get(COLLECTION, "orders")
    assert found is not None
    return decode_chain(found.value)


def blocked(found: Any) -> list[str]:
    assert all(one["next_step"] and one["what_text"]["template"] for one in found["blocked"])
    return [one["what"] for one in found["blocked"]]


@pytest.mark.parametrize("name", SHAPES)
async def test_a_chain_of_any_shape_is_told(world: World, client: httpx.AsyncClient, name: str) -> None:
    await shape(world, SHAPES[name])
    found = await told(client)
    assert found["known"] is (name not in ("another version", "not a chain"))
    assert {"g1", "g2", "g3"} <= {group["name"] for group in found["groups"]}
    assert bool(found["blocked"]) is (name not in ("no group takes messages", "flowing", *FLOWS))


FLOWS = ("partly drained", "several segments", "no head", "a gap", "a producer")


async def test_a_chain_is_told_with_what_waits(world: World, client: httpx.AsyncClient) -> None:
    await shape(world, encode_chain(MOVED))
    await fill(world.groups["g1"], 3)
    found = await told(client)
    assert found["sender"] == {"owner": "owner-1", "node": "node-1", "url": HERE, "epoch": 101, "alive": True}
    assert (found["epoch"], found["send"], found["producer"]) == (110, ["g2"], None)
    assert found["consume"] == [
        {
            "group": "g1",
            "epoch": 103,
            "since": None,
            "current": False,
            "lost": False,
            "drained": ["mail"],
            "waiting": [{"subscription": "billing", "waiting": 3}],
        },
        {
            "group": "g2",
            "epoch": 110,
            "since": None,
            "current": True,
            "lost": False,
            "drained": [],
            "waiting": [{"subscription": "billing", "waiting": 0}, {"subscription": "mail", "waiting": 0}],
        },
    ]
    first = found["groups"][0]
    assert (first["name"], first["answers"], first["empty"], first["trouble"]) == ("g1", True, False, "")
    assert [group["empty"] for group in found["groups"]] == [False, True, True]


async def test_what_blocks_is_told_with_what_to_do(world: World, client: httpx.AsyncClient) -> None:
    await shape(world, encode_chain(MOVED))
    world.groups["g1"].set_copies(1)
    found = await told(client)
    assert blocked(found) == [
        "billing of orders wait for group g1, which does not answer; senders went on with g2",
    ]
    assert "bus ordering abandon orders g1" in found["blocked"][0]["next_step"]
    assert found["consume"][0]["waiting"] == [{"subscription": "billing", "waiting": None}]
    (first, *_) = found["groups"]
    assert (first["answers"], first["empty"]) == (False, None)
    assert first["trouble"] == "1 of 3 copies are up"
    for group in world.groups.values():
        group.set_copies(2)
    assert blocked(await told(client)) == [
        "no group of brokers takes messages to orders: producers keep them in their spools"
    ]


async def test_a_group_that_is_not_configured_and_workers_that_are_gone(
    world: World, client: httpx.AsyncClient
) -> None:
    await shape(world, encode_chain(chain(Segment("old", 103), send=("g1",), sender=GONE, reader=Lease())))
    found = await told(client)
    assert found["sender"]["alive"] is False
    assert blocked(found) == [
        "the process at http://10.0.0.9:8700 that sends to orders is gone: producers keep their messages",
        "no process reads orders: its messages wait on their groups of brokers",
        "billing, mail of orders wait for group old, which is not configured here",
    ]
    assert [group["configured"] for group in found["groups"]] == [True, True, True, False]


async def test_a_coordinator_that_does_not_answer_is_told(world: World, client: httpx.AsyncClient) -> None:
    async def get(*_: object) -> None:
        raise StoreUnavailable("zookeeper is away")

    world.context.chains.coordinator.get = get  # type: ignore[method-assign, assignment]
    found = await told(client)
    assert (found["known"], blocked(found)) == (
        False,
        ["the coordinator does not give the chain of orders: zookeeper is away"],
    )


async def test_a_trace_says_what_its_delivery_waits_for(world: World, client: httpx.AsyncClient) -> None:
    (sent,) = await world.written(1, names=("billing", "mail"))
    await shape(world, encode_chain(MOVED))

    async def held() -> dict[str, Any]:
        deliveries = (await client.get(f"/messages/{sent.id}")).json()["deliveries"]
        return {one["subscription"]: one.get("held") for one in deliveries}

    assert all("group g1" not in str(found) for found in (await held()).values())
    world.groups["g1"].set_copies(0)
    found = await held()
    assert found["billing"]["cause"] == "order"
    assert found["billing"]["what"].startswith("billing of orders wait for group g1, which does not answer")
    assert "group g1" not in str(found["mail"])


async def test_others_keep_no_strict_order(world: World, client: httpx.AsyncClient) -> None:
    for method, path, body in (
        ("GET", "", None),
        ("POST", "/abandon", {"group": "g1", "reason": "x"}),
        ("POST", "/release-producer", {"reason": "x"}),
    ):
        problem(await client.request(method, f"/destinations/plain/ordering{path}", json=body), 422)
        problem(await client.request(method, f"/destinations/nowhere/ordering{path}", json=body), 404)


async def test_a_dead_group_is_removed_after_a_dry_run_that_says_what_it_costs(
    world: World, client: httpx.AsyncClient
) -> None:
    await shape(world, encode_chain(MOVED))
    world.groups["g1"].set_copies(0)
    asked = {"group": "g1", "reason": "its disks are gone"}
    found = (await client.post(ABANDON, json=asked | {"dry_run": True})).json()
    assert (found["dry_run"], found["epoch"], found["count"]) == (True, 103, None)
    assert found["waiting"] == [{"subscription": "billing", "waiting": None}]
    said = [cost["what"] for cost in found["costs"]]
    assert said[0] == "nobody can say how many messages wait on group g1"
    assert any("sent again behind all others" in one for one in said)
    assert await kept(world) == MOVED
    assert (await client.post(ABANDON, json=asked)).json() == found | {"dry_run": False}
    assert [segment.group for segment in (await kept(world)).consume] == ["g2"]
    problem(await client.post(ABANDON, json=asked), 404)
    entry = (await client.get("/audit", params={"what": "destinations/orders/ordering"})).json()["items"]
    changes = {name: change["after"] for name, change in entry[1]["changes"].items()}
    assert (changes["group"], changes["reason"], changes["waiting"]) == ("g1", "its disks are gone", "unknown")


async def test_a_group_that_answers_is_removed_by_force_alone(world: World, client: httpx.AsyncClient) -> None:
    await shape(world, encode_chain(MOVED))
    await fill(world.groups["g1"], 4)
    asked = {"group": "g1", "reason": "x"}
    assert "answers" in problem(await client.post(ABANDON, json=asked), 409)["detail"]
    assert (await client.post(ABANDON, json=asked | {"force": True})).json()["count"] == 4
    await shape(world, SHAPES["unknown group"])
    assert "not configured" in problem(await client.post(ABANDON, json=asked | {"group": "old"}), 409)["detail"]
    assert (await client.post(ABANDON, json=asked | {"group": "old", "force": True})).status_code == 200


async def test_the_group_that_takes_messages_is_not_removed(world: World, client: httpx.AsyncClient) -> None:
    await shape(world, encode_chain(FLOWING))
    refused = problem(await client.post(ABANDON, json={"group": "g1", "reason": "x", "force": True}), 409)
    assert "senders moved on" in refused["hint"]
    assert await kept(world) == FLOWING


@pytest.mark.parametrize("name", SHAPES)
async def test_a_decision_about_a_chain_of_any_shape_is_taken_or_refused(
    world: World, client: httpx.AsyncClient, name: str
) -> None:
    await shape(world, SHAPES[name])
    for path, body in ((ABANDON, {"group": "g1", "force": True}), (RELEASE, {})):
        for is_dry in (True, False):
            answer = await client.post(path, json={"reason": "x", "dry_run": is_dry, **body})
            assert answer.status_code in (200, 404, 409), answer.text


async def test_a_decision_is_taken_while_others_write(world: World, client: httpx.AsyncClient) -> None:
    await shape(world, encode_chain(MOVED))
    world.groups["g1"].set_copies(0)
    put, refusals = world.store.put, [Conflict("somebody else wrote first")] * 3

    async def contested(collection: str, key: str, value: bytes, *, version: int | None = None) -> int:
        if collection == COLLECTION and refusals:
            raise refusals.pop()
        return await put(collection, key, value, version=version)

    world.store.put = contested  # type: ignore[method-assign]
    assert (await client.post(ABANDON, json={"group": "g1", "reason": "x"})).status_code == 200
    assert refusals == []
    assert [segment.group for segment in (await kept(world)).consume] == ["g2"]


async def test_what_was_decided_about_is_what_is_changed(world: World, client: httpx.AsyncClient) -> None:
    await shape(world, encode_chain(MOVED))
    world.groups["g1"].set_copies(0)
    put, later = world.store.put, [encode_chain(chain(Segment("g1", 120), Segment("g2", 121), send=("g2",)))]

    async def overtaken(collection: str, key: str, value: bytes, *, version: int | None = None) -> int:
        if collection == COLLECTION and later:
            await put(collection, key, later.pop())
            raise Conflict("somebody else wrote first")
        return await put(collection, key, value, version=version)

    world.store.put = overtaken  # type: ignore[method-assign]
    assert "meanwhile" in problem(await client.post(ABANDON, json={"group": "g1", "reason": "x"}), 409)["detail"]


async def test_a_producer_is_released(world: World, client: httpx.AsyncClient) -> None:
    await shape(world, SHAPES["a producer"])
    asked = {"reason": "that machine is gone"}
    found = (await client.post(RELEASE, json=asked | {"dry_run": True})).json()
    assert found["producer"]["owner"] == "shop-1"
    assert "is refused from now on" in found["costs"][0]["what"]
    assert (await kept(world)).producer.owner == "shop-1"
    assert (await client.post(RELEASE, json=asked)).json() == found | {"dry_run": False}
    after = await kept(world)
    assert (after.producer.owner, after.producer.epoch, after.epoch) == ("", 111, 111)
    problem(await client.post(RELEASE, json=asked), 404)
    problem(await client.post(RELEASE, json={}), 422)


async def test_who_may_only_read_decides_nothing(world: World) -> None:
    await shape(world, encode_chain(MOVED))
    key = await world.keyring.create_key(roles=("viewer",), destinations=("orders",))
    async with world.client(key) as client:
        found = await told(client)
        assert (found["sender"]["owner"], found["sender"]["node"]) == (None, None)
        assert found["sender"]["url"] == HERE
        problem(await client.post(ABANDON, json={"group": "g1", "reason": "x"}), 403)
        problem(await client.post(RELEASE, json={"reason": "x"}), 403)


async def test_a_group_that_lost_its_disks_is_told_and_removed_though_it_answers(
    world: World, client: httpx.AsyncClient
) -> None:
    begun, moved = 1_700_000_000_000, 1_700_000_060_000
    took = chain(Segment("g1", 103, since=begun), Segment("g2", 110, since=moved), send=("g2",), marks={"g1": "1"})
    await shape(world, encode_chain(lost(took, "g1")))
    found = await told(client)
    (what,) = blocked(found)
    assert what.startswith(
        "group g1 lost its disks: what it took of orders from 2023-11-14T22:13:20.000Z to 2023-11-14T"
    )
    assert what.endswith("22:14:20.000Z, and billing, mail had not read, is missing; what came after it waits")
    assert "bus ordering abandon orders g1" in found["blocked"][0]["next_step"]
    first = found["consume"][0]
    assert (first["lost"], first["since"]) == (True, "2023-11-14T22:13:20.000Z")
    assert {one["waiting"] for one in first["waiting"]} == {None}
    asked = {"group": "g1", "reason": "its disks are gone"}
    removed = (await client.post(ABANDON, json=asked)).json()
    assert removed["costs"][0]["what"] == "group g1 lost its disks: its unread messages are gone"
    assert (await kept(world)).gaps == (Gap("g1", 103, 110),)
    after = await told(client)
    assert (blocked(after), after["gaps"]) == ([], [{"group": "g1", "epoch": 103, "drained": []}])


@pytest.mark.parametrize(("group", "is_told"), [("g1", True), ("g2", False)])
async def test_a_trace_waits_for_what_is_lost_once_all_before_it_is_read(
    world: World, client: httpx.AsyncClient, group: str, *, is_told: bool
) -> None:
    (sent,) = await world.written(1, names=("billing",))
    took = chain(Segment("g1", 103), Segment("g2", 110), Segment("g3", 120), send=("g3",), marks={group: "1"})
    await shape(world, encode_chain(lost(took, group)))
    (delivery,) = (await client.get(f"/messages/{sent.id}")).json()["deliveries"]
    assert (f"group {group} lost its disks" in str(delivery["held"])) is is_told
    assert len(blocked(await told(client))) == 1
