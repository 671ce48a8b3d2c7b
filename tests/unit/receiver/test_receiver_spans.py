"""A receiver's spans: of a message that became durable, and of each broker that was tried."""

from __future__ import annotations

import asyncio

import pytest

from bus.domain.tracing.context import Sampler, span_of
from bus.domain.tracing.spans import SpanKind
from bus.errors import SpoolFull
from bus.spans.recorder import SpanRecorder
from tests.harness.gated_spool import once
from tests.unit.receiver.receiver_world import World

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


@pytest.fixture
async def world() -> World:
    world = World()
    world.spans = SpanRecorder(Sampler(0.0), world.clock)
    world.restart()
    await world.destination("orders", "billing")
    return world


async def test_a_durable_message_is_below_its_producers_span(world: World) -> None:
    world.spool.gate.clear()
    sending = asyncio.create_task(world.send(b"12345", source="shop", traceparent=f"00-{TRACE}-{SPAN}-01"))
    await world.clock.settle()
    await world.clock.advance(0.25)
    assert len(world.spans) == 0
    world.spool.gate.set()
    accepted = await sending
    (span,) = world.spans.take(9)
    assert (span.shape.name, span.shape.kind) == ("receive orders", SpanKind.CONSUMER)
    assert (span.trace_id, span.parent_id, span.span_id) == (TRACE, SPAN, span_of(accepted.id))
    assert (span.message_id, span.duration) == (accepted.id, 250)
    found = dict(span.shape.attributes)
    assert (span.size, found["pier.source"]) == (5, "shop")
    assert found["messaging.destination.name"] == "orders"


async def test_no_repetition_refusal_or_message_that_is_not_sampled_is_told(world: World) -> None:
    traced = {"traceparent": f"00-{TRACE}-{SPAN}-01"}
    first = await world.send(id=world.id(), **traced)
    assert (await world.send(id=first.id, **traced)).duplicate
    world.spool.refuse = once(SpoolFull("full"))
    with pytest.raises(SpoolFull):
        await world.send(**traced)
    await world.send(traceparent=f"00-{TRACE}-{SPAN}-00")
    await world.send()
    assert [span.message_id for span in world.spans.take(9)] == [first.id]


async def test_a_transport_that_took_it_is_below_the_reception(world: World) -> None:
    accepted = await world.send(traceparent=f"00-{TRACE}-{SPAN}-01")
    stopping = asyncio.Event()
    running = asyncio.create_task(world.publisher.run(stopping))
    await world.clock.until(lambda: len(world.spans) == 2)
    stopping.set()
    await running
    span = world.spans.take(9)[1]
    assert (span.shape.name, span.shape.kind, span.span_id) == ("publish orders", SpanKind.PRODUCER, "")
    assert (span.trace_id, span.parent_id, span.error) == (TRACE, span_of(accepted.id), "")
    assert dict(span.shape.attributes)["pier.transport"] == "direct"
