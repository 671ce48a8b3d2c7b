"""Readers of a group that are gone, or stand still, and those that take over."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from bus.transports.kafka import KafkaConfig
from bus.transports.kafka.strict import KafkaGroup
from tests.harness.process import Child, module
from tests.integration.kafka.kafka_group_world import (
    DESTINATION,
    NAME,
    ensure,
    eventually,
    read_to_the_end,
    receive,
    run,
)
from tests.servers.kafka_cluster_fixtures import opened_group
from tests.servers.kafka_fixtures import changed

pytestmark = pytest.mark.timeout(120)


def _worker(config: KafkaConfig, folder: Path, *, pauses: bool) -> Child:
    settings = json.dumps({"bootstrap": config.bootstrap, "prefix": config.prefix, "pauses": pauses})
    return Child(module("tests.integration.kafka.kafka_group_worker", settings), log=folder / "worker.log")


async def test_the_next_reader_takes_over_from_a_process_that_was_killed(
    group_config: KafkaConfig, group: KafkaGroup, tmp_path: Path
) -> None:
    """What it had received and not acked comes first."""
    writer = await group.writer(DESTINATION)
    assert await writer.write(run(0, 10)) == 10
    with _worker(group_config, tmp_path, pauses=False) as worker:
        assert worker.ready_line()["received"] == ["order-0", "order-1", "order-2"]
        worker.kill()
    reader = await group.reader(DESTINATION, NAME)
    assert await read_to_the_end(reader) == [f"order-{n}" for n in range(1, 10)]


async def test_a_process_that_stood_still_hands_out_nothing_of_what_another_one_has_by_now(
    group_config: KafkaConfig, group: KafkaGroup, tmp_path: Path
) -> None:
    writer = await group.writer(DESTINATION)
    assert await writer.write(run(0, 10)) == 10
    with _worker(group_config, tmp_path, pauses=True) as worker:
        assert worker.ready_line()["received"] == ["order-0", "order-1", "order-2"]
        worker.signal(signal.SIGSTOP)
        reader = await group.reader(DESTINATION, NAME)
        found = await receive(reader, 1, count=3)
        worker.signal(signal.SIGCONT)
        assert worker.ready_line(number=1)["received"] == []
    assert [item.message.biz_id for item in found] == ["order-1", "order-2", "order-3"]


async def test_what_is_acked_is_committed_at_once(group_config: KafkaConfig) -> None:
    async with opened_group(changed(group_config, commit_interval=600.0)) as group:
        await ensure(group, NAME)
        writer = await group.writer(DESTINATION)
        assert await writer.write(run(0, 3)) == 3
        reader = await group.reader(DESTINATION, NAME)
        for left in (2, 1, 0):
            reader.ack(await reader.receive(1))

            async def is_committed(left: int = left) -> bool:
                lag = (group.lags() or {}).get((DESTINATION, NAME))
                return lag is not None and lag.records == left

            await eventually(is_committed)
