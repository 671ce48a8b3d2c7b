"""The union of what nsqlookupds answer, and what nsqds hold together."""

from __future__ import annotations

import asyncio

import msgspec

from bus.transports.nsq.config import Address, NsqConfig
from bus.transports.nsq.errors import ConnectionLost
from bus.transports.nsq.lag import reading_of
from bus.transports.nsq.lookup import FoundNode, Lookup
from bus.transports.nsq.protocol.http import ChannelStats, NsqHttp, Peer, TopicStats
from bus.transports.nsq.topology import Lane, Topology

A, B = Address("a", 4161), Address("b", 4161)
ONE, TWO = Address("one", 4150), Address("two", 4150)


class Answers:
    """The HTTP API of nsqlookupds, from a table."""

    def __init__(self) -> None:
        self.table: dict[Address, list[Peer] | None] = {}

    async def nodes(self, lookupd: Address) -> list[Peer]:
        found = self.table[lookupd]
        if found is None:
            raise ConnectionLost(f"cannot reach {lookupd}")
        return found


def peer(host: str, topics: list[str], tombstones: list[bool] | None = None) -> Peer:
    return Peer(host, 4150, 4151, topics, tombstones)


async def test_answers_are_united_and_the_last_good_ones_kept() -> None:
    answers = Answers()
    lookup = Lookup([A, B], answers)
    answers.table = {A: [peer("one", ["orders"])], B: [peer("one", ["mails"]), peer("two", [])]}
    await lookup.poll()
    both = {ONE: FoundNode(4151, frozenset({"orders", "mails"})), TWO: FoundNode(4151, frozenset())}
    assert lookup.nodes == both
    assert lookup.troubles == {A: "", B: ""}
    answers.table[B] = None
    await lookup.poll()
    assert lookup.nodes == {ONE: FoundNode(4151, frozenset({"orders"}))}
    assert lookup.troubles == {A: "", B: "cannot reach b:4161"}
    answers.table[A] = None
    await lookup.poll()
    assert lookup.nodes == {ONE: FoundNode(4151, frozenset({"orders"}))}
    answers.table[B] = []
    await lookup.poll()
    assert lookup.nodes == {}


async def test_a_tombstone_hides_a_topic() -> None:
    answers = Answers()
    lookup = Lookup([A], answers)
    answers.table = {A: [peer("one", ["orders", "mails"], [True, False])]}
    await lookup.poll()
    assert lookup.nodes[ONE].topics == {"mails"}


def test_answers_of_a_new_nsqlookupd_are_read() -> None:
    text = b'{"broadcast_address":"a","tcp_port":1,"http_port":2,"version":"9","topics":null,"hostname":"h"}'
    assert msgspec.json.decode(text, type=Peer) == Peer("a", 1, 2)


def test_what_waits_in_a_topic_will_be_in_each_channel() -> None:
    stats = [TopicStats("orders", 3, [ChannelStats("billing", 10, 4, 2), ChannelStats("mail")]), TopicStats("empty")]
    reading = reading_of(stats, 7.0)
    assert reading.held == {Lane("orders", "billing"): 19, Lane("orders", "mail"): 3}
    assert reading.topics == {"orders": {"billing", "mail"}, "empty": set()}


def test_a_channel_of_a_partition_is_a_position_in_its_log_and_counts_where_it_is_led() -> None:
    stats = [
        TopicStats("orders", 7000, [ChannelStats("billing", 10, 4, 2)], "0", is_leader=True),
        TopicStats("orders", 9000, [ChannelStats("billing", 5, 1)], "1", is_leader=True),
        TopicStats("orders", 9000, [ChannelStats("billing", 99)], "2", is_leader=False),
    ]
    assert reading_of(stats, 7.0).held == {Lane("orders", "billing"): 15}


def test_lanes_are_what_is_demanded() -> None:
    topology = Topology()
    billing, mail = Lane("orders", "billing"), Lane("orders", "mail")
    for lane in (billing, mail, billing):
        topology.add(lane)
    topology.publishing("orders", 5.0)
    assert set(topology) == {billing, mail}
    assert topology.published_since("orders", 5.0)
    assert not topology.published_since("orders", 5.1)
    assert not topology.published_since("mails", 0.0)
    topology.discard(billing)
    topology.discard(billing)
    assert (set(topology), topology.topics) == ({mail}, {"orders"})
    topology.discard(mail)
    assert not topology.topics
    assert not topology.channels("orders")


async def test_topics_of_the_fork_are_made_to_be_synced_to_disk() -> None:
    asked: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append((await reader.readuntil(b"\r\n\r\n")).splitlines()[0])
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}")
        await writer.drain()
        writer.close()

    http = NsqHttp(None, 5)
    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        lookupd = Address("127.0.0.1", server.sockets[0].getsockname()[1])
        await http.create_partitioned(lookupd, "orders", NsqConfig(partitions=3), is_ordered=True)
        await http.close()
    query = "topic=orders&partition_num=3&replicator=1&syncdisk=1&orderedmulti=true"
    assert asked == [f"POST /topic/create?{query} HTTP/1.1".encode()]
