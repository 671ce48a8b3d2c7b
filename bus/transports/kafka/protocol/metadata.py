"""Topics, the leaders of their partitions, and whether a topic was deleted and made anew.

The client library's request for metadata is of a version without the ids of topics, so there is one of our own.
"""

from __future__ import annotations

import base64
from collections.abc import Collection
from io import BytesIO
from typing import Final, NamedTuple

from aiokafka import errors as kafka
from aiokafka.protocol.abstract import AbstractType
from aiokafka.protocol.api import Request, RequestStruct, Response
from aiokafka.protocol.metadata import MetadataRequest
from aiokafka.protocol.types import Boolean, CompactArray, CompactString, Int16, Int32, Schema, TaggedFields

from bus.transports.kafka.connection import Cluster

_NO_LEADER: Final = -1
_METADATA: Final = 3


class Layout(NamedTuple):
    """A topic as it is now.

    Attributes
    ----------
    id
        Another one when the topic was deleted and made anew; empty when the brokers are older than Kafka 2.8.
    leaders
        The broker that leads each partition, None for one without a leader now.
    """

    id: str
    leaders: dict[int, int | None]


class Copies(NamedTuple):
    """The copies of a topic's first partition, by the brokers that keep them, as one broker reports it.

    Attributes
    ----------
    leader
        None when there is no leader now.
    in_step
        Those that have all that was acknowledged.
    partitions
        How many the topic has.
    """

    leader: int | None
    brokers: frozenset[int]
    in_step: frozenset[int]
    partitions: int


async def copies_of(cluster: Cluster, node: int, topic: str) -> Copies | None:
    """Return a broker's view of the copies of a topic, None when it does not exist.

    Raises
    ------
    KafkaError
        We may not see it, or the broker does not answer.
    """
    answer = await cluster.ask_node(node, _TopicsRequest([topic]))
    ((error_code, _, _, _, partitions, *_),) = answer.topics
    error = kafka.for_code(error_code)
    if error is kafka.UnknownTopicOrPartitionError:
        return None
    if error is not kafka.NoError:
        raise error(topic)
    _, _, leader, _, brokers, in_step, *_ = min(partitions, key=lambda entry: entry[1])
    return Copies(None if leader == _NO_LEADER else leader, frozenset(brokers), frozenset(in_step), len(partitions))


async def layouts(cluster: Cluster, topics: Collection[str]) -> dict[str, Layout]:
    """Return how each topic is; one that does not exist, or that we may not see, is left out."""
    found, _ = await _look(cluster, topics)
    return found


async def layout_of(cluster: Cluster, topic: str) -> Layout | None:
    """Return how a topic is, None when it does not exist.

    Raises
    ------
    KafkaError
        We may not see it.
    """
    found, errors = await _look(cluster, [topic])
    if topic in errors:
        raise errors[topic](topic)
    return found.get(topic)


async def _look(cluster: Cluster, topics: Collection[str]) -> tuple[dict[str, Layout], dict[str, type[Exception]]]:
    """Return the topics that exist, and why others cannot be seen."""
    try:
        answer = await cluster.ask(_TopicsRequest(topics))
    except NotImplementedError:
        answer = await cluster.ask(MetadataRequest(list(topics), allow_auto_topic_creation=False))
        entries = [(error_code, name, b"", partitions) for error_code, name, _, partitions in answer.topics]
    else:
        entries = [(error_code, name, topic_id, parts) for error_code, name, topic_id, _, parts, *_ in answer.topics]
    cluster.learn(answer)
    found: dict[str, Layout] = {}
    errors: dict[str, type[Exception]] = {}
    for error_code, name, topic_id, partitions in entries:
        error = kafka.for_code(error_code)
        if error is kafka.NoError:
            led = {partition: None if leader == _NO_LEADER else leader for _, partition, leader, *_ in partitions}
            found[name] = Layout(_text(topic_id), led)
        elif error not in (kafka.UnknownTopicOrPartitionError, kafka.LeaderNotAvailableError):
            errors[name] = error
    return found, errors


def _text(topic_id: bytes) -> str:
    """Return an id as Kafka's own tools write it; empty for the id that means none."""
    return base64.urlsafe_b64encode(topic_id).decode().rstrip("=") if any(topic_id) else ""


class _Uuid(AbstractType):  # type: ignore[misc]
    """Sixteen bytes."""

    SIZE = 16

    @classmethod
    def encode(cls, value: bytes) -> bytes:
        return value

    @classmethod
    def decode(cls, data: BytesIO) -> bytes:
        return data.read(cls.SIZE)


class _TopicsResponseV10(Response):  # type: ignore[misc]
    API_KEY = _METADATA
    API_VERSION = 10
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        (
            "brokers",
            CompactArray(
                ("node_id", Int32),
                ("host", CompactString("utf-8")),
                ("port", Int32),
                ("rack", CompactString("utf-8")),
                ("tags", TaggedFields),
            ),
        ),
        ("cluster_id", CompactString("utf-8")),
        ("controller_id", Int32),
        (
            "topics",
            CompactArray(
                ("error_code", Int16),
                ("name", CompactString("utf-8")),
                ("topic_id", _Uuid),
                ("is_internal", Boolean),
                (
                    "partitions",
                    CompactArray(
                        ("error_code", Int16),
                        ("partition", Int32),
                        ("leader", Int32),
                        ("leader_epoch", Int32),
                        ("replicas", CompactArray(Int32)),
                        ("isr", CompactArray(Int32)),
                        ("offline_replicas", CompactArray(Int32)),
                        ("tags", TaggedFields),
                    ),
                ),
                ("authorized_operations", Int32),
                ("tags", TaggedFields),
            ),
        ),
        ("authorized_operations", Int32),
        ("tags", TaggedFields),
    )


class _TopicsRequestV10(RequestStruct):  # type: ignore[misc]
    FLEXIBLE_VERSION = True
    API_KEY = _METADATA
    API_VERSION = 10
    RESPONSE_TYPE = _TopicsResponseV10
    SCHEMA = Schema(
        (
            "topics",
            CompactArray(("topic_id", _Uuid), ("name", CompactString("utf-8")), ("tags", TaggedFields)),
        ),
        ("allow_auto_topic_creation", Boolean),
        ("include_cluster_authorized_operations", Boolean),
        ("include_topic_authorized_operations", Boolean),
        ("tags", TaggedFields),
    )


class _TopicsRequest(Request[_TopicsRequestV10]):  # type: ignore[misc]
    """Asks for topics by name; makes none."""

    API_KEY = _METADATA

    def __init__(self, topics: Collection[str]) -> None:
        self._topics = topics

    def build(self, request_struct_class: type[_TopicsRequestV10]) -> _TopicsRequestV10:
        no_tags: dict[int, bytes] = {}
        topics = [(bytes(_Uuid.SIZE), name, no_tags) for name in self._topics]
        return request_struct_class(topics, False, False, False, no_tags)
