"""Every sink of trace events keeps the contract: memory, files, Kafka."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer

from bus.clock import SystemClock
from bus.events.file_sink import FileSink
from bus.events.files import CLOSED, Limits
from bus.testing.contracts.events import EventSinkContract, Place
from bus.testing.events import MemorySink
from bus.transports.kafka import KafkaConfig, KafkaEventSink
from tests.servers.kafka_fixtures import quick, shared


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


async def records(config: KafkaConfig) -> list[tuple[bytes, bytes]]:
    """Return keys and values of the topic of events, partition by partition; none when it was not made."""
    consumer = AIOKafkaConsumer(**config.client_options(), auto_offset_reset="earliest")
    await consumer.start()
    try:
        topic = config.prefix + TOPIC
        if topic not in await consumer.topics():
            return []
        consumer.subscribe([topic])
        found: list[tuple[bytes, bytes]] = []
        ends: dict[object, int] = {}
        while not ends or any([await consumer.position(each) < end for each, end in ends.items()]):
            for batch in (await consumer.getmany(timeout_ms=500)).values():
                found += [(record.key, record.value) for record in batch]
            if consumer.assignment():
                ends = await consumer.end_offsets(consumer.assignment())
        return found
    finally:
        await consumer.stop()


class TestKafkaEventSink(EventSinkContract):
    @pytest.fixture
    async def place(self) -> AsyncIterator[Place]:
        config = quick(shared())
        sink = KafkaEventSink(config, TOPIC)

        async def read() -> list[bytes]:
            return [value for _, value in await records(config)]

        yield Place(sink, read)
        await sink.close()
