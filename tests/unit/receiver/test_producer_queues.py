"""What producers tell of their queues: kept for some minutes, bounded, and told once it matters."""

from __future__ import annotations

import json

import httpx

from bus.domain.health.vitals import ProducerFigures
from bus.domain.times import MINUTE
from bus.http.draft import draft_of_line
from bus.telemetry import metrics
from tests.unit.receiver.receiver_world import World

NDJSON = {"content-type": "application/x-ndjson"}
LINE = json.dumps({"destination": "orders", "source": "shop", "body": 1}).encode()


async def post(world: World, queue: str, line: bytes = LINE) -> None:
    transport = httpx.ASGITransport(world.app)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        answer = await client.post("/v1/messages", content=line, headers={**NDJSON, "bus-queue": queue})
    assert answer.status_code == 200, answer.text


async def opened() -> World:
    world = World()
    await world.destination("orders", "billing")
    return world


def old(number: int, minutes: int = 20) -> str:
    return f"records=12, oldest_ms={minutes * MINUTE}, id={number:08x}"


async def test_a_queue_in_which_something_waits_is_told_for_some_minutes() -> None:
    world = await opened()
    await post(world, old(1))
    assert world.queues.told() == [ProducerFigures("shop", "00000001", 12, 20 * MINUTE)]
    await world.clock.advance(170)
    assert world.queues.told()
    await world.clock.advance(20)
    assert world.queues.told() == []


async def test_the_last_word_of_a_queue_counts() -> None:
    world = await opened()
    await post(world, old(1))
    await post(world, "records=1, oldest_ms=30, id=00000001")
    assert world.queues.told() == []
    world.queues.measure()()
    assert metrics.REGISTRY.get_sample_value("bus_producer_oldest_seconds", {"source": "shop"}) == 0.03


async def test_a_queue_with_messages_of_many_is_whose_it_says() -> None:
    world = await opened()
    transport = httpx.ASGITransport(world.app)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        headers = {**NDJSON, "bus-queue": old(1), "bus-source": "agent-\u00fc".encode()}
        await client.post("/v1/messages", content=LINE, headers=headers)
        headers |= {"bus-queue": old(2), "bus-source": b"\xff" * 300}
        await client.post("/v1/messages", content=LINE, headers=headers)
    assert {one.source for one in world.queues.told()} == {"agent-\u00fc", "\ufffd" * 200}


async def test_what_says_nothing_is_ignored() -> None:
    world = await opened()
    await post(world, "records=a lot")
    await post(world, old(1), b"nonsense")
    assert not world.queues._found


async def test_strangers_fill_no_memory() -> None:
    world = await opened()
    for number in range(1010):
        world.queues.note(old(number, number).encode(), b"", [])
    assert not world.queues._found
    await post(world, old(5000, 5000))
    drafts = [draft_of_line(LINE)]
    for number in range(1010):
        world.queues.note(old(number, number).encode(), b"", drafts)
    assert len(world.queues._found) == 1000
    told = world.queues.told()
    assert len(told) == 50
    assert told[0].oldest == 1009 * MINUTE
