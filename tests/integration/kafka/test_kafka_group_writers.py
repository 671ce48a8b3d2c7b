"""Writers of a group that are cut off, and those that shut them out."""

from __future__ import annotations

import asyncio

import pytest

from bus.transports.kafka import KafkaConfig
from bus.transports.kafka.codec import record_of
from bus.transports.kafka.connection import Cluster
from bus.transports.kafka.strict import KafkaGroup
from bus.transports.kafka.strict.names import writer_of
from bus.transports.kafka.strict.transactions import batches, begin, new_producer, produce
from tests.integration.kafka.kafka_group_world import (
    DESTINATION,
    NAME,
    assert_in_order,
    read_to_the_end,
    run,
    stands_whole,
    topic,
    who,
)

pytestmark = pytest.mark.timeout(120)


@pytest.mark.parametrize("after", [0.0, 0.002, 0.005, 0.01])
async def test_a_writer_that_is_cut_off_in_a_write_takes_nothing_more(group: KafkaGroup, after: float) -> None:
    writer = await group.writer(DESTINATION)
    assert await writer.write(run(0, 2)) == 2
    writing = asyncio.create_task(writer.write(run(2, 2)))
    await asyncio.wait([writing], timeout=after)
    writing.cancel()
    (cut_off,) = await asyncio.gather(writing, return_exceptions=True)
    held = 4 if cut_off == 2 else 2
    assert cut_off == 2 or await writer.write(run(2, 1)) == 0
    next_one = await group.writer(DESTINATION)
    assert await next_one.write(run(4, 2)) == 2
    assert await writer.write(run(6, 1)) == 0
    found = await read_to_the_end(await group.reader(DESTINATION, NAME))
    assert_in_order(found, [*run(0, held), *run(4, 2)], run(0, 6))


async def test_what_a_dead_writer_left_undecided_is_not_drained_until_the_next_one_has_shut_it_out(
    group_config: KafkaConfig, group: KafkaGroup
) -> None:
    """It is never handed out, and what was confirmed before is."""
    writer = await group.writer(DESTINATION)
    assert await writer.write(run(0, 2)) == 2
    reader = await group.reader(DESTINATION, NAME)
    await _leave_undecided(group_config)
    found = [item for _ in range(2) for item in await reader.receive(1)]
    reader.ack(found)
    assert [item.message.biz_id for item in found] == ["order-0", "order-1"]
    assert not await reader.is_drained()
    assert not (await group.standing(DESTINATION, [NAME])).is_empty
    assert await writer.write(run(8, 1)) == 0
    assert await (await group.writer(DESTINATION)).write(run(9, 1)) == 1
    assert await read_to_the_end(reader) == ["order-9"]
    await stands_whole(group)


async def _leave_undecided(config: KafkaConfig) -> None:
    """Do what a process does that writes and dies before it knows whether the brokers have all."""
    cluster = Cluster(config.client_options(), config.request_timeout)
    await cluster.open()
    producer = await new_producer(cluster, writer_of(topic(config)), ends_within=10.0)
    ((batch, _),) = batches(producer, [record_of(one) for one in run(5, 1)], 0, config.batch_bytes)
    await begin(cluster, producer, topic(config))
    leader = (await who(config)).leader
    await produce(cluster, leader, topic(config), batch, producer, config.publish_timeout)
    await cluster.close()
