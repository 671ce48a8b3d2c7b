"""The stream of rollups over a topic of a real Kafka."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Sequence
from pathlib import Path

import pytest
from aiokafka import AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic, RecordsToDelete
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from pipeline.commands.rolling import hint_of
from pipeline.errors import line_of
from pipeline.jobs.rollup import Plan, start
from pipeline.lake.batches import READ_LINE
from pipeline.lake.lake import Lake
from pipeline.lake.storage import Storage
from pipeline.schemas import BLOCKS
from pipeline.sources.lines import from_kafka
from pipeline.transforms.blocks import Allowance
from pipeline.transforms.hearing import heard
from tests.harness.rollups import assert_agrees, read_rollups
from tests.harness.spark import CORES
from tests.harness.trace_lines import block, settled
from tests.harness.trace_traffic import START, write_traffic
from tests.servers import kafka_fixtures

PARTITIONS = 3
ANY_TIME = Allowance(late=10**9, future=10**9)


async def _put(bootstrap: str, topic: str, lines: Sequence[str]) -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    try:
        if topic not in await admin.list_topics():
            await admin.create_topics([NewTopic(topic, PARTITIONS, 1)])
    finally:
        await admin.close()
    async with AIOKafkaProducer(bootstrap_servers=bootstrap, acks="all", enable_idempotence=True) as producer:
        sent = [await producer.send(topic, line.strip().encode(), key=line[:40].encode()) for line in lines]
        await asyncio.gather(*sent)


async def _forget(bootstrap: str, topic: str) -> None:
    """Delete every record of the topic, as a retention that is too short does."""
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    try:
        parts = {TopicPartition(topic, number): RecordsToDelete(before_offset=-1) for number in range(PARTITIONS)}
        await admin.delete_records(parts)
    finally:
        await admin.close()


def _run(
    spark: SparkSession, bootstrap: str, topic: str, root: Path, *, batch: float = 256, accept_gap: bool = False
) -> Lake:
    lake = Lake(Storage(str(root / "lake")))
    plan = Plan(str(root / "checkpoint"), every=0, allowance=ANY_TIME, partitions=CORES)
    lines = from_kafka(spark, bootstrap, topic, batch=batch, accept_gap=accept_gap)
    start(spark, lake, lines, plan).wait()
    return lake


@pytest.fixture(scope="module")
def bootstrap() -> str:
    return kafka_fixtures.shared()


@pytest.fixture
def topic() -> str:
    return f"events-{uuid.uuid4().hex[:8]}"


def test_blocks_of_a_topic_are_rolled_up_once(spark: SparkSession, tmp_path: Path, bootstrap: str, topic: str) -> None:
    traffic = write_traffic(tmp_path / "events", 2_000, files=1)
    lines = (tmp_path / "events" / "0000.jsonl").read_text("utf-8").splitlines()
    good = [line for line in lines if line.startswith("{")]
    asyncio.run(_put(bootstrap, topic, [*good, good[0]]))
    lake = _run(spark, bootstrap, topic, tmp_path, batch=0.25)
    assert len(lake.manifests(READ_LINE)) > 1
    rollups = read_rollups(spark, lake)
    in_time = {key: row for key, row in rollups.items() if key in traffic.counts}
    assert_agrees(in_time, traffic)


@pytest.mark.proof
def test_a_gap_in_the_topic_stops_the_stream_until_a_person_accepts_it(
    spark: SparkSession, tmp_path: Path, bootstrap: str, topic: str
) -> None:
    asyncio.run(_put(bootstrap, topic, [block([settled(START)], emitter="e", seq=1)]))
    _run(spark, bootstrap, topic, tmp_path)
    asyncio.run(_put(bootstrap, topic, [block([settled(START)], emitter="e", seq=seq) for seq in range(2, 20)]))
    asyncio.run(_forget(bootstrap, topic))
    for _ in range(2):
        with pytest.raises(StreamingQueryException) as stopped:
            _run(spark, bootstrap, topic, tmp_path)
        assert "--accept-gap" in hint_of(line_of(stopped.value))
    lake = Lake(Storage(str(tmp_path / "lake")))
    assert [row.seq for row in lake.read(spark, BLOCKS, line=READ_LINE).collect()] == [1]
    _run(spark, bootstrap, topic, tmp_path, accept_gap=True)
    asyncio.run(_put(bootstrap, topic, [block([settled(START)], emitter="e", seq=20)]))
    blocks = _run(spark, bootstrap, topic, tmp_path).read(spark, BLOCKS, line=READ_LINE)
    assert sorted(row.seq for row in blocks.collect()) == [1, 20]
    assert [gap.blocks for row in heard(blocks).collect() for gap in row.gaps] == [18]
