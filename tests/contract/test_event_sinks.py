"""Every sink of trace events keeps the contract: memory, files, Kafka."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bus.clock import SystemClock
from bus.events.file_sink import FileSink
from bus.events.files import CLOSED, Limits
from bus.testing.contracts.events import EventSinkContract, Place
from bus.testing.events import MemorySink
from bus.transports.kafka import KafkaEventSink
from tests.servers.kafka_fixtures import quick, records, shared


class TestMemorySink(EventSinkContract):
    @pytest.fixture
    def place(self) -> Place:
        sink = MemorySink()

        async def read() -> list[bytes]:
            return [block.line for block in sink.blocks]

        return Place(sink, read)


class TestFileSink(EventSinkContract):
    @pytest.fixture
    async def place(self, tmp_path: Path) -> AsyncIterator[Place]:
        directory = tmp_path / "events"
        sink = FileSink(directory, "emitter", Limits(2**30, 0), SystemClock())

        async def read() -> list[bytes]:
            found = list(directory.glob("*")) if directory.exists() else []
            assert all(path.suffix == CLOSED for path in found)
            return [line for path in sorted(found) for line in path.read_bytes().splitlines()]

        yield Place(sink, read)
        await sink.close()


TOPIC = "bus-events"


class TestKafkaEventSink(EventSinkContract):
    @pytest.fixture
    async def place(self) -> AsyncIterator[Place]:
        config = quick(shared())
        sink = KafkaEventSink(config, TOPIC)

        async def read() -> list[bytes]:
            return [value for _, value in await records(config, TOPIC)]

        yield Place(sink, read)
        await sink.close()
