"""The reason in a trace why a delivery is not in flight, for each that has not ended."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from bus.cluster.member import COLLECTION, HeldMessages, Member
from bus.domain.delivery.delivery import Status
from bus.domain.health.vitals import BreakerFigures, WorkerFigures
from bus.domain.times import format_time
from bus.ports.transport import OutgoingMessage
from bus.testing.contracts.store_ordering import behind, dead, failed
from bus.testing.transport import MemoryTransport
from bus.testing.writes import NOON, message, outcome
from tests.unit.admin.admin_world import World, subscribed

BILLING = "/destinations/orders/subscriptions/billing"


@pytest.fixture
async def world() -> World:
    return await subscribed()


def worker(
    in_use: int, waiting: int, *, share: int = 16, rate_wait: float = 0.0, lacks_slot: bool = False
) -> WorkerFigures:
    return WorkerFigures("orders", "billing", in_use, share, 16, waiting, rate_wait, lacks_slot)


async def tell(world: World, **fields: Any) -> None:
    """Have another process tell of itself."""
    url = "http://127.0.0.1:9"
    fields = {"owner": "other", "node": "node-2", "url": url, "version": "2", "started_at": NOON, **fields}
    await world.store.put(COLLECTION, fields["owner"], msgspec.json.encode(Member(**fields)))
    await world.context.members.step()


async def held(world: World, status: Status = Status.PENDING, **changes: Any) -> tuple[str, str] | None:
    """Return cause and words of a delivery in this state."""
    (sent,) = await world.written(1, status, received_at=NOON + 59_000, **changes)
    return await cause_of(world, sent.id)


async def cause_of(world: World, message_id: str) -> tuple[str, str] | None:
    """Return cause and words of a message's one delivery."""
    async with world.client() as client:
        answer = await client.get(f"/messages/{message_id}")
    assert answer.status_code == 200, answer.text
    (delivery,) = answer.json()["deliveries"]
    found = delivery["held"]
    if found is None:
        return None
    values = found["what_text"]["values"]
    assert found["what_text"]["template"].format(**{name: values[name] for name in values})
    return found["cause"], found["what"]


@pytest.mark.parametrize("status", [Status.DELIVERED, Status.DEAD, Status.CANCELED])
async def test_what_has_ended_is_held_by_nothing(world: World, status: Status) -> None:
    assert await held(world, status) is None


async def test_what_people_and_subscribers_have_paused(world: World) -> None:
    async with world.client() as client:
        await client.patch(BILLING, json={"paused": True})
        assert await held(world) == ("paused", "the subscription is paused: paused by a person")
        await client.patch("/destinations/orders", json={"paused": True})
    assert await held(world) == ("paused", "the destination is paused")
    subscription = world.registry.catalog.subscriptions["orders", "billing"]
    gone = msgspec.structs.replace(subscription, paused=True, paused_reason="the subscriber answered 410 Gone")
    await world.registry.put_destination(msgspec.structs.replace(world.registry.destination("orders"), paused=False))
    await world.registry.put_subscription(gone)
    assert await held(world) == ("paused", "the subscription is paused: the subscriber answered 410 Gone")


async def test_what_is_not_due_yet(world: World) -> None:
    later = world.clock.now() + 60_000
    assert await held(world, deliver_at=later) == ("scheduled", f"deliver at {format_time(later)}")
    (sent,) = await world.written(1)
    await world.store.write([outcome(sent, "billing", Status.RETRYING, due_at=later)])
    assert await held(world) == ("retry", f"the next attempt is due at {format_time(later)}")


async def test_a_removed_subscription(world: World) -> None:
    async with world.client() as client:
        await client.delete(BILLING)
    assert await held(world) == ("removed", "subscription removed")


@pytest.mark.parametrize(
    ("state", "answered", "said"),
    [
        ("open", None, "is open until a probe at 2026-11-21T12:01:05.000Z: nobody answered"),
        ("open", 503, "is open until a probe at 2026-11-21T12:01:05.000Z: the subscriber answered HTTP 503"),
        ("half_open", None, "is trying a probe: nobody answered"),
    ],
)
async def test_an_open_breaker(world: World, state: str, answered: int | None, said: str) -> None:
    figures = BreakerFigures(state, NOON, NOON + 65_000, answered)
    world.offer(breakers=lambda: {"orders/billing": figures})
    world.offer(workers=lambda: [worker(16, 5)])
    assert await held(world) == ("breaker", f"the breaker on node-1 {said}")
    world.offer(breakers=lambda: {"orders/mail": figures})
    await world.clock.advance(1)
    cause, _ = await held(world) or ("", "")
    assert cause == "permits"


async def test_permits(world: World) -> None:
    world.offer(workers=lambda: [worker(16, 3, rate_wait=0.5)])
    said = "no permit is free, 16 of 16 are in use: it waits for one, or has one of them"
    assert await held(world) == ("permits", said)
    world.offer(workers=lambda: [worker(0, 0, share=0)])
    await world.clock.advance(1)
    assert await held(world) == ("permits", "no dispatcher has a share of the permits yet")


async def test_permits_that_other_processes_of_the_port_have(world: World) -> None:
    world.offer(workers=lambda: [worker(3, 2, share=8, lacks_slot=True)])
    said = "no permit is free, 3 of 16 are in use: it waits for one, or has one of them"
    assert await held(world) == ("permits", said)
    world.offer(workers=lambda: [worker(3, 2, share=8)])
    await world.clock.advance(1)
    cause, _ = await held(world) or ("", "")
    assert cause == "under_way"


async def test_a_rate(world: World) -> None:
    async with world.client() as client:
        await client.patch(BILLING, json={"rate": 2.5})
    world.offer(workers=lambda: [worker(1, 3, rate_wait=0.4)])
    assert await held(world) == ("rate", "the rate of the subscription holds it: 2.5 a second")
    world.offer(workers=lambda: [worker(1, 0)])
    await world.clock.advance(1)
    assert await held(world) == ("under_way", "it is one of 1 requests that are under way, or is next")


async def test_queues(world: World) -> None:
    world.offer(workers=lambda: [worker(0, 0)])
    assert await held(world) == ("under_way", "nothing holds it: it is between two of its steps")
    receiver = {"owner": "r", "node": "node-3", "roles": ("receiver",)}
    await tell(world, **receiver, unpublished={"orders": NOON + 59_500})
    assert (await held(world) or ("",))[0] == "under_way", "what waits there is younger"
    await tell(world, **receiver, unpublished={"orders": NOON + 58_000})
    assert await held(world) == ("queue", "it waits in the local queue of the receiver on node-3")
    await tell(world, **receiver, held={"orders/billing": HeldMessages(4, NOON, 4)})
    said = "it waits in the direct queue of the dispatcher on node-3"
    assert await held(world) == ("queue", said)
    world.offer(workers=lambda: [worker(2, 0)])
    await world.clock.advance(1)
    assert await held(world) == ("queue", f"{said}, or is one of 2 requests that are under way")


async def test_a_broker_s_queue() -> None:
    world = await subscribed(MemoryTransport("kafka"))
    world.offer(workers=lambda: [worker(0, 0)])
    async with world.client() as client:
        await client.patch("/destinations/orders", json={"transport": "kafka"})
    assert (await held(world) or ("",))[0] == "under_way"
    earlier = message(99, received_at=NOON + 58_000)
    await world.brokers[0].publish([OutgoingMessage(earlier, b"")])
    assert await held(world) == ("queue", "it waits in its queue in kafka")


async def test_outcomes_that_the_store_has_not(world: World) -> None:
    world.offer(workers=lambda: [worker(0, 0)])
    await tell(world, roles=("receiver",), unseen={"orders": NOON + 59_000})
    assert (await held(world) or ("",))[0] == "under_way", "a second is no lag"
    await tell(world, roles=("receiver",), unseen={"orders": NOON + 30_000})
    said = "it may be out: outcomes on node-2 wait for the store since 2026-11-21T12:00:30.000Z"
    assert await held(world) == ("queue", said)


async def test_an_earlier_message_of_its_key(world: World) -> None:
    world.offer(workers=lambda: [worker(0, 0)])
    async with world.client() as client:
        await client.patch("/destinations/orders", json={"ordering": "key"})
    first, second, other = (message(n, key="b" if n == 3 else "a", expected=("billing",)) for n in (1, 2, 3))
    await world.store.write([first, second, other, failed(first, "a", 1, due_at=world.clock.now())])
    said = f"it waits for message {first.id}, an earlier one of its key"
    assert await cause_of(world, second.id) == ("order", said)
    await world.store.write([behind(second, "a", 2)])
    assert await cause_of(world, second.id) == ("order", said)
    assert await cause_of(world, first.id) == ("under_way", "it is due and about to be handed over")
    assert (await cause_of(world, other.id) or ("",))[0] == "under_way"
    await world.store.write([dead(first, "a", 1)])
    assert await cause_of(world, first.id) == ("order", "its key waits until a person resends or skips it")
    await world.store.write([outcome(other, "billing", Status.DEAD)])
    assert await cause_of(world, other.id) is None


async def test_nobody_who_delivers_or_hands_over(world: World) -> None:
    world.offer(workers=lambda: [worker(0, 0)])
    (sent,) = await world.written(1)
    await world.store.write([outcome(sent, "billing", Status.RETRYING, due_at=world.clock.now())])
    assert await held(world) == ("nobody", "no compensator is alive, which hands over what is due")
    await tell(world, roles=("compensator",))
    assert await held(world) == ("under_way", "it is due and about to be handed over")
    me = world.context.members._me
    world.context.members._me = msgspec.structs.replace(me, roles=("admin",))
    assert await held(world) == ("nobody", "no dispatcher is alive, so nobody delivers")


async def test_a_trace_comes_without_what_a_silent_dispatcher_would_tell(world: World) -> None:
    """It is answered all the same, with the breakers that were told before."""
    world.offer(workers=lambda: [worker(16, 3)])
    await tell(world, roles=("dispatcher",))
    assert await held(world) is None
    await tell(world, roles=("dispatcher",), breakers={"orders/billing": BreakerFigures("open", NOON, NOON + 65_000)})
    cause, said = await held(world) or ("", "")
    assert (cause, "on node-2" in said) == ("breaker", True)


def test_figures_of_a_process_that_tells_of_no_rate() -> None:
    older = msgspec.msgpack.encode(["orders", "billing", 1, 2, 3, 4])
    assert msgspec.msgpack.decode(older, type=WorkerFigures).rate_wait == 0.0
