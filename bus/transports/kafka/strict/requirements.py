"""Required settings of a cluster: one broker alone can be read to the end, and both are needed for a write."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final

from aiokafka import errors as kafka
from aiokafka.protocol.coordination import FindCoordinatorRequest

from bus.errors import TransportRefused
from bus.localized_text import localized
from bus.transports.kafka.connection import OF_TRANSACTIONS, Cluster
from bus.transports.kafka.protocol.metadata import Copies, copies_of
from bus.transports.kafka.protocol.requests import Setting, topic_settings
from bus.transports.kafka.strict.copies import COPIES

_COMMITS: Final = "__consumer_offsets"
_TRANSACTIONS: Final = "__transaction_state"
_BACKOFF: Final = 0.1
_ALONE: Final = {"min.insync.replicas": "1", "unclean.leader.election.enable": "false"}
_FSYNC: Final = {"flush.messages": "1"}
_BROKER: Final = {
    _COMMITS: "offsets.topic.replication.factor=2, min.insync.replicas=1",
    _TRANSACTIONS: "transaction.state.log.replication.factor=2, transaction.state.log.min.isr=1",
}


def settings_of_topics(*, fsync: bool) -> dict[str, str]:
    """Return the settings of a topic that is made for a strictly ordered destination."""
    return _ALONE | (_FSYNC if fsync else {})


async def check_cluster(cluster: Cluster, topic: str, writer: str, *, fsync: bool) -> None:
    """Refuse topics, also Kafka's own, that lose confirmed messages or block when a broker is unreachable.

    Raises
    ------
    TransportRefused
        Says which topic, its current setting, and what to set.
    KafkaError, OSError
        The brokers do not answer.
    """
    await cluster.ask(FindCoordinatorRequest(writer, OF_TRANSACTIONS))  # makes the topic of transactions
    await _check(cluster, topic, settings_of_topics(fsync=fsync), hint="")
    if (count := (await _copies(cluster, topic)).partitions) != 1:
        raise _refused(topic, f"{count} partitions", "1 partition", "")
    for name, hint in _BROKER.items():
        await _check(cluster, name, _ALONE, hint=hint)


async def _check(cluster: Cluster, topic: str, wanted: Mapping[str, str], *, hint: str) -> None:
    copies = await _copies(cluster, topic)
    if len(copies.brokers) != COPIES:
        raise _refused(topic, f"{len(copies.brokers)} copies", f"{COPIES} copies", hint)
    settings = await _settings(cluster, topic)
    for name, value in wanted.items():
        if name in settings and settings[name].value != value:
            raise _refused(topic, f"{name}={settings[name].value}", f"{name}={value}", hint)


async def _settings(cluster: Cluster, topic: str) -> dict[str, Setting]:
    """Return the settings of a topic; retried while the broker that is asked does not have the new topic yet."""
    while True:
        try:
            return await topic_settings(cluster, topic)
        except kafka.UnknownTopicOrPartitionError:
            await asyncio.sleep(_BACKOFF)


async def _copies(cluster: Cluster, topic: str) -> Copies:
    """Return the copies of a topic that exists or is being made."""
    while True:
        for node in cluster.nodes():
            if found := await copies_of(cluster, node, topic):
                return found
        await asyncio.sleep(_BACKOFF)


def _refused(topic: str, found: str, wanted: str, hint: str) -> TransportRefused:
    return TransportRefused(
        localized(
            "kafka: topic {topic} has {found}, and a strict order needs {wanted}",
            topic=topic,
            found=found,
            wanted=wanted,
        ),
        hint=localized("set {settings}", settings=hint or wanted),
    )
