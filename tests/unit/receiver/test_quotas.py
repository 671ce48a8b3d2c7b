"""The excess of a destination is refused to it alone, shown, and counted."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx
import pytest

from bus.domain.health.vitals import TurnedAwayFigures
from bus.errors import QuotaUsedUp
from bus.http.draft import Draft
from bus.http.messages import AcceptedMessage
from bus.security.principals import ANYONE, Principal
from bus.telemetry import metrics
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
    taken = [
        draft.destination for draft, answer in zip(drafts, answers, strict=True) if isinstance(answer, AcceptedMessage)
    ]
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
    assert await full.send(b"small", id=known) == AcceptedMessage(known, True)


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
    assert full.turned_away.told() == [TurnedAwayFigures("orders", "spool_share", 3, since, since, "orders")]
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


async def refusal(world: World, code: str = "orders", principal: Principal = ANYONE) -> QuotaUsedUp | None:
    """Send a message and return why it is not taken now."""
    (answer,) = await world.ingest.accept([Draft(code, b"{}")], principal)
    return answer if isinstance(answer, QuotaUsedUp) else None


async def test_over_its_rate_a_destination_alone_is_refused_until_time_has_passed(world: World) -> None:
    await world.destination("orders", rate=2.0, burst=3)
    await world.destination("other")
    assert [await refusal(world) for _ in range(3)] == [None] * 3
    with pytest.raises(QuotaUsedUp, match="destination 'orders' takes 2 messages a second") as refused:
        await world.send()
    assert (refused.value.field, refused.value.wait) == ("destination", 1)
    assert await refusal(world, "other") is None
    await world.clock.advance(0.5)
    assert [await refusal(world) is None for _ in range(2)] == [True, False]
    assert [(told.whose, told.why, told.count) for told in world.turned_away.told()] == [("orders", "rate", 2)]


async def test_a_rate_changes_live(world: World) -> None:
    await world.destination("orders", rate=0.01)
    assert await refusal(world) is None
    refused = await refusal(world)
    assert refused is not None
    assert refused.wait == 100
    await world.destination("orders", rate=1000.0)
    await world.clock.advance(0.01)
    assert await refusal(world) is None
    await world.destination("orders")
    assert [await refusal(world) for _ in range(50)] == [None] * 50


async def test_over_its_rate_a_key_alone_is_refused(world: World) -> None:
    await world.destination("orders")
    shop = Principal("shop", "key shop", ("producer",), (), rate=1.0)
    mill = Principal("mill", "key mill", ("producer",), ())
    assert await refusal(world, principal=shop) is None
    refused = await refusal(world, principal=shop)
    assert refused is not None
    assert (refused.field, str(refused).startswith("key shop may send 1 messages a second")) == ("key", True)
    assert await refusal(world, principal=mill) is None
    assert [(told.whose, told.why) for told in world.turned_away.told()] == [("key shop", "key_rate")]


async def test_a_repetition_costs_nothing(world: World) -> None:
    await world.destination("orders", rate=0.01)
    known = world.id()
    assert await world.send(id=known) == AcceptedMessage(known, False)
    assert await world.send(id=known) == AcceptedMessage(known, True)


async def test_what_its_destination_refuses_costs_a_key_nothing(world: World) -> None:
    await world.destination("orders", rate=0.01)
    await world.destination("other")
    shop = Principal("shop", "key shop", ("producer",), (), rate=0.01, burst=2)
    found = [await refusal(world, code, shop) for code in ("orders", "orders", "other", "other")]
    assert [refused.field if refused else "" for refused in found] == ["", "destination", "", "key"]


async def test_only_so_many_rates_are_remembered(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("receiver.quotas._MOST", 2)
    await world.destination("orders")
    for name in ("a", "b", "c"):
        assert await refusal(world, principal=Principal(name, name, ("producer",), (), rate=0.01)) is None
    assert len(world.ingest._quotas._keys._buckets) == 2
