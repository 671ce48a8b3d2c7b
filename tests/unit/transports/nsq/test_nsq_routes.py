"""Routes of topics, and their channels: dependencies between lookups, and their frequency."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from bus.clock import SystemClock
from bus.transports.nsq.config import Address
from bus.transports.nsq.partitions.layout import Place
from bus.transports.nsq.partitions.routes import Routes
from bus.transports.nsq.topology import Lane, Topology
from tests.harness.waiting import until
from tests.unit.transports.nsq.partition_nodes import PartitionNodes, dependencies

ONE, TWO = (Place(Address(host, 4150), 4151) for host in ("one", "two"))
TOPICS = [f"orders-{number}" for number in range(40)]


def subscribed(*topics: str) -> Topology:
    topology = Topology()
    for topic in topics:
        topology.add(Lane(topic, "billing"))
    return topology


@asynccontextmanager
async def running(
    nodes: PartitionNodes, topology: Topology, changed: Callable[[str], None] = lambda _: None, **changes: float
) -> AsyncIterator[Routes]:
    routes = Routes(dependencies(nodes, topology, SystemClock(), **changes), set, changed)
    task = asyncio.create_task(routes.run())
    try:
        yield routes
    finally:
        task.cancel()
        await asyncio.wait([task])


async def test_an_nsqd_that_hangs_holds_up_neither_lookups_nor_channels_elsewhere() -> None:
    nodes = PartitionNodes({topic: {0: ONE, 1: TWO} for topic in TOPICS})
    nodes.hanging.add(ONE.http)
    async with running(nodes, subscribed(*TOPICS), lookup_interval=600.0) as routes:
        await until(
            lambda: all(routes.open_partitions(topic) == {1: TWO} for topic in TOPICS),
            within=5.0,
            what="all topics are found, and published to where their nsqd answers",
        )


async def test_an_nsqd_is_asked_for_the_channels_of_many_topics_at_once() -> None:
    nodes = PartitionNodes({topic: {0: ONE, 1: TWO} for topic in TOPICS})
    for topic in TOPICS:
        nodes.channels[topic].add("billing")
    async with running(nodes, subscribed(*TOPICS), lookup_interval=600.0) as routes:
        await until(
            lambda: all(len(routes.open_partitions(topic)) == 2 for topic in TOPICS), within=5.0, what="all are open"
        )
    for place in (ONE, TWO):
        assert len([nsqd for nsqd, _ in nodes.asked if nsqd == place.http]) < len(TOPICS) / 2


async def test_who_makes_a_topic_waits_for_its_channels_as_long_as_for_one_answer() -> None:
    nodes = PartitionNodes({"orders": {0: ONE, 1: TWO}})
    nodes.hanging.add(ONE.http)
    async with running(nodes, subscribed("orders"), timeout=0.2) as routes, asyncio.timeout(5.0):
        assert await routes.prepare("orders")
        assert routes.open_partitions("orders") == {1: TWO}


async def test_a_topic_that_nobody_publishes_to_or_reads_any_more_is_forgotten() -> None:
    nodes = PartitionNodes({"orders": {0: ONE}, "mail": {0: ONE}})
    topology, changed = subscribed("orders", "mail"), list[str]()
    async with running(nodes, topology, changed.append, lookup_interval=0.01) as routes:
        await until(
            lambda: routes.open_partitions("orders") and routes.open_partitions("mail"), within=5.0, what="open"
        )
        topology.discard(Lane("orders", "billing"))
        changed.clear()
        await until(lambda: "orders" in changed, within=5.0, what="it is told of")
        assert not routes.layout("orders").is_partitioned
        assert {topic for topic, _ in routes.channels._seen} == set(routes._locks) == {"mail"}


async def test_of_a_leader_that_was_nothing_is_told_any_more() -> None:
    nodes = PartitionNodes({"orders": {0: ONE}, "mail": {0: ONE}})
    nodes.hanging.add(ONE.http)
    async with running(nodes, subscribed("orders", "mail"), lookup_interval=600.0) as routes:
        await until(lambda: nodes.asked, within=5.0, what="it is asked")
        nodes.led["orders"] = {0: TWO}
        routes._haste.add("orders")
        await until(lambda: routes.open_partitions("orders") == {0: TWO}, within=5.0, what="another one leads")
        nodes.gone.set()
        await until(lambda: routes.channels.troubles, within=5.0, what="it is told of")
        assert ("orders", ONE) not in routes.channels.troubles
