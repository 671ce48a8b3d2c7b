"""The HTTP API of nsqlookupds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from tests.doubles.youzan.httpd import Answer, Request
from tests.doubles.youzan.identity import VERSION
from tests.doubles.youzan.lookupd import Lookupd
from tests.doubles.youzan.refusals import NOT_LEADER
from tests.doubles.youzan.replies import Problem, Routes, argument, negotiated, plain, routed, version_1
from tests.doubles.youzan.topics import Meta, Partition, Topic, valid_name

if TYPE_CHECKING:
    from tests.doubles.youzan.cluster import Cluster

_MOST_PARTITIONS: Final = 255
_MOST_REPLICAS: Final = 5
_NO_CHANNEL: Final = "Topic has no channel, should init at least one for the new topic"
_NO_META: Final = asdict(Meta(0, 0))


class LookupApi:
    """What all nsqlookupds of a cluster answer; only changes depend on which of them is asked."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._topics = cluster.topics
        self._routes: Routes = {
            ("GET", "/ping"): plain(lambda _: "OK"),
            ("GET", "/info"): negotiated(lambda _: {"version": VERSION, "ha_support": True}),
            ("GET", "/lookup"): negotiated(self._lookup),
            ("GET", "/listlookup"): negotiated(self._list),
            ("GET", "/topics"): negotiated(self._list_topics),
            ("GET", "/channels"): negotiated(self._list_channels),
            ("GET", "/nodes"): negotiated(self._nodes),
            ("POST", "/topic/tombstone"): version_1(self._tombstone),
        }
        self._changes: Routes = {
            ("POST", "/topic/create"): version_1(self._create),
            ("PUT", "/topic/create"): version_1(self._create),
            ("POST", "/topic/delete"): version_1(self._delete),
            ("POST", "/topic/partition/expand"): version_1(self._expand),
            ("POST", "/channel/create"): version_1(self._create_channel),
            ("POST", "/channel/delete"): version_1(self._delete_channel),
        }

    def answer(self, lookupd: Lookupd, request: Request) -> Answer:
        """Answer a request to one of them."""
        change = self._changes.get((request.method, request.path))
        if change is None:
            return routed(self._routes, request)
        return change(request) if lookupd.number == self._cluster.lookup_leader else _refuse_change(request)

    def _lookup(self, request: Request) -> dict[str, Any]:
        name = argument(request, "topic", "MISSING_ARG_TOPIC")
        access = request.query.get("access") or "r"
        if access not in {"r", "w"}:
            raise Problem(400, "INVALID_ACCESS_MODE")
        topic = self._topics.find(name)
        if topic is None and access == "w":
            raise Problem(404, "Key not found")
        partitions = self._named(topic, access, request.query.get("partition")) if topic else {}
        found: dict[str, Any] = {
            "channels": topic.channels() if topic else [],
            "producers": self._peers(partitions.values()),
            "partitions": {str(number): self._peer(one) for number, one in partitions.items()},
        }
        if request.query.get("metainfo"):
            found["meta"] = asdict(topic.meta) if topic else _NO_META
        return found

    def _named(self, topic: Topic, access: str, partition: str | None) -> dict[int, Partition]:
        """Return the partitions that a lookup names."""
        there = {
            number: one
            for number, one in topic.partitions.items()
            if one.registered and self._cluster.alive(one.leader) and partition in {None, "", "*", str(number)}
        }
        if access == "r":
            return there
        open_ones = {
            number: one for number, one in there.items() if one.writable and one.leader not in topic.tombstones
        }
        read = {number: one for number, one in open_ones.items() if one.channels}
        if open_ones and not read:
            raise Problem(404, _NO_CHANNEL)
        return read

    def _peer(self, partition: Partition) -> dict[str, Any]:
        return self._cluster.nsqds[partition.leader].peer

    def _peers(self, partitions: Any) -> list[dict[str, Any]]:
        leaders = sorted({one.leader for one in partitions})
        return [self._cluster.nsqds[leader].peer for leader in leaders]

    def _list(self, _: Request) -> dict[str, Any]:
        lookupds = self._cluster.lookupds
        return {
            "lookupdleader": lookupds[self._cluster.lookup_leader].node,
            "lookupdnodes": [one.node for one in lookupds.values()],
        }

    def _list_topics(self, request: Request) -> dict[str, Any]:
        found: dict[str, Any] = {"topics": [topic.name for topic in self._topics]}
        if request.query.get("metaInfo") == "true":
            found["meta_info"] = [
                {"topic_name": one.name, "extend_support": one.meta.extend_support, "ordered": one.meta.ordered}
                for one in self._topics
            ]
        return found

    def _list_channels(self, request: Request) -> dict[str, Any]:
        topic = self._topics.find(argument(request, "topic", "MISSING_ARG_TOPIC"))
        return {"channels": topic.channels() if topic else []}

    def _nodes(self, _: Request) -> dict[str, Any]:
        alive = [nsqd for nsqd in self._cluster.nsqds.values() if nsqd.running]
        return {"producers": [nsqd.peer | self._held(nsqd.number) for nsqd in alive]}

    def _held(self, node: int) -> dict[str, Any]:
        topics = [topic for topic in self._topics if any(one.leader == node for one in topic.on(node))]
        return {
            "topics": [topic.name for topic in topics],
            "tombstones": [node in topic.tombstones for topic in topics],
            "partitions": {topic.name: [str(one.number) for one in topic.on(node)] for topic in topics},
        }

    def _tombstone(self, request: Request) -> None:
        topic = self._topics.find(argument(request, "topic", "MISSING_ARG_TOPIC"))
        node = argument(request, "node", "MISSING_ARG_NODE")
        numbers = {one.number for one in self._cluster.nsqds.values() if node == f"127.0.0.1:{one.http}"}
        if topic is not None:
            restore = request.query.get("restore") == "true"
            topic.tombstones = topic.tombstones - numbers if restore else topic.tombstones | numbers

    def _create(self, request: Request) -> None:
        name = argument(request, "topic", "MISSING_ARG_TOPIC")
        if not valid_name(name):
            raise Problem(400, "INVALID_ARG_TOPIC")
        meta = Meta(
            partition_num=_count(request, "partition_num", "PARTITION_NUM", _MOST_PARTITIONS),
            replica=_count(request, "replicator", "REPLICATOR", _MOST_REPLICAS),
            ordered=request.query.get("orderedmulti") == "true",
            multi_part=request.query.get("multipart") == "true",
            extend_support=request.query.get("extend") == "true",
            disable_channel_auto_create=request.query.get("disable_channel_auto_create") == "true",
        )
        try:
            self._topics.create(name, meta)
        except ValueError as error:
            raise Problem(400, str(error)) from None
        self._cluster.changed()

    def _delete(self, request: Request) -> None:
        name = argument(request, "topic", "MISSING_ARG_TOPIC")
        if argument(request, "partition", "MISSING_ARG_TOPIC_PARTITION") != "**":
            raise Problem(400, "REMOVE_SINGLE_PARTITION_NOT_ALLOWED")
        if self._topics.find(name) is None:
            raise Problem(500, "Key not found")
        self._cluster.delete(name)

    def _expand(self, request: Request) -> None:
        name = argument(request, "topic", "MISSING_ARG_TOPIC")
        try:
            self._topics.expand(name, _count(request, "partition_num", "PARTITION_NUM", _MOST_PARTITIONS))
        except KeyError:
            raise Problem(500, "Key not found") from None
        except ValueError as error:
            raise Problem(500, str(error)) from None
        self._cluster.changed()

    def _create_channel(self, request: Request) -> None:
        topic, channel = self._registering(request)
        if not topic.meta.disable_channel_auto_create:
            raise Problem(400, f"channel auto create NOT disabled in topic {topic.name}")
        if channel in topic.registered:
            raise Problem(400, f"channel {channel} already registered")
        topic.register(channel)
        self._cluster.changed()

    def _delete_channel(self, request: Request) -> None:
        topic, channel = self._registering(request)
        if not topic.meta.disable_channel_auto_create:
            return
        if channel not in topic.registered:
            raise Problem(400, f"channel {channel} not registered")
        topic.registered.remove(channel)
        self._cluster.changed()

    def _registering(self, request: Request) -> tuple[Topic, str]:
        name = argument(request, "topic", "MISSING_ARG_TOPIC")
        channel = argument(request, "channel", "MISSING_ARG_CHANNEL")
        topic = self._topics.find(name)
        if topic is None:
            raise Problem(400, "Key not found")
        if not valid_name(channel):
            raise Problem(400, "INVALID_ARG_CHANNEL")
        return topic, channel


def _count(request: Request, name: str, word: str, most: int) -> int:
    text = argument(request, name, f"MISSING_ARG_TOPIC_{word}")
    if not text.isdigit() or not 0 < int(text) <= most:
        raise Problem(400, f"INVALID_ARG_TOPIC_{word}")
    return int(text)


def _refuse(_: Request) -> Iterator[object]:
    raise Problem(400, NOT_LEADER)


_refuse_change = version_1(_refuse)
