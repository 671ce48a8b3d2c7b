"""``POST /v1/events``: strict about what it takes, and unchanged in what it passes on."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx
import msgspec
import pytest

from bus.domain.identity import new_id
from bus.domain.tracing.events import Block, Stage, TraceEvent, decode_block, encode_block
from bus.errors import EventsUnavailable
from bus.events.gathering import EventBuffer
from bus.events.nothing import NoEvents
from receiver.events_app import LIMIT, PATH, EventsApp
from tests.unit.receiver.receiver_world import World

NOW = 1_732_240_000_123
NDJSON = {"content-type": "application/x-ndjson"}


def sealed(*destinations: str, stage: Stage = Stage.SENT) -> bytes:
    gathering = EventBuffer("producer", "host-1", NOW)
    for place in destinations:
        gathering.add(TraceEvent(stage=stage, at=NOW, id=new_id(NOW), destination=place))
    block = gathering.close(NOW)
    assert block is not None
    return block.line


def changed(line: bytes, **changes: object) -> bytes:
    fields = msgspec.structs.asdict(decode_block(line))
    return encode_block(Block(**fields | changes))


@pytest.fixture
async def world() -> World:
    world = World()
    await world.destination("orders")
    return world


@pytest.fixture
async def client(world: World) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(EventsApp(world.events, world.keyring))
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost", headers=NDJSON) as client:
        yield client


async def test_blocks_are_passed_on_as_they_are(world: World, client: httpx.AsyncClient) -> None:
    lines = [sealed("orders", "orders"), sealed("orders")]
    answer = await client.post(PATH, content=b"\n".join(lines) + b"\n")
    assert (answer.status_code, answer.json()) == (202, {"blocks": 2})
    assert [block.line for block in world.events.forwarded] == lines
    assert [block.emitter for block in world.events.forwarded] == [decode_block(line).emitter for line in lines]
    assert [dict(block.stages) for block in world.events.forwarded] == [{"sent": 2}, {"sent": 1}]


@pytest.mark.parametrize(
    ("content", "status"),
    [
        (b"{}", 422),
        (b"\xff", 422),
        (sealed("orders")[:-1], 422),
        (sealed("orders") + b" x", 422),
        (sealed("orders", stage=Stage.ACCEPTED), 422),
        (changed(sealed("orders"), ledger=[]), 422),
        (changed(sealed("orders"), events=[]), 422),
        (changed(sealed("orders"), ledger=decode_block(sealed("orders")).ledger), 422),
        (changed(sealed("orders"), at=NOW * 1000), 422),
        (sealed("orders").replace(b'"at":%d' % NOW, b'"at":%d' % (NOW * 1000)), 422),
        (b"x" * (LIMIT // 2), 413),
        (b"\n" * (LIMIT + 1), 413),
    ],
)
async def test_what_is_not_exactly_a_producers_block_is_refused(
    world: World, client: httpx.AsyncClient, content: bytes, status: int
) -> None:
    answer = await client.post(PATH, content=sealed("orders") + b"\n" + content)
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    assert world.events.forwarded == []


@pytest.mark.parametrize("status", [503, 429])
async def test_while_the_sink_takes_none_the_producer_keeps_them(
    world: World, client: httpx.AsyncClient, status: int
) -> None:
    world.events.refusal = EventsUnavailable("the disk is full", status=status)
    answer = await client.post(PATH, content=sealed("orders"))
    assert answer.status_code == status
    assert answer.headers["retry-after"] == "1"


async def test_a_key_tells_of_its_own_destinations_alone(world: World, client: httpx.AsyncClient) -> None:
    producer = await world.keyring.create_key(roles=("producer",), destinations=("orders",))
    viewer = await world.keyring.create_key(roles=("viewer",))
    assert (await client.post(PATH, content=sealed("orders"))).status_code == 401
    for key, places, status in ((producer, ["orders"], 202), (producer, ["orders", "x"], 403), (viewer, [], 403)):
        content = sealed(*places) if places else b""
        answer = await client.post(PATH, content=content, headers={"authorization": f"Bearer {key}"})
        assert answer.status_code == status, answer.text


async def test_other_requests_are_refused(client: httpx.AsyncClient) -> None:
    assert (await client.get(PATH)).status_code == 405
    assert (await client.post(PATH, headers={"content-type": "text/plain"})).status_code == 415
    assert (await client.post(f"{PATH}/more", content=b"")).status_code == 404


async def test_without_events_the_route_is_as_if_it_were_not_there(world: World) -> None:
    transport = httpx.ASGITransport(EventsApp(NoEvents(), world.keyring))
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost", headers=NDJSON) as client:
        assert (await client.post(PATH, content=sealed("orders"))).status_code == 404
