"""The contract of every ``EventSink``. Subclass ``EventSinkContract`` with a fixture ``place``."""

# ruff: noqa: S101

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import NamedTuple

from bus.domain.identity import new_id
from bus.domain.tracing.events import BLOCK_BYTES, Block, Stage, TraceEvent, decode_block
from bus.events.gathering import EventBuffer
from bus.ports.events import EventSink, SealedBlock

_NOW = 1_732_240_000_123


class Place(NamedTuple):
    """A sink under test, and what its readers find, in order; they look after ``close``."""

    sink: EventSink
    read: Callable[[], Awaitable[list[bytes]]]


class Source:
    """An emitter of blocks."""

    def __init__(self, node: str = "host-1") -> None:
        self._gathering = EventBuffer("receiver", node, _NOW)
        self.emitter = self._gathering.emitter

    def block(self, events: int = 3, text: str = "") -> SealedBlock:
        """Return the next block."""
        for number in range(events):
            event = TraceEvent(stage=Stage.SENT, at=_NOW, id=new_id(_NOW + number), destination="orders", source=text)
            self._gathering.add(event)
        sealed = self._gathering.close(_NOW)
        assert sealed is not None
        return sealed


def blocks_of(lines: list[bytes], emitter: str) -> list[Block]:
    """Return the blocks of one emitter in order."""
    return [block for block in map(decode_block, lines) if block.emitter == emitter]


class EventSinkContract:
    """The contract of ``bus.ports.events.EventSink``."""

    async def test_readers_find_blocks_as_they_were_written(self, place: Place) -> None:
        """Byte for byte."""
        written = [Source().block(), Source().block(events=1, text='é\u2028\\n"')]
        await place.sink.write(written)
        await place.sink.close()
        assert sorted(await place.read()) == sorted(block.line for block in written)

    async def test_blocks_of_an_emitter_stay_in_order(self, place: Place) -> None:
        """Whatever lies between them."""
        one, two = Source(), Source()
        for _ in range(5):
            await place.sink.write([one.block(), two.block(), one.block()])
            await place.sink.tend()
        await place.sink.close()
        lines = await place.read()
        assert [block.seq for block in blocks_of(lines, one.emitter)] == list(range(1, 11))
        assert [block.seq for block in blocks_of(lines, two.emitter)] == list(range(1, 6))

    async def test_a_block_may_be_written_again(self, place: Place) -> None:
        """Readers recognise it by its emitter and seq."""
        source = Source()
        first, second = source.block(), source.block()
        await place.sink.write([first])
        await place.sink.write([first, second])
        await place.sink.close()
        lines = await place.read()
        assert {line: lines.count(line) for line in lines} == {first.line: 2, second.line: 1}

    async def test_the_largest_block_is_taken(self, place: Place) -> None:
        """Gathering makes none that is longer."""
        block = Source().block(events=1000, text="x" * 512)
        assert len(block.line) > BLOCK_BYTES // 2
        await place.sink.write([block])
        await place.sink.close()
        assert await place.read() == [block.line]

    async def test_closing_without_blocks_leaves_nothing(self, place: Place) -> None:
        """No file, no record."""
        await place.sink.tend()
        await place.sink.close()
        assert await place.read() == []
