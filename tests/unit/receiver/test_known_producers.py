"""Producers that a receiver knows, with reports of their queues: bounded, and shown once it matters."""

from __future__ import annotations

import json

import httpx

from bus.domain.health.vitals import ProducerFigures
from bus.domain.times import DAY, MINUTE
from bus.http.draft import draft_of_line
from bus.telemetry import metrics
from tests.unit.receiver.receiver_world import World

NDJSON = {"content-type": "application/x-ndjson"}
LINE = json.dumps({"destination": "orders", "source": "shop", "body": 1}).encode()


async def post(world: World, queue: str, line: bytes = LINE, agent: str = "test") -> None:
    transport = httpx.ASGITransport(world.app)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        answer = await client.post(
            "/v1/messages", content=line, headers={**NDJSON, "bus-queue": queue, "user-agent": agent}
        )
    assert answer.status_code == 200, answer.text


async def post_one(world: World, agent: str) -> None:
    transport = httpx.ASGITransport(world.app)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        answer = await client.post(
            "/v1/messages/orders", content=b"1", headers={"bus-source": "shop", "user-agent": agent}
        )
    assert answer.status_code == 202, answer.text


async def opened() -> World:
    world = World()
    await world.destination("orders", "billing")
    return world


def old(number: int, minutes: int = 20) -> str:
    return f"records=12, oldest_ms={minutes * MINUTE}, id={number:08x}"


async def test_a_queue_in_which_something_waits_is_told_for_some_minutes() -> None:
    world = await opened()
    await post(world, old(1))
    (told,) = world.producers.told()
    assert (told.source, told.id, told.records, told.oldest) == ("shop", "00000001", 12, 20 * MINUTE)
    await world.clock.advance(170)
    assert world.producers.told()
    await world.clock.advance(20)
    assert world.producers.told() == []


async def test_the_last_word_of_a_queue_counts() -> None:
    world = await opened()
    await post(world, old(1))
    await post(world, "records=1, oldest_ms=30, id=00000001")
    assert world.producers.told() == []
    world.producers.measure()()
    assert metrics.REGISTRY.get_sample_value("bus_producer_oldest_seconds", {"source": "shop"}) == 0.03


async def test_a_queue_with_messages_of_many_is_whose_it_says() -> None:
    world = await opened()
    transport = httpx.ASGITransport(world.app)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        headers = {**NDJSON, "bus-queue": old(1), "bus-source": "agent-\u00fc".encode()}
        await client.post("/v1/messages", content=LINE, headers=headers)
        headers |= {"bus-queue": old(2), "bus-source": b"\xff" * 300}
        await client.post("/v1/messages", content=LINE, headers=headers)
        headers |= {"bus-queue": old(3), "bus-source": b"\x1b[2Jagent"}
        await client.post("/v1/messages", content=LINE, headers=headers)
    assert {one.source for one in world.producers.told()} == {"agent-\u00fc", "\ufffd" * 200, "?[2Jagent"}


async def test_what_says_nothing_is_ignored() -> None:
    world = await opened()
    await post(world, "records=a lot")
    await post(world, old(1), b"nonsense")
    assert world.producers.told() == []
    assert [(one.id, one.messages) for one in world.producers.known()] == [("", 1)]


async def test_a_producer_is_known_by_its_key_source_and_program() -> None:
    world = await opened()
    await post(world, "records=3, oldest_ms=30, id=00000001", agent="pier-python/0.1.0 (host web-1; python 3.12.1)")
    await world.clock.advance(1)
    await post(world, "records=4, oldest_ms=40, id=00000001", agent="pier-python/0.2.0 (host web-1; python 3.12.1)")
    await world.clock.advance(1)
    await post_one(world, "Go-http-client/2.0\x7f")
    go, python = world.producers.known()
    now = world.clock.now()
    assert go == ProducerFigures("shop", "", 0, 0, agent="Go-http-client/2.0?", key="anyone", seen_at=now, messages=1)
    told = "pier-python/0.2.0 (host web-1; python 3.12.1)"
    assert python == ProducerFigures(
        "shop", "00000001", 4, 40, agent=told, key="anyone", seen_at=now - 1000, messages=2
    )
    await world.clock.advance(DAY / 1000)
    assert [one.agent for one in world.producers.known()] == ["Go-http-client/2.0?"]
    await world.clock.advance(1)
    assert world.producers.known() == []
    assert world.producers._of == {}


async def test_a_key_cannot_push_the_producers_of_another_one_out() -> None:
    world = await opened()
    for number in range(450):
        world.producers.note("shop", f"shop-{number}", b"curl")
    for number in range(5000):
        world.producers.note("stranger", f"made up {number}", b"curl")
    of = world.producers._of
    assert {key: len(those) for key, those in of.items()} == {"shop": 450, "stranger": 500}
    assert next(iter(of["stranger"])) == ("made up 4500", "curl")
    for key in ("a", "b", "c"):
        for number in range(500):
            world.producers.note(key, str(number), b"")
    assert sum(map(len, of.values())) == 1000
    assert len(of["shop"]) >= 200
    assert len(world.producers.known()) == 500
    assert sum(map(len, world.producers._of.values())) == 1000


async def test_what_a_stranger_says_is_cut() -> None:
    world = await opened()
    world.producers.note("k", "s" * 5000, b"a" * 5000)
    (one,) = world.producers.known()
    assert (len(one.source), len(one.agent)) == (200, 200)


async def test_only_some_queues_are_told_to_everybody() -> None:
    world = await opened()
    drafts = [draft_of_line(LINE)]
    for number in range(400):
        world.producers.note_batch({b"bus-queue": old(number, number).encode()}, "k", drafts)
    told = world.producers.told()
    assert len(told) == 50
    assert told[0].oldest == 399 * MINUTE
