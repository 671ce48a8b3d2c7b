"""The path of messages never waits for the sink: what that cannot take is lost, counted, and told once."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest

from bus.domain.identity import new_id
from bus.domain.tracing.events import BLOCK_EVENTS, Stage, TraceEvent, decode_block
from bus.errors import EventsUnavailable
from bus.events.emitter import Emitter
from bus.events.gathering import EventBuffer
from bus.events.nothing import NoEvents
from bus.ports.events import SealedBlock
from bus.telemetry import metrics
from bus.testing.clock import ManualClock
from bus.testing.events import MemorySink
from tests.harness.waiting import until


class Sink(MemorySink):
    """Refuses while ``refusal`` is set, and hangs while the gate is closed."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = asyncio.Event()
        self.gate.set()
        self.refusal: Exception | None = None
        self.writes = 0
        self.tended = 0

    async def tend(self) -> None:
        self.tended += 1

    async def write(self, blocks: Sequence[SealedBlock]) -> None:
        self.writes += 1
        await self.gate.wait()
        if self.refusal is not None:
            raise self.refusal
        await super().write(blocks)

    @property
    def ids(self) -> list[str]:
        return [event.id for block in self.blocks for event in decode_block(block.line).events]

    @property
    def seqs(self) -> list[int]:
        return [decode_block(block.line).seq for block in self.blocks]

    @property
    def lasts(self) -> list[bool]:
        return [decode_block(block.line).last for block in self.blocks]


class World:
    def __init__(self, most: int = 50_000) -> None:
        self.clock = ManualClock()
        self.sink = Sink()
        self.gathering = EventBuffer("receiver", "host-1", self.clock.now(), most=most)
        self.emitter = Emitter(self.sink, self.gathering, self.clock, patience=0.05)
        self.emitted: list[str] = []

    def emit(self, count: int = 1) -> None:
        for _ in range(count):
            self.emitted.append(new_id(self.clock.now()))
            self.emitter.emit(TraceEvent(stage=Stage.SENT, at=0, id=self.emitted[-1], destination="orders"))

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        task = asyncio.create_task(self.emitter.run())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await self.emitter.close(within=0.2)


def lost(why: str) -> float:
    return metrics.EVENTS_LOST.labels(why)._value.get()


async def test_a_sink_is_tended_every_second_however_many_blocks_there_are() -> None:
    world = World()
    async with world.running():
        for seconds in range(1, 4):
            for _ in range(5):
                world.emit(BLOCK_EVENTS)
                await until(lambda: len(world.sink.ids) == len(world.emitted), what="all is written")
            await world.clock.advance(1)
            await until(lambda seconds=seconds: world.sink.tended >= seconds, what="the sink is tended")
        assert world.sink.writes == 15
        assert world.sink.tended <= 4


async def test_events_leave_after_a_second() -> None:
    world = World()
    async with world.running():
        world.emit(3)
        await world.clock.settle()
        assert not world.sink.blocks
        await world.clock.advance(1)
        assert world.sink.ids == world.emitted


async def test_a_whole_block_leaves_at_once() -> None:
    world = World()
    async with world.running():
        await world.clock.settle()
        world.emit(BLOCK_EVENTS + 5)
        await world.clock.settle()
        assert len(world.sink.ids) >= BLOCK_EVENTS


async def test_what_comes_during_a_write_waits_for_a_block_of_its_own() -> None:
    world = World()
    async with world.running():
        await world.clock.settle()
        world.sink.gate.clear()
        world.emit(BLOCK_EVENTS)
        await world.clock.settle()
        world.emit(3)
        world.sink.gate.set()
        await world.clock.settle()
        assert world.sink.ids == world.emitted[:BLOCK_EVENTS]
        await world.clock.advance(1)
        assert world.sink.ids == world.emitted


async def test_the_rest_is_written_at_the_stop() -> None:
    world = World()
    async with world.running():
        world.emit(3)
    assert world.sink.ids == world.emitted


async def test_a_process_that_has_nothing_to_tell_signs_at_its_start_every_three_minutes_and_at_its_end() -> None:
    world = World()
    async with world.running():
        await world.clock.advance(2)
        assert (world.sink.seqs, world.sink.ids) == ([1], [])
        await world.clock.advance(100)
        world.emit()
        await world.clock.advance(2)
        assert (world.sink.seqs, world.sink.ids) == ([1, 2], world.emitted)
        await world.clock.advance(170)
        assert world.sink.seqs == [1, 2]
        await world.clock.advance(20)
        assert world.sink.seqs == [1, 2, 3]
    assert world.sink.lasts == [False, False, False, True]


async def test_a_process_whose_last_events_were_not_written_did_not_end_in_order() -> None:
    world = World()
    async with world.running():
        await world.clock.advance(2)
        world.sink.refusal = EventsUnavailable("the disk is full")
        world.emit()
    assert world.sink.lasts == [False]


async def test_a_refused_block_is_written_again_and_told_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    world = World()
    async with world.running():
        world.sink.refusal = EventsUnavailable("the disk is full")
        world.emit(3)
        await world.clock.advance(10)
        assert world.sink.writes > 3
        assert world.emitter.trouble == "the disk is full"
        world.sink.refusal = None
        await world.clock.advance(3)
        assert world.emitter.trouble == ""
    assert world.sink.ids == world.emitted
    assert (world.sink.seqs, world.sink.lasts) == ([1, 2], [False, True])
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]


async def test_a_sink_that_hangs_costs_events_beyond_the_bound_and_no_time() -> None:
    world = World(most=2_000)
    before = lost("full")
    async with world.running():
        world.sink.gate.clear()
        world.emit(2_000)
        await world.clock.advance(1)
        world.emit(3_000)  # returns, though nothing is written
        await until(lambda: world.emitter.trouble, what="the outage is noted")
        assert "did not answer" in str(world.emitter.trouble)
        assert world.sink.writes == 1
        assert lost("full") - before == world.gathering.lost > 0
        world.sink.gate.set()
        await until(lambda: len(world.sink.ids) == 5_000 - world.gathering.lost, what="the rest is written")
        assert world.sink.seqs == list(range(1, len(world.sink.seqs) + 1))
        assert decode_block(world.sink.blocks[-1].line).lost == world.gathering.lost


async def test_what_a_dead_sink_keeps_from_being_written_at_the_stop_is_counted() -> None:
    world = World()
    before = lost("stopped")
    async with world.running():
        world.sink.refusal = EventsUnavailable("away")
        world.emit(7)
        await world.clock.advance(2)
        world.emit(5)
    assert lost("stopped") - before == 12


async def test_a_sink_with_a_bug_does_not_end_the_process(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    async with world.running():
        world.sink.refusal = ZeroDivisionError("a bug")
        world.emit(3)
        await world.clock.advance(3)
        world.sink.refusal = None
        await world.clock.advance(3)
    assert world.sink.ids == world.emitted
    assert "trace events are in trouble" in caplog.text


async def test_a_write_that_a_stop_met_under_way_is_not_repeated() -> None:
    world = World()
    async with world.running():
        world.sink.gate.clear()
        world.emit(3)
        await world.clock.advance(1)
        world.sink.gate.set()
    assert (world.sink.seqs, world.sink.lasts) == ([1, 2], [False, True])


def foreign(seq: int = 1) -> SealedBlock:
    return SealedBlock("producer", b"%d" % seq, {"sent": 2})


async def test_blocks_of_others_are_passed_on_as_they_are() -> None:
    world = World()
    before = metrics.EVENTS_EMITTED.labels("sent")._value.get()
    async with world.running():
        await world.emitter.forward([foreign(1), foreign(2)])
        assert world.sink.blocks == [foreign(1), foreign(2)]
    assert metrics.EVENTS_EMITTED.labels("sent")._value.get() - before == 4


async def test_others_are_refused_while_the_sink_is_in_trouble() -> None:
    world = World()
    async with world.running():
        world.sink.refusal = EventsUnavailable("the disk is full")
        world.emit()
        await world.clock.advance(2)
        with pytest.raises(EventsUnavailable, match="the disk is full") as refused:
            await world.emitter.forward([foreign()])
        assert refused.value.status == 503
        assert world.sink.writes <= 3


async def test_a_sink_is_not_tended_beside_a_write_of_others_that_was_given_up() -> None:
    world = World()
    world.sink.gate.clear()
    with pytest.raises(EventsUnavailable):
        await world.emitter.forward([foreign()])
    async with world.running():
        await world.clock.advance(1.0)
        await until(lambda: world.emitter.trouble != "", what="the write hangs on")
        assert (world.sink.writes, world.sink.tended) == (1, 0)
        world.sink.gate.set()
        await until(lambda: world.sink.tended == 1, what="the sink is tended")
    assert (world.sink.blocks[0], world.emitter.trouble) == (foreign(), "")


async def test_others_wait_for_a_bounded_time_and_in_bounded_number() -> None:
    world = World()
    async with world.running():
        world.sink.gate.clear()
        calls = [asyncio.create_task(world.emitter.forward([foreign(number)])) for number in range(20)]
        results = await asyncio.gather(*calls, return_exceptions=True)
        statuses = [result.status for result in results if isinstance(result, EventsUnavailable)]
        assert sorted(set(statuses)) == [429, 503]
        assert len(statuses) == 20
        world.sink.gate.set()


async def test_without_events_nothing_is_kept() -> None:
    nothing = NoEvents()
    nothing.emit(TraceEvent(stage=Stage.SENT, at=0, id=new_id(1), destination="a"))
    assert not nothing.is_on
    with pytest.raises(EventsUnavailable):
        await nothing.forward([foreign()])
