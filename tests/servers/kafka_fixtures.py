"""A Kafka for tests that share one, and transports on it that know nothing of each other."""

from __future__ import annotations

import asyncio
import atexit
import functools
import itertools
import os
import shutil
import tempfile
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path

from aiokafka import AIOKafkaConsumer

from bus.clock import SystemClock
from bus.ports.clock import Clock
from bus.testing.quarantine import MemoryQuarantine
from bus.transports.kafka import KafkaConfig, KafkaTransport
from tests.servers import docker, kafka, need

IMAGE = "confluentinc/cp-kafka:8.1.0"

_running = ExitStack()
_numbers = itertools.count()


@functools.cache
def shared() -> str:
    """Return the bootstrap server of the one Kafka of this process, which runs until its end.

    It is the environment's, else one in Docker where an engine answers, else ``local``.
    """
    if url := kafka.url():
        return url
    if docker.answers():
        from testcontainers.community.kafka import KafkaContainer  # noqa: PLC0415 - only where an engine answers

        return str(_running.enter_context(KafkaContainer(IMAGE).with_kraft()).get_bootstrap_server())
    return local().bootstrap


@functools.cache
def local() -> kafka.KafkaServer:
    """Return the one local Kafka of this process, for tests that kill, stop and wipe it and then start it again."""
    jars = need("kafka")
    folder = Path(tempfile.mkdtemp(prefix="bus-kafka-"))
    _running.callback(shutil.rmtree, folder, ignore_errors=True)
    return _running.enter_context(kafka.KafkaServer(jars, folder))


def quick(bootstrap: str) -> KafkaConfig:
    """Return settings that notice soon what a broker says, with topics of their own.

    What is taken for dead or lost is so after times that a machine which stalls does not use up.
    """
    return KafkaConfig(
        bootstrap=(bootstrap,),
        prefix=f"t{os.getpid()}.{next(_numbers)}.",
        request_timeout=10.0,
        publish_timeout=20.0,
        ensure_timeout=30.0,
        refresh=0.2,
        commit_interval=0.05,
        drain_timeout=1.0,
        session_timeout=10.0,
        heartbeat_interval=0.3,
    )


@asynccontextmanager
async def opened(
    config: KafkaConfig, kept: MemoryQuarantine | None = None, clock: Clock | None = None
) -> AsyncIterator[KafkaTransport]:
    """Yield a transport that runs; close it with all its consumers."""
    transport = KafkaTransport(config, kept or MemoryQuarantine(), clock or SystemClock())
    running = asyncio.create_task(transport.run())
    try:
        yield transport
    finally:
        running.cancel()
        await asyncio.wait([running])
        await transport.close()
        if not running.cancelled():
            running.result()


def changed(config: KafkaConfig, **changes: object) -> KafkaConfig:
    """Return other settings."""
    return replace(config, **changes)  # type: ignore[arg-type]


async def records(config: KafkaConfig, topic: str) -> list[tuple[bytes, bytes]]:
    """Return keys and values of a topic (its name after the prefix), partition by partition; none where it is not."""
    consumer = AIOKafkaConsumer(**config.client_options(), auto_offset_reset="earliest")
    await consumer.start()
    try:
        topic = config.prefix + topic
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


atexit.register(_running.close)
