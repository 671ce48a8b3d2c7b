"""Observations of a topic from nsqds, in the formats of both kinds of NSQ."""

from __future__ import annotations

import json
from typing import Any

from bus.domain.routing.answers import Answer
from bus.domain.routing.evidence import ChannelSeen, PartSeen, TopicObservation
from bus.domain.routing.rooms import Access
from lookup.migrating.evidence import Evidence
from lookup.migrating.preparation import Change, Preparation
from lookup.nsqlookupd import LookupAnswer, LookupUnavailable


def peer(port: int) -> dict[str, Any]:
    return {"broadcast_address": "h", "tcp_port": port, "http_port": port + 1}


class FakeCluster:
    """Answers lookups, and takes changes."""

    name = "b"
    is_settling = False
    is_fork = False

    def __init__(self, answer: Answer | None = None, nodes: list[dict[str, Any]] | None = None) -> None:
        self.answer = answer
        self.nodes = nodes or []
        self.changes: list[str] = []

    async def lookup(self, topic: str, access: Access, *, with_meta: bool) -> Answer:
        assert (topic, access, with_meta) == ("orders", Access.READ, True)
        if self.answer is None:
            raise LookupUnavailable("no nsqlookupd answers")
        return self.answer

    async def ask(self, target: str) -> list[LookupAnswer]:
        assert target == "/nodes"
        return [LookupAnswer(200, json.dumps({"producers": self.nodes}).encode())]

    async def change(self, method: str, target: str, via: str) -> LookupAnswer:
        self.changes.append(f"{method} {target}{via}")
        return LookupAnswer(400 if "refused" in target else 200, b"E_NO")


class FakeClient:
    """Answers for nsqds by their addresses."""

    def __init__(self, **answers: Any) -> None:
        self.answers = {f"h:{name[1:]}": answer for name, answer in answers.items()}
        self.asked: list[tuple[str, str, str]] = []

    async def ask(self, address: str, target: str, *, within: float, method: str = "GET") -> LookupAnswer:  # noqa: ARG002
        self.asked.append((method, address, target))
        found = self.answers.get(address)
        if found is None:
            raise LookupUnavailable(f"cannot reach {address}")
        return LookupAnswer(200, found if isinstance(found, bytes) else json.dumps(found).encode())


def stock(written: int, **fields: Any) -> dict[str, Any]:
    channel = {"channel_name": "billing", "depth": 2, "in_flight_count": 1, "deferred_count": 3, "client_count": 1}
    topic = {"topic_name": "orders", "channels": [channel], "depth": 5, "message_count": written}
    return {"start_time": 9, "topics": [topic], "producers": [], **fields}


def fork(*partitions: str, **fields: Any) -> dict[str, Any]:
    channel = {"channel_name": "billing", "depth": 2, "in_flight_count": 1, "deferred_count": 0, "clients": [{}, {}]}
    topics = [
        {"topic_name": "orders", "topic_partition": one, "channels": [channel], "depth": 512, "message_count": 4}
        for one in partitions
    ]
    return {"start_time": 9, "topics": topics, **fields}


async def look(cluster: FakeCluster | None, client: FakeClient, *known: str) -> TopicObservation:
    evidence: Any = Evidence(client)  # type: ignore[arg-type]
    found: TopicObservation = await evidence.look(cluster, "b", "orders", known)
    return found


async def test_stock_nsqds_are_asked_each_and_those_of_before_too() -> None:
    counts = [{"topic": "orders", "count": 1}]
    producers = [{"pub_counts": counts}, {"pub_counts": [{"topic": "other", "count": 1}]}, {"pub_counts": None}]
    client = FakeClient(h11=stock(7, producers=producers), h21=stock(8), h31={"start_time": 1, "topics": None})
    cluster = FakeCluster(Answer(("billing",), (peer(10), peer(20))))
    found = await look(cluster, client, "h:31", "h:11")
    assert found.is_whole
    assert (found.exists, found.partitions, found.meta, found.producers) == (True, 0, None, 1)
    assert found.parts[0] == PartSeen("h:11", 9, 7, 5, (ChannelSeen("billing", 2, 1, 3, 1),))
    assert (found.waiting, found.consumers) == (22, 2)
    assert [one[1] for one in client.asked] == ["h:11", "h:21", "h:31"]
    assert client.asked[0][2] == "/stats?format=json&topic=orders"


async def test_who_gives_no_answer_is_not_empty() -> None:
    cluster = FakeCluster(Answer(("billing",), (peer(10), peer(20))))
    found = await look(cluster, FakeClient(h11=stock(7), h21=b"<html>"), "h:31")
    assert not found.is_whole
    assert ["h:21" in str(found.unknown[0]), "cannot reach h:31" in str(found.unknown[1])] == [True, True]
    assert not (await look(FakeCluster(), FakeClient())).is_whole
    assert not (await look(None, FakeClient())).is_whole
    cluster.is_settling = True
    assert not (await look(cluster, FakeClient(h11=stock(7), h21=stock(7)))).is_whole


async def test_partitions_of_the_fork_are_those_of_their_leaders() -> None:
    meta = {"partition_num": 3, "ordered": True}
    answer = Answer(("billing",), (), {"0": peer(10), "1": peer(20), "2": peer(10)}, meta)
    both = fork("0", "1", "2", producers=[{"client_id": "x"}])
    found = await look(FakeCluster(answer), FakeClient(h11=both, h21=fork("1")))
    assert found.is_whole
    assert (found.partitions, found.is_ordered, found.producers) == (3, True, 1)
    assert [part.place for part in found.parts] == ["h:11/0", "h:21/1", "h:11/2"]
    assert found.parts[0].channels == (ChannelSeen("billing", 2, 1, 0, 2),)
    assert found.waiting == 9  # a log's length is no backlog


async def test_the_fork_tells_who_publishes_to_each_partition_and_what_is_delayed_on_disk() -> None:
    answer = Answer(("billing",), (), {"0": peer(10), "1": peer(10)}, {"partition_num": 2})
    node = fork("0", "1")
    for topic, protocols in zip(node["topics"], (["tcp", "http"], []), strict=True):
        topic["client_pub_stats"] = [{"protocol": one, "remote_address": "h:9", "pub_count": 3} for one in protocols]
        topic["channels"][0] |= {"depth": 0, "in_flight_count": 0, "delayed_queue_count": 4}
    found = await look(FakeCluster(answer), FakeClient(h11=node))
    assert (found.producers, found.waiting) == (1, 8)


async def test_a_partition_without_a_leader_may_hold_anything() -> None:
    meta = {"partition_num": 2}
    answer = Answer(("billing",), (), {"0": peer(10)}, meta)
    found = await look(FakeCluster(answer), FakeClient(h11=fork("0")))
    assert [str(one) for one in found.unknown] == ["partition 1 of orders has no leader on b"]
    answer = Answer(("billing",), (), {"0": peer(10), "1": peer(10)}, meta)
    found = await look(FakeCluster(answer), FakeClient(h11=fork("0")))
    assert [str(one) for one in found.unknown] == ["partition 1 of orders has no leader on b"]
    assert found.producers is None  # an old nsqd lists no producers


def sight(*places: str, channels: tuple[str, ...] = (), **fields: Any) -> TopicObservation:
    parts = tuple(PartSeen(place, channels=tuple(map(ChannelSeen, channels))) for place in places)
    return TopicObservation(cluster="b", parts=parts, **fields)


META = {"partition_num": 2, "replica": 2, "ordered": True, "extend_support": True}
OTHER = sight("s:1/0", "s:1/1", channels=("billing",), exists=True, partitions=2, meta=META)


async def plan(
    cluster: FakeCluster, partitions: int, own: TopicObservation, other: TopicObservation = OTHER
) -> list[str]:
    preparation: Any = Preparation(FakeClient())  # type: ignore[arg-type]
    found: list[Change] = await preparation.plan(cluster, "orders", partitions, own, other)
    return [f"{one.node} {one.target}" for one in found]


async def test_a_topic_of_the_fork_is_made_as_it_is_elsewhere_and_then_its_channels() -> None:
    cluster = FakeCluster()
    assert await plan(cluster, 2, sight()) == [
        " /topic/create?topic=orders&partition_num=2&replicator=2&syncdisk=1&orderedmulti=true&extend=true"
    ]
    here = {"exists": True, "partitions": 2, "meta": META}
    assert await plan(cluster, 2, sight("t:1/0", "t:2/1", **here)) == [
        "t:1 /channel/create?topic=orders&channel=billing&partition=0",
        "t:2 /channel/create?topic=orders&channel=billing&partition=1",
    ]
    assert await plan(cluster, 4, sight("t:1/0", "t:2/1", **here)) == [
        " /topic/partition/expand?topic=orders&partition_num=4"
    ]
    registered = here | {"meta": {**META, "disable_channel_auto_create": True}}
    assert await plan(cluster, 2, sight("t:1/0", **registered)) == [" /channel/create?topic=orders&channel=billing"]
    assert await plan(cluster, 2, sight("t:1/0", channels=("billing",), **here)) == []


async def test_a_stock_topic_is_made_on_every_nsqd() -> None:
    cluster = FakeCluster(nodes=[peer(10), peer(20)])
    assert await plan(cluster, 0, sight()) == [
        "h:11 /topic/create?topic=orders",
        "h:21 /topic/create?topic=orders",
        "h:11 /channel/create?topic=orders&channel=billing",
        "h:21 /channel/create?topic=orders&channel=billing",
    ]
    assert await plan(cluster, 0, sight("h:11", channels=("billing",), exists=True)) == []


async def test_what_is_refused_is_told_in_the_words_of_who_refused() -> None:
    cluster: Any = FakeCluster()
    preparation = Preparation(FakeClient(h11=b"OK"))  # type: ignore[arg-type]
    assert await preparation.make(cluster, [Change("/topic/create", {"topic": "orders"})]) == ""
    assert cluster.changes == ["POST /topic/create?topic=orders"]
    said = await preparation.make(cluster, [Change("/topic/create", {"topic": "refused"})])
    assert str(said) == "b refuses /topic/create?topic=refused: E_NO"
    assert await preparation.make(cluster, [Change("/channel/create", {"topic": "orders"}, "h:11")]) == ""
    assert "cannot reach h:99" in str(await preparation.make(cluster, [Change("/channel/create", {}, "h:99")]))
