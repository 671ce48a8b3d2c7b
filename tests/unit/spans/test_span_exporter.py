"""Spans on their way to a collector that is away, hangs or refuses: they are counted, and hold nothing up."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from bus.domain.tracing.context import Sampler
from bus.spans.collector import CollectorReply
from bus.spans.exporter import SpanExporter
from bus.spans.recorder import BATCH_SPANS, SpanRecorder
from bus.telemetry import metrics
from bus.testing.clock import ManualClock
from bus.testing.writes import message

AWAY = CollectorReply("it is away", may_repeat=True)


class Collector:
    """Answers as it is told, and hangs while the gate is closed."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self.answer = CollectorReply()
        self.gate = asyncio.Event()
        self.gate.set()
        self.calls = 0
        self.is_closed = False

    async def take(self, body: bytes) -> CollectorReply:
        self.calls += 1
        await self.gate.wait()
        if not self.answer.trouble:
            self.bodies.append(body)
        return self.answer

    async def close(self) -> None:
        self.is_closed = True

    @property
    def sizes(self) -> list[int]:
        requests = map(ExportTraceServiceRequest.FromString, self.bodies)
        return [len(request.resource_spans[0].scope_spans[0].spans) for request in requests]


class World:
    def __init__(self, most: int = 20_000) -> None:
        self.clock = ManualClock()
        self.collector = Collector()
        self.recorder = SpanRecorder(Sampler(1.0), self.clock, most=most)
        self.exporter = SpanExporter(self.recorder, self.collector, {"service.name": "pier"}, "1", self.clock)
        self._before = {why: dropped(why) for why in ("full", "refused", "stopped", "broken")}

    def record(self, count: int) -> None:
        for number in range(count):
            self.recorder.accepted(message(number))

    def lost(self, why: str) -> float:
        return dropped(why) - self._before[why]

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        task = asyncio.create_task(self.exporter.run())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


def dropped(why: str) -> float:
    return metrics.SPANS_DROPPED.labels(why)._value.get()


async def test_spans_leave_after_a_second_or_when_there_are_many() -> None:
    world = World()
    async with world.running():
        world.record(3)
        await world.clock.advance(0.5)
        assert world.collector.bodies == []
        await world.clock.advance(0.6)
        assert world.collector.sizes == [3]
        world.record(BATCH_SPANS + 1)
        await world.clock.settle()
        assert world.collector.sizes == [3, BATCH_SPANS]


async def test_what_is_not_taken_now_is_sent_again_and_what_there_is_no_room_for_is_counted() -> None:
    world = World(most=10)
    world.collector.answer = AWAY
    async with world.running():
        world.record(4)
        await world.clock.advance(1.1)
        assert world.recorder.trouble == "it is away"
        world.record(15)
        assert world.lost("full") == 5
        world.collector.answer = CollectorReply()
        await world.clock.advance(4)
        assert world.collector.sizes == [4, 10]
    assert world.recorder.trouble == ""
    assert world.lost("refused") == 0


async def test_the_waits_between_tries_become_longer() -> None:
    world = World()
    world.collector.answer = AWAY
    async with world.running():
        world.record(1)
        for _ in range(200):
            await world.clock.advance(1)
    assert 8 < world.collector.calls < 15


async def test_what_is_refused_for_good_is_dropped_and_counted() -> None:
    world = World()
    world.collector.answer = CollectorReply("400")
    async with world.running():
        world.record(3)
        await world.clock.advance(1.1)
        assert (world.lost("refused"), world.recorder.trouble) == (3, "400")
        world.collector.answer = CollectorReply(rejected=2)
        world.record(5)
        await world.clock.advance(1.1)
        assert (world.lost("refused"), world.recorder.trouble) == (5, "")


async def test_a_stop_sends_what_is_left() -> None:
    world = World()
    async with world.running():
        world.record(BATCH_SPANS + 7)
        await world.clock.settle()
    await world.exporter.close()
    assert world.collector.sizes == [BATCH_SPANS, 7]
    assert world.collector.is_closed
    assert world.lost("stopped") == 0


async def test_a_stop_waits_for_no_collector() -> None:
    for hangs in (True, False):
        world = World()
        if hangs:
            world.collector.gate.clear()
        else:
            world.collector.answer = AWAY
        async with world.running():
            world.record(BATCH_SPANS + 7)
            await world.clock.settle()
        began = time.monotonic()
        await world.exporter.close(within=0.2)
        assert time.monotonic() - began < 5
        assert world.lost("stopped") == BATCH_SPANS + 7
        assert world.collector.is_closed


async def test_a_span_that_cannot_be_encoded_costs_no_other() -> None:
    world = World()
    async with world.running():
        world.record(2)
        world.recorder._waiting[0] = msgspec.structs.replace(world.recorder._waiting[0], trace_id="no hexadecimal")
        await world.clock.advance(1.1)
    assert world.collector.sizes == [1]
    assert world.lost("broken") == 1
