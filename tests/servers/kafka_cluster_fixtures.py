"""Kafka clusters of two brokers for tests that share them, and groups on them that know nothing of each other."""

from __future__ import annotations

import asyncio
import atexit
import functools
import shutil
import tempfile
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path

from bus.clock import SystemClock
from bus.testing.quarantine import MemoryQuarantine
from bus.transports.kafka import KafkaConfig
from bus.transports.kafka.strict import KafkaGroup
from tests.servers import need
from tests.servers.kafka_cluster import KafkaCluster
from tests.servers.kafka_fixtures import changed, quick

_running = ExitStack()


@functools.cache
def cluster(name: str = "a") -> KafkaCluster:
    """Return the one cluster of that name of this process, which runs until its end."""
    jars = need("kafka")
    folder = Path(tempfile.mkdtemp(prefix=f"bus-kafka-{name}-"))
    _running.callback(shutil.rmtree, folder, ignore_errors=True)
    return _running.enter_context(KafkaCluster(jars, folder))


def settings(brokers: KafkaCluster, **changes: object) -> KafkaConfig:
    """Return settings that notice soon what becomes of brokers, with topics of their own."""
    found = changed(quick(brokers.bootstrap[0]), bootstrap=brokers.bootstrap, session_timeout=6.0)
    return changed(found, **changes)


@asynccontextmanager
async def opened_group(config: KafkaConfig, *, fsync: bool = False) -> AsyncIterator[KafkaGroup]:
    """Yield a group that runs; close it with all its readers."""
    group = KafkaGroup(config, MemoryQuarantine(), SystemClock(), fsync=fsync)
    running = asyncio.create_task(group.run())
    try:
        yield group
    finally:
        running.cancel()
        await asyncio.wait([running])
        await group.close()
        if not running.cancelled():
            running.result()


atexit.register(_running.close)
