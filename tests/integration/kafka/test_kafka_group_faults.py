"""A group of two brokers whose copies are killed, paused and brought back."""

from __future__ import annotations

import pytest

from bus.errors import TransportUnavailable
from bus.ports.broker_group import AWAY
from bus.transports.kafka import KafkaConfig
from bus.transports.kafka.strict import KafkaGroup
from tests.integration.kafka.kafka_group_world import (
    DESTINATION,
    NAME,
    assert_in_order,
    opened_writer,
    read_to_the_end,
    receive,
    run,
    stands_whole,
    who,
)
from tests.servers.kafka_cluster import KafkaCluster

pytestmark = pytest.mark.timeout(120)


@pytest.mark.parametrize("is_leader", [True, False])
async def test_with_one_broker_killed_all_is_read_and_nothing_written(
    brokers: KafkaCluster, group_config: KafkaConfig, group: KafkaGroup, *, is_leader: bool
) -> None:
    reader = await group.reader(DESTINATION, NAME)
    writer = await group.writer(DESTINATION)
    written = run(0, 6)
    assert [await writer.write([one]) for one in written[:5]] == [1] * 5
    copies = await who(group_config)
    brokers.brokers[copies.leader if is_leader else copies.other].kill()
    assert await writer.write(written[5:]) == 0
    assert await writer.write(written[5:]) == 0
    await writer.close()
    assert await group.standing(DESTINATION, [NAME]) == AWAY
    with pytest.raises(TransportUnavailable):
        await group.writer(DESTINATION)
    assert_in_order(await read_to_the_end(reader), written[:5], written)
    assert not (await group.standing(DESTINATION, [NAME])).is_empty
    brokers.start()
    await stands_whole(group)
    writer = await opened_writer(group)
    assert await writer.write(run(6, 1)) == 1
    assert [item.message.biz_id for item in await receive(reader)] == ["order-6"]


async def test_what_was_confirmed_is_there_when_both_were_killed(brokers: KafkaCluster, group: KafkaGroup) -> None:
    reader = await group.reader(DESTINATION, NAME)
    writer = await group.writer(DESTINATION)
    written = run(0, 6)
    assert await writer.write(written[:5]) == 5
    for broker in brokers.brokers.values():
        broker.kill()
    assert await writer.write(written[5:]) == 0
    assert not await reader.is_drained()
    assert await group.standing(DESTINATION, [NAME]) == AWAY
    brokers.start()
    assert_in_order(await read_to_the_end(reader), written[:5], written)
    await stands_whole(group)


async def test_a_copy_that_is_behind_does_not_speak_for_the_one_that_is_away(
    brokers: KafkaCluster, group_config: KafkaConfig, group: KafkaGroup
) -> None:
    """Everything is read, and the one that was alone last, and may have taken more, is away."""
    reader = await group.reader(DESTINATION, NAME)
    writer = await group.writer(DESTINATION)
    written = run(0, 6)
    assert await writer.write(written[:5]) == 5
    copies = await who(group_config)
    brokers.brokers[copies.other].kill()
    assert await writer.write(written[5:]) == 0
    await writer.close()
    assert_in_order(await read_to_the_end(reader), written[:5], written)
    brokers.brokers[copies.leader].kill()
    brokers.brokers[copies.other].start()
    assert not await reader.is_drained()
    assert await group.standing(DESTINATION, [NAME]) == AWAY
    with pytest.raises(TransportUnavailable):
        await group.writer(DESTINATION)
    brokers.start()
    await stands_whole(group)


@pytest.mark.proof  # it takes 6 to 41 s, by how long the client waits for the paused broker
async def test_a_paused_leader_is_as_good_as_a_killed_one(
    brokers: KafkaCluster, group_config: KafkaConfig, group: KafkaGroup
) -> None:
    reader = await group.reader(DESTINATION, NAME)
    writer = await group.writer(DESTINATION)
    written = run(0, 6)
    assert await writer.write(written[:5]) == 5
    paused = brokers.brokers[(await who(group_config)).leader]
    paused.pause()
    assert await writer.write(written[5:]) == 0
    await writer.close()
    assert await group.standing(DESTINATION, [NAME]) == AWAY
    assert_in_order(await read_to_the_end(reader), written[:5], written)
    paused.resume()
    await stands_whole(group)
