"""A broker that has not heard of a new topic yet is asked again."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from aiokafka import errors as kafka
from aiokafka.protocol.admin import DescribeConfigsRequest

from bus.transports.kafka.connection import Cluster
from bus.transports.kafka.strict.requirements import check_cluster

UNKNOWN = kafka.UnknownTopicOrPartitionError.errno
PARTITION = (0, 0, 1, 0, [1, 2], [1, 2])


class LateCluster(Cluster):
    """Two brokers, of which the one that is asked for settings first has not heard of the topic."""

    def __init__(self) -> None:
        super().__init__({"bootstrap_servers": "127.0.0.1:1"}, timeout=1.0)
        self.unheard = 1

    def nodes(self) -> list[int]:
        return [1, 2]

    async def ask(self, request: Any) -> Any:
        if not isinstance(request, DescribeConfigsRequest):
            return None
        error = UNKNOWN if self.unheard > 0 else 0
        self.unheard -= 1
        return SimpleNamespace(resources=[(error, None, 2, "", [])])

    async def ask_node(self, node: int, request: Any) -> Any:
        del node, request
        return SimpleNamespace(topics=[(0, "", "", False, [PARTITION])])


async def test_a_broker_that_has_not_heard_of_the_topic_is_asked_again() -> None:
    cluster = LateCluster()
    await check_cluster(cluster, "orders", "writer", fsync=False)
    assert cluster.unheard < 0
