"""What a destination has too much of is refused to it alone, told, and counted."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx
import pytest

from bus.domain.vitals import TurnedAwayFigures
from bus.errors import QuotaUsedUp
from bus.security.principals import ANYONE
from bus.telemetry import metrics
from receiver.draft import Draft
from receiver.ingest import Accepted
from tests.unit.receiver.receiver_world import World

LIMIT = 100_000
BODY = bytes(10_000)


@pytest.fixture
async def world() -> World:
    return World()


@pytest.fixture
async def client(world: World) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(world.app)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        yield client


@pytest.fixture
async def full(world: World) -> World:
    """Have a destination whose messages fill its share, and a neighbour."""
    world.spool._limit = LIMIT
    await world.destination("orders", "billing", spool_share=0.5)
    await world.destination("other", "billing")
    for _ in range(4):
        await world.send(BODY)
    with pytest.raises(QuotaUsedUp):
        await world.send(BODY)
    return world


async def test_what_fills_its_share_is_refused_and_its_neighbours_are_not(full: World) -> None:
    for _ in range(4):
        await full.send(BODY, "other")
    with pytest.raises(QuotaUsedUp, match="'orders'") as refused:
        await full.send(BODY)
    assert refused.value.retriable
    assert (refused.value.field, refused.value.wait) == ("destination", 5)
    assert len(full.stored) == 8


async def test_a_batch_is_refused_line_by_line(world: World) -> None:
    world.spool._limit = LIMIT
    await world.destination("orders", "billing", spool_share=0.5)
    await world.destination("other", "billing")
    drafts = [Draft(code, BODY) for code in (*("orders", "other") * 4, "orders", "orders")]
    answers = await world.ingest.accept(drafts, ANYONE)
    taken = [draft.destination for draft, answer in zip(drafts, answers, strict=True) if isinstance(answer, Accepted)]
    assert taken.count("orders") == 4
    assert taken.count("other") == 4


async def test_a_share_is_changed_live_and_freed_by_what_leaves(full: World) -> None:
    await full.destination("orders", spool_share=0.7)
    await full.send(BODY)
    await full.destination("orders", spool_share=0.1)
    with pytest.raises(QuotaUsedUp):
        await full.send(b"small")
    for consumer in ("publish", "store"):
        full.spool.ack(consumer, await full.spool.claim(consumer, 100, "orders"))
    await full.send(b"small")


async def test_a_repetition_is_answered_whatever_the_share(full: World) -> None:
    known = full.id()
    await full.destination("orders", spool_share=1.0)
    await full.send(b"small", id=known)
    await full.destination("orders", spool_share=0.1)
    assert await full.send(b"small", id=known) == Accepted(known, True)


async def test_a_disk_at_its_reserve_is_nobodys_share(full: World) -> None:
    full.spool.full = True
    with pytest.raises(Exception, match="the spool is full"):
        await full.send(BODY)


async def test_who_is_turned_away_is_told_and_counted(full: World) -> None:
    counter = metrics.TURNED_AWAY.labels("orders", "spool_share")
    before, since = counter._value.get(), full.clock.now()
    for _ in range(2):
        with pytest.raises(QuotaUsedUp):
            await full.send(BODY)
    assert counter._value.get() == before + 2
    assert full.turned_away.told() == [TurnedAwayFigures("orders", "spool_share", 3, since)]
    await full.clock.advance(61)
    assert full.turned_away.told() == []


async def test_the_answer_names_the_destination_and_when_to_come_again(full: World, client: httpx.AsyncClient) -> None:
    answer = await client.post("/v1/messages/orders", content=BODY)
    assert (answer.status_code, answer.headers["retry-after"]) == (429, "5")
    said = answer.json()
    assert (said["field"], said["retry_after"]) == ("destination", 5)
    assert "'orders'" in said["detail"]
    batch = await client.post(
        "/v1/messages",
        content=b'{"destination":"orders","body":"%s"}\n{"destination":"other","body":1}' % (b"x" * 10_000),
        headers={"content-type": "application/x-ndjson"},
    )
    first, second = batch.json()["results"]
    assert (first["status"], first["error"]["status"], first["error"]["retry_after"]) == ("rejected", 429, 5)
    assert second["status"] == "accepted"
