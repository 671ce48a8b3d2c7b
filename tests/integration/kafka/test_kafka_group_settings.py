"""A group refuses topics with which it could not keep what it promises."""

from __future__ import annotations

import pytest
from aiokafka.admin import NewTopic

from bus.errors import TransportRefused
from bus.transports.kafka import KafkaConfig
from tests.integration.kafka.kafka_group_world import NAME, ensure, topic
from tests.integration.kafka.kafka_world import operator, settings_of
from tests.servers.kafka_cluster_fixtures import opened_group


@pytest.mark.parametrize(
    ("copies", "settings", "wanted"),
    [
        (1, {}, "2 copies"),
        (2, {"min.insync.replicas": "2"}, "min.insync.replicas=1"),
        (2, {"unclean.leader.election.enable": "true"}, "unclean.leader.election.enable=false"),
    ],
)
async def test_a_topic_that_loses_or_blocks_is_refused_with_what_to_set(
    group_config: KafkaConfig, copies: int, settings: dict[str, str], wanted: str
) -> None:
    async with operator(group_config) as client, opened_group(group_config) as group:
        await client.create_topics([NewTopic(topic(group_config), 1, copies, topic_configs=settings)])
        with pytest.raises(TransportRefused, match=wanted) as refused:
            await ensure(group, NAME)
    assert wanted in refused.value.hint


async def test_a_group_that_syncs_its_disks_has_topics_that_do(group_config: KafkaConfig) -> None:
    async with opened_group(group_config, fsync=True) as group:
        await ensure(group, NAME)
        assert (await settings_of(group_config, topic(group_config)))["flush.messages"] == "1"


async def test_a_topic_with_more_partitions_keeps_no_order(group_config: KafkaConfig) -> None:
    async with operator(group_config) as client, opened_group(group_config) as group:
        await client.create_topics([NewTopic(topic(group_config), 2, 2)])
        with pytest.raises(TransportRefused, match="1 partition"):
            await ensure(group, NAME)
