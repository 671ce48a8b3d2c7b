"""A compensator tells of each delivery that it handed to a dispatcher."""

from __future__ import annotations

from bus.domain.delivery.delivery import Status
from bus.domain.tracing.context import Sampler, span_of
from bus.domain.tracing.spans import SpanKind
from bus.spans.recorder import SpanRecorder
from bus.testing.writes import message, outcome
from tests.unit.compensator.compensator_world import World

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


async def test_a_delivery_that_was_handed_over_is_below_the_reception() -> None:
    world = World()
    world.spans = SpanRecorder(Sampler(0.0), world.clock)
    world.compensator = world.restarted()
    await world.destination()
    await world.subscription()
    sent = message(1, traceparent=f"00-{TRACE}-{SPAN}-01")
    await world.store.write([sent, outcome(sent, "billing", Status.RETRYING)])
    await world.failed(2)
    await world.clock.advance(3600)
    await world.compensator.step()
    assert len(world.dispatching.ids) == 2
    (span,) = world.spans.take(9)
    assert (span.shape.name, span.shape.kind) == ("compensate orders/billing", SpanKind.INTERNAL)
    assert (span.trace_id, span.parent_id, span.message_id) == (TRACE, span_of(sent.id), sent.id)
    assert dict(span.own) == {"pier.attempts": 1, "pier.origin": "retry"}
