"""Observation of a topic on the nsqds of a cluster: depth, clients, message counts."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final, NamedTuple
from urllib.parse import quote

import msgspec

from bus.domain.routing.answers import Answer, Peer, Unreadable, opened
from bus.domain.routing.evidence import ChannelSeen, PartSeen, TopicObservation
from bus.domain.routing.rooms import Access
from bus.localized_text import AnyText, localized
from lookup.cluster import Cluster
from lookup.nsqlookupd import LookupUnavailable, NsqlookupdClient

WITHIN: Final = 2.0
"""Seconds that an nsqd has for its statistics."""
_OK: Final = 200


class _Channel(msgspec.Struct):
    channel_name: str
    depth: int = 0
    in_flight_count: int = 0
    deferred_count: int = 0
    delayed_queue_count: int = 0
    client_count: int = 0
    client_num: int = 0
    clients: list[Any] | None = None

    @property
    def seen(self) -> ChannelSeen:
        consumers = max(self.client_count, self.client_num, len(self.clients or ()))
        deferred = self.deferred_count + self.delayed_queue_count
        return ChannelSeen(self.channel_name, self.depth, self.in_flight_count, deferred, consumers)


class _Publishers(msgspec.Struct):
    protocol: str = ""


class _Topic(msgspec.Struct):
    topic_name: str
    topic_partition: str | int | None = None
    depth: int = 0
    message_count: int = 0
    channels: list[_Channel] | None = None
    client_pub_stats: list[_Publishers] | msgspec.UnsetType | None = msgspec.UNSET

    @property
    def writers(self) -> int | None:
        """Number of connections that publish, from the fork; not those over HTTP, which stay listed long after."""
        if self.client_pub_stats is msgspec.UNSET:
            return None
        return sum(not one.protocol.startswith("http") for one in self.client_pub_stats or ())


class _MessageCounts(msgspec.Struct):
    topic: str


class _Producer(msgspec.Struct):
    pub_counts: list[_MessageCounts] | msgspec.UnsetType | None = msgspec.UNSET


class _Stats(msgspec.Struct):
    start_time: int = 0
    topics: list[_Topic] | None = None
    producers: list[_Producer] | msgspec.UnsetType | None = msgspec.UNSET

    def writers(self, topic: str) -> int | None:
        """Return how many connections publish to a topic; None without figures.

        The fork reports them by partition, stock nsqd by connection. A connection that does not say to which topic it
        publishes may publish to any.
        """
        told = [found.writers for found in self.topics or () if found.topic_name == topic]
        counted = [writers for writers in told if writers is not None]
        if counted:
            return sum(counted)
        if self.producers is msgspec.UNSET:
            return None
        return sum(_publishes(one, topic) for one in self.producers or ())


class _Node(NamedTuple):
    address: str
    stats: _Stats | None
    trouble: AnyText


class Evidence:
    """Asks the nsqds of clusters."""

    def __init__(self, client: NsqlookupdClient) -> None:
        self._client = client

    async def look(
        self, cluster: Cluster | None, name: str, topic: str, known: Collection[str] = ()
    ) -> TopicObservation:
        """Return a topic in a cluster; the result names the parts that could not be asked.

        Parameters
        ----------
        known
            ``HOST:HTTP_PORT`` of stock nsqds that had the topic once: they are asked as well.
        """
        if cluster is None:
            return TopicObservation(
                cluster=name, unknown=(localized("{name} is no cluster of this proxy's file", name=name),)
            )
        try:
            answer = await cluster.lookup(topic, Access.READ, with_meta=True)
        except LookupUnavailable as error:
            return TopicObservation(cluster=name, unknown=(error.said,))
        if answer.is_partitioned:
            return await self._partitions(name, topic, answer)
        unknown = [localized("the nsqlookupds of {name} have just come back", name=name)] if cluster.is_settling else []
        addresses = dict.fromkeys((*(address_of(peer) for peer in answer.producers), *known))
        nodes = await self._ask(addresses, topic)
        parts = tuple(
            part for node in nodes if node.stats is not None for part in _stock(node.address, node.stats, topic)
        )
        return TopicObservation(
            cluster=name,
            is_fork=cluster.is_fork,
            exists=bool(parts),
            parts=parts,
            producers=_writers(nodes, topic),
            unknown=(*unknown, *(node.trouble for node in nodes if node.trouble)),
        )

    async def _partitions(self, name: str, topic: str, answer: Answer) -> TopicObservation:
        """Return a topic of the fork, each partition as its leader has it."""
        meta, leaders = answer.meta or {}, answer.partitions or {}
        count = _number(meta.get("partition_num"))
        nodes = {
            node.address: node for node in await self._ask({address_of(peer): None for peer in leaders.values()}, topic)
        }
        parts, unknown = [], [node.trouble for node in nodes.values() if node.trouble]
        for number in range(count):
            leader = leaders.get(str(number))
            node = nodes.get(address_of(leader)) if leader is not None else None
            part = _partition(node, topic, number) if node is not None else None
            if part is not None:
                parts.append(part)
            elif node is None or not node.trouble:
                unknown.append(
                    localized(
                        "partition {number} of {topic} has no leader on {name}", number=number, topic=topic, name=name
                    )
                )
        return TopicObservation(
            cluster=name,
            is_fork=True,
            exists=bool(count),
            partitions=count,
            meta=meta,
            parts=tuple(parts),
            producers=_writers(nodes.values(), topic),
            unknown=tuple(unknown),
        )

    async def _ask(self, addresses: Iterable[str], topic: str) -> list[_Node]:
        return list(await asyncio.gather(*(self._node(address, topic) for address in addresses)))

    async def _node(self, address: str, topic: str) -> _Node:
        target = f"/stats?format=json&topic={quote(topic, safe='')}"
        try:
            answered = await self._client.ask(address, target, within=WITHIN)
            return _Node(address, _read(answered.status, answered.content), "")
        except LookupUnavailable as error:
            return _Node(address, None, error.said)
        except (Unreadable, msgspec.ValidationError) as error:
            said = localized("http://{address} tells no statistics: {error}", address=address, error=str(error))
            return _Node(address, None, said)


def address_of(peer: Peer) -> str:
    """Return ``HOST:HTTP_PORT`` of an nsqd from an nsqlookupd's entry."""
    host = str(peer["broadcast_address"])
    return f"[{host}]:{peer.get('http_port')}" if ":" in host else f"{host}:{peer.get('http_port')}"


def _read(status: int, content: bytes) -> _Stats:
    if status != _OK:
        raise Unreadable(f"HTTP {status}")
    found: Mapping[str, Any] = opened(content)
    return msgspec.convert(found, _Stats, strict=False)


def _publishes(producer: _Producer, topic: str) -> bool:
    counts = producer.pub_counts
    return counts is msgspec.UNSET or any(one.topic == topic for one in counts or ())


def _writers(nodes: Iterable[_Node], topic: str) -> int | None:
    told = [node.stats.writers(topic) for node in nodes if node.stats is not None]
    counted = [writers for writers in told if writers is not None]
    return sum(counted) if counted else None


def _stock(address: str, stats: _Stats, topic: str) -> Iterable[PartSeen]:
    for found in stats.topics or ():
        if found.topic_name == topic:
            yield _part(address, stats, found, found.depth)


def _partition(node: _Node, topic: str, number: int) -> PartSeen | None:
    if node.stats is None:
        return None
    for found in node.stats.topics or ():
        if found.topic_name == topic and str(found.topic_partition) == str(number):
            # The fork's depth of a topic is what its log holds, read or not.
            return _part(f"{node.address}/{number}", node.stats, found, 0)
    return None


def _part(place: str, stats: _Stats, found: _Topic, unrouted: int) -> PartSeen:
    channels = tuple(channel.seen for channel in found.channels or ())
    return PartSeen(place, stats.start_time, found.message_count, unrouted, channels)


def _number(value: object) -> int:
    return value if isinstance(value, int) and value > 0 else 0
