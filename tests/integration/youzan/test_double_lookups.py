"""Responses of the double's nsqlookupds and of the HTTP API of its nsqds."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from tests.doubles.youzan.running import HOST, YouzanDouble
from tests.harness.http import PLAIN
from tests.integration.youzan.raw_nsq import RawNsq

ACCEPT = {"Accept": "application/vnd.nsq; version=1.0"}
Connect = Callable[..., RawNsq]


def ask(double: YouzanDouble, path: str, method: str = "GET", lookupd: int = 1, **query: object) -> httpx.Response:
    url = f"http://{HOST}:{double.lookupds[lookupd]}{path}"
    return httpx.request(method, url, params={**query}, headers=ACCEPT, **PLAIN)


def lookup(double: YouzanDouble, topic: str, access: str = "r", **query: object) -> dict[str, Any]:
    found: dict[str, Any] = ask(double, "/lookup", topic=topic, access=access, **query).raise_for_status().json()
    return found


def leaders(double: YouzanDouble, topic: str, access: str) -> dict[str, int]:
    """Return the TCP ports by partition that a lookup names."""
    return {number: peer["tcp_port"] for number, peer in lookup(double, topic, access)["partitions"].items()}


def test_a_lookup_names_channels_partitions_and_their_nsqds(double: YouzanDouble, topic: str) -> None:
    double.create_topic(topic, partitions=3, replicas=2, ordered=True)
    double.create_channel(topic, "billing")
    found = lookup(double, topic, "w", metainfo="true")
    assert found["channels"] == ["billing"]
    assert found["meta"] == {
        "partition_num": 3,
        "replica": 2,
        "ordered": True,
        "multi_part": False,
        "extend_support": False,
        "disable_channel_auto_create": False,
    }
    assert [found["partitions"][number]["tcp_port"] for number in "012"] == [
        double.nsqds[node].tcp for node in (1, 2, 1)
    ]
    assert [peer["tcp_port"] for peer in found["producers"]] == [one.tcp for one in double.nsqds.values()]
    peer = found["partitions"]["0"]
    assert (peer["broadcast_address"], peer["http_port"]) == (HOST, double.nsqds[1].http)
    assert {"id", "distributed_id", "remote_address", "hostname", "version"} <= set(peer)
    assert "meta" not in lookup(double, topic, "w")


def test_who_does_not_accept_version_1_gets_an_envelope_and_500_for_every_error(
    double: YouzanDouble, topic: str
) -> None:
    double.create_topic(topic)
    url = f"http://{HOST}:{double.lookupds[1]}/lookup"
    found = httpx.get(url, params={"topic": topic}, **PLAIN).json()
    assert (found["status_code"], found["status_txt"]) == (200, "OK")
    assert list(found["data"]["partitions"]) == ["0"]
    refused = httpx.get(url, params={"topic": "nowhere", "access": "w"}, **PLAIN)
    assert (refused.status_code, refused.json()["status_txt"]) == (500, "Key not found")


@pytest.mark.parametrize(
    ("method", "path", "query", "status", "message"),
    [
        ("GET", "/lookup", {}, 400, "MISSING_ARG_TOPIC"),
        ("GET", "/lookup", {"topic": "nowhere", "access": "x"}, 400, "INVALID_ACCESS_MODE"),
        ("GET", "/lookup", {"topic": "nowhere", "access": "w"}, 404, "Key not found"),
        ("GET", "/nowhere", {}, 404, "NOT_FOUND"),
        ("POST", "/lookup", {}, 405, "METHOD_NOT_ALLOWED"),
        ("POST", "/topic/create", {"topic": "a"}, 400, "MISSING_ARG_TOPIC_PARTITION_NUM"),
        ("POST", "/topic/create", {"topic": "a", "partition_num": 1}, 400, "MISSING_ARG_TOPIC_REPLICATOR"),
        (
            "POST",
            "/topic/create",
            {"topic": "a", "partition_num": 0, "replicator": 1},
            400,
            "INVALID_ARG_TOPIC_PARTITION_NUM",
        ),
        ("POST", "/topic/create", {"topic": "a/b", "partition_num": 1, "replicator": 1}, 400, "INVALID_ARG_TOPIC"),
        ("POST", "/topic/delete", {"topic": "a"}, 400, "MISSING_ARG_TOPIC_PARTITION"),
        ("POST", "/topic/delete", {"topic": "a", "partition": "0"}, 400, "REMOVE_SINGLE_PARTITION_NOT_ALLOWED"),
        ("POST", "/topic/partition/expand", {"topic": "nowhere", "partition_num": 2}, 500, "Key not found"),
    ],
)
def test_requests_that_are_refused(
    double: YouzanDouble, method: str, path: str, query: dict[str, object], status: int, message: str
) -> None:
    answer = ask(double, path, method, **query)
    assert (answer.status_code, answer.json()) == (status, {"message": message})


def test_an_unknown_topic_is_empty_for_readers(double: YouzanDouble) -> None:
    found = lookup(double, "nowhere", "r", metainfo="true")
    assert (found["partitions"], found["producers"], found["channels"]) == ({}, [], [])
    assert found["meta"]["partition_num"] == 0


def test_writers_do_not_see_partitions_without_a_channel(double: YouzanDouble, connect: Connect, topic: str) -> None:
    double.create_topic(topic, partitions=2)
    refused = ask(double, "/lookup", topic=topic, access="w")
    assert refused.status_code == 404
    assert refused.json()["message"].startswith("Topic has no channel")
    assert sorted(leaders(double, topic, "r")) == ["0", "1"]
    connect(2).subscribe(b"SUB %s billing 1" % topic.encode())
    assert sorted(leaders(double, topic, "w")) == ["1"]
    double.create_channel(topic, "billing")
    assert sorted(leaders(double, topic, "w")) == ["0", "1"]


def test_a_partition_that_takes_no_messages_is_for_readers_only(double: YouzanDouble, topic: str) -> None:
    double.create_topic(topic, partitions=2)
    double.create_channel(topic, "billing")
    double.set_writable(topic, 0, writable=False)
    assert (sorted(leaders(double, topic, "w")), sorted(leaders(double, topic, "r"))) == (["1"], ["0", "1"])
    double.set_writable(topic, 0, writable=True)
    double.lose(topic, 1)
    assert (sorted(leaders(double, topic, "w")), sorted(leaders(double, topic, "r"))) == (["0"], ["0"])
    assert lookup(double, topic, metainfo="true")["meta"]["partition_num"] == 2
    double.find(topic, 1)
    assert sorted(leaders(double, topic, "w")) == ["0", "1"]


def test_a_topic_grows_by_partitions_without_channels(double: YouzanDouble, topic: str) -> None:
    double.create_topic(topic, partitions=1)
    double.create_channel(topic, "billing")
    double.expand(topic, 3)
    assert lookup(double, topic, "w", metainfo="true")["meta"]["partition_num"] == 3
    assert (sorted(leaders(double, topic, "w")), sorted(leaders(double, topic, "r"))) == (["0"], ["0", "1", "2"])
    assert ask(double, "/topic/partition/expand", "POST", topic=topic, partition_num=2).status_code == 500


def test_a_tombstone_hides_an_nsqd_from_writers(double: YouzanDouble, topic: str) -> None:
    double.create_topic(topic, partitions=2)
    double.create_channel(topic, "billing")
    node = f"{HOST}:{double.nsqds[1].http}"
    ask(double, "/topic/tombstone", "POST", topic=topic, node=node).raise_for_status()
    assert (sorted(leaders(double, topic, "w")), sorted(leaders(double, topic, "r"))) == (["1"], ["0", "1"])
    ask(double, "/topic/tombstone", "POST", topic=topic, node=node, restore="true").raise_for_status()
    assert sorted(leaders(double, topic, "w")) == ["0", "1"]


def test_lookups_tell_of_each_other_and_of_all_that_there_is(double: YouzanDouble, topic: str) -> None:
    double.create_topic(topic, extended=True)
    double.create_channel(topic, "billing")
    listed = ask(double, "/listlookup").json()
    assert [node["HttpPort"] for node in listed["lookupdnodes"]] == [str(port) for port in double.lookupds.values()]
    assert listed["lookupdleader"] == listed["lookupdnodes"][0]
    assert {"ID", "NodeIP", "TcpPort", "RpcPort", "Epoch"} <= set(listed["lookupdleader"])
    topics = ask(double, "/topics", metaInfo="true").json()
    assert {"topic_name": topic, "extend_support": True, "ordered": False} in topics["meta_info"]
    assert "meta_info" not in ask(double, "/topics").json()
    assert ask(double, "/channels", topic=topic).json() == {"channels": ["billing"]}
    nodes = ask(double, "/nodes").json()["producers"]
    assert nodes[0]["partitions"][topic] == ["0"]
    assert ask(double, "/ping").text == "OK"
    assert ask(double, "/info").json()["ha_support"] is True


def test_only_the_leading_nsqlookupd_takes_changes(own: YouzanDouble) -> None:
    query = {"topic": "orders", "partition_num": 1, "replicator": 1}
    refused = ask(own, "/topic/create", "POST", 2, **query)
    assert (refused.status_code, refused.json()) == (400, {"message": "E_FAILED_ON_NOT_LEADER"})
    own.set_lookupd(2, leads=True)
    assert ask(own, "/topic/create", "POST", 2, **query).status_code == 200
    assert ask(own, "/topic/delete", "POST", 1, topic="orders", partition="**").status_code == 400
    assert ask(own, "/topic/delete", "POST", 2, topic="orders", partition="**").status_code == 200
    assert ask(own, "/topics").json() == {"topics": []}


def test_an_nsqlookupd_answers_badly_when_it_is_told_to(own: YouzanDouble) -> None:
    own.create_topic("orders")
    for fault in ("garbage", "half"):
        own.set_lookupd(2, fault=fault)
        with pytest.raises(ValueError, match=r"Expecting|Unterminated"):
            ask(own, "/lookup", lookupd=2, topic="orders").json()
    own.set_lookupd(2, fault="cut")
    with pytest.raises(httpx.RemoteProtocolError):
        ask(own, "/lookup", lookupd=2, topic="orders")
    own.set_lookupd(2, fault="500")
    assert ask(own, "/lookup", lookupd=2, topic="orders").status_code == 500
    own.set_lookupd(2, fault=None, delay=0.2)
    begun = time.monotonic()
    assert ask(own, "/lookup", lookupd=2, topic="orders").status_code == 200
    assert time.monotonic() - begun >= 0.2
    own.set_lookupd(2, running=False)
    with pytest.raises(httpx.ConnectError):
        ask(own, "/lookup", lookupd=2, topic="orders")
    own.set_lookupd(2, running=True, delay=0)
    assert ask(own, "/lookup", lookupd=2, topic="orders").status_code == 200
    asked = own.asked(2, "/lookup")
    assert len(asked) == 6
    assert asked[0] == {"method": "GET", "path": "/lookup", "query": {"topic": "orders"}, "accept": ACCEPT["Accept"]}


def test_an_nsqd_tells_of_its_channels_by_partition(double: YouzanDouble, connect: Connect, topic: str) -> None:
    double.create_topic(topic, partitions=3)
    double.create_channel(topic, "billing")
    producer = connect(client_id="producer")
    for number in (0, 0, 2):
        producer.publish(b"PUB %s %d" % (topic.encode(), number), b"x")
    consumer = connect(client_id="consumer").subscribe(b"SUB %s billing 0" % topic.encode())
    consumer.message()
    url = f"http://{HOST}:{double.nsqds[1].http}/stats"
    stats = httpx.get(url, params={"format": "json", "topic": topic}, headers=ACCEPT, **PLAIN).json()
    first, third = stats["topics"]
    assert [first["topic_partition"], third["topic_partition"]] == ["0", "2"]
    assert [first["message_count"], third["message_count"]] == [2, 1]
    channel = first["channels"][0]
    shown = {name: channel[name] for name in ("channel_name", "depth", "in_flight_count", "deferred_count")}
    assert shown == {"channel_name": "billing", "depth": 2, "in_flight_count": 1, "deferred_count": 0}
    assert [client["client_id"] for client in channel["clients"]] == ["consumer"]
    assert "producer" in [client["client_id"] for client in stats["producers"]]


def test_an_nsqd_publishes_and_makes_channels_over_http_but_no_topics(
    double: YouzanDouble, connect: Connect, topic: str
) -> None:
    double.create_topic(topic)
    url = f"http://{HOST}:{double.nsqds[1].http}"
    query = {"topic": topic, "channel": "billing"}
    httpx.post(f"{url}/channel/create", params=query, **PLAIN).raise_for_status()
    assert httpx.post(f"{url}/pub", params={"topic": topic}, content=b"x", **PLAIN).text == "OK"
    assert connect().subscribe(b"SUB %s billing 0" % topic.encode()).message().body == b"x"
    httpx.post(f"{url}/channel/delete", params=query, **PLAIN).raise_for_status()
    assert double.ask_lookupd("GET", "/channels", topic=topic).json()["data"] == {"channels": []}
    assert httpx.post(f"{url}/topic/create", params={"topic": "new"}, **PLAIN).status_code == 404
    assert httpx.post(f"{url}/pub", params={"topic": "new"}, content=b"x", headers=ACCEPT, **PLAIN).status_code == 404
    assert httpx.get(f"{url}/ping", **PLAIN).text == "OK"
