"""A lookup proxy in front of a cluster of the fork and a stock one: partitions of the first, nodes of both."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.doubles.youzan.running import YouzanDouble
from tests.harness.bus_process import BusProcess
from tests.harness.http import PLAIN
from tests.harness.lookup_proxy import LookupProxy, routes
from tests.harness.process import Child
from tests.harness.subscribers import SubscriberProcess
from tests.harness.waiting import wait_until
from tests.servers import need
from tests.servers.nsq import NsqdServer, NsqLookupServer
from tests.servers.youzan_oracle import PROGRAM

TOPIC = "orders"


class World:
    """The fork's cluster, one nsqd of stock NSQ, and a proxy that knows one nsqlookupd of each."""

    def __init__(self, fork: YouzanDouble, lookupd: NsqLookupServer, nsqd: NsqdServer, proxy: LookupProxy) -> None:
        self.fork = fork
        self.lookupd = lookupd
        self.proxy = proxy
        self.fork_ports = {one.tcp for one in fork.nsqds.values()}
        self.all_ports = self.fork_ports | {int(nsqd.tcp.rpartition(":")[2])}


@pytest.fixture
def world(programs: Path, tmp_path: Path) -> Iterator[World]:
    lookupd = NsqLookupServer(programs, tmp_path / "lookupd")
    nsqd = NsqdServer(programs, tmp_path / "nsqd", lookupds=[lookupd.tcp])
    with YouzanDouble(tmp_path / "fork") as fork, lookupd, nsqd:
        fork.create_topic(TOPIC, partitions=2, replicas=1)
        fork.create_channel(TOPIC, "billing")
        nsqd.call("/topic/create", topic=TOPIC)
        nsqd.call("/channel/create", topic=TOPIC, channel="mail")
        told = {"fork": fork.lookups[:1], "stock": [lookupd.http]}
        topics = routes(default={"#C": ["fork", "stock"], "#P": "fork"})
        with LookupProxy(tmp_path / "proxy", told, topics) as proxy:
            made = World(fork, lookupd, nsqd, proxy)
            proxy.wait_ports(TOPIC, "r", made.all_ports)
            yield made


def test_partitions_are_the_forks_and_every_node_is_a_producer(world: World) -> None:
    found = world.proxy.get(f"/lookup?topic={TOPIC}").json()
    assert {one["tcp_port"] for one in found["partitions"].values()} <= world.fork_ports
    assert list(found["partitions"]) == ["0", "1"]
    assert {one["tcp_port"] for one in found["producers"]} == world.all_ports
    assert found["channels"] == ["billing", "mail"]
    producing = world.proxy.get(f"/lookup?topic={TOPIC}&access=w&metainfo=true").json()
    assert producing["meta"]["partition_num"] == 2
    assert {one["tcp_port"] for one in producing["producers"]} == world.fork_ports
    enveloped = httpx.get(f"{world.proxy.bus.url}/lookup?topic={TOPIC}", **PLAIN).json()
    assert (enveloped["status_code"], enveloped["data"]["partitions"]) == (200, found["partitions"])
    unknown = httpx.get(f"{world.proxy.bus.url}/lookup?topic=none&access=w", **PLAIN)
    assert (unknown.status_code, unknown.json()["status_code"]) == (500, 500)
    assert world.proxy.get("/lookup?topic=none&access=w").status_code == 404


def test_all_nsqlookupds_of_the_fork_are_found_and_take_turns(world: World) -> None:
    wait_until(
        lambda: all(
            world.proxy.get(f"/lookup?topic=t{number}") and world.fork.asked(number, "/lookup")
            for number in world.fork.lookupds
        ),
        within=20,
        what="every nsqlookupd is asked",
    )  # fmt: skip


def test_the_partitions_of_a_fork_that_is_away_stay(world: World) -> None:
    before = world.proxy.get(f"/lookup?topic={TOPIC}").json()["partitions"]
    for number in world.fork.lookupds:
        world.fork.set_lookupd(number, running=False)
    wait_until(
        lambda: world.proxy.get(f"/lookup?topic={TOPIC}").headers.get("bus-lookup-missing") == "fork",
        within=10,
        what="the fork is left out",
    )
    found = world.proxy.get(f"/lookup?topic={TOPIC}").json()
    assert found["partitions"] == before
    assert {one["tcp_port"] for one in found["producers"]} == world.all_ports
    for number in world.fork.lookupds:
        world.fork.set_lookupd(number, running=True)
    wait_until(
        lambda: "bus-lookup-missing" not in world.proxy.get(f"/lookup?topic={TOPIC}").headers,
        within=15,
        what="the fork is back",
    )


def test_an_nsqlookupd_that_is_slow_or_talks_rubbish_costs_one_answer_its_time(world: World) -> None:
    wait_until(lambda: world.fork.asked(2), within=15, what="the second nsqlookupd is known")
    for fault in ({"delay": 5.0}, {"delay": 0.0, "fault": "half"}, {"fault": "garbage"}, {"fault": "500"}):
        world.fork.set_lookupd(2, **fault)
        for number in range(6):
            answer = world.proxy.get(f"/lookup?topic={TOPIC}&access=w&metainfo={number}", within=3)
            assert "bus-lookup-missing" not in answer.headers
            assert len(answer.json()["partitions"]) == 2


def test_a_change_is_made_by_the_leader_of_the_fork(world: World) -> None:
    world.fork.set_lookupd(2, leads=True)
    created = httpx.post(f"{world.proxy.bus.url}/topic/create?topic=made&partition_num=3&replicator=1", **PLAIN)
    assert (created.status_code, created.headers["bus-lookup-cluster"]) == (200, "fork")
    assert [call for call in world.fork.asked(2, "/topic/create") if call["query"]["topic"] == "made"]
    assert not world.fork.asked(1, "/topic/create")[1:]
    assert "made" not in httpx.get(f"http://{world.lookupd.http}/topics", **PLAIN).text


def test_the_forks_own_client_works_through_the_proxy_in_order(world: World, tmp_path: Path) -> None:
    oracle = need("youzan_oracle") / PROGRAM
    world.fork.create_topic("kept", partitions=4, replicas=1, ordered=True)
    world.fork.create_channel("kept", "billing")
    fixed = [str(oracle), "-lookups", world.proxy.address, "-topic", "kept", "-count", "100", "-keys", "10"]
    with (
        Child([*fixed, "-channel", "billing"], log=tmp_path / "consumed") as consumer,
        Child(fixed, log=tmp_path / "published") as producer,
    ):
        assert (producer.wait(20), consumer.wait(20)) == (0, 0), producer.output() + consumer.output()
        lines = [json.loads(line) for line in consumer.log.read_text().splitlines() if line.startswith("{")]
    numbers: dict[str, list[int]] = {}
    for line in lines:
        numbers.setdefault(line["key"], []).append(line["number"])
    assert sum(map(len, numbers.values())) == 100
    assert all(kept == sorted(kept) for kept in numbers.values())


def accepted(bus: BusProcess, key: str) -> str:
    """Send a message, again as long as a bus that has just started on a busy machine refuses it; return its id."""
    answer = wait_until(
        lambda: found if (found := bus.admin.send("accounts", b"{}", bus_key=key)).status_code != 503 else None,
        within=15,
        what="a message is accepted",
    )
    return str(answer.raise_for_status().json()["id"])


def test_a_bus_keeps_keys_in_order_through_the_proxy(world: World, tmp_path: Path) -> None:
    env = {"BUS_NSQ_LOOKUPD": world.proxy.address, "BUS_NSQ_PARTITIONS": "4"}
    with SubscriberProcess(tmp_path) as subscriber, BusProcess(tmp_path / "bus", env=env) as bus:
        kept = {"code": "accounts", "transport": "nsq", "ordering": "key"}
        wait_until(
            lambda: bus.admin.call("PUT", "/api/v1/destinations/accounts", json=kept).is_success,
            within=15,
            what="the cluster is known to have partitions",
        )
        bus.admin.subscription("accounts", "ledger", subscriber.url("/ledger"))
        sent = [accepted(bus, f"k{n % 5}") for n in range(50)]
        wait_until(lambda: len(subscriber.calls()) >= 50, within=30, what="all are delivered")
        places = [sent.index(call.id) for call in subscriber.calls()]
        assert [[place for place in places if place % 5 == key] for key in range(5)] == [
            list(range(key, 50, 5)) for key in range(5)
        ]
    partitions = world.fork.partitions("accounts")
    assert len(partitions) == 4
    assert [call for call in world.fork.asked(1) + world.fork.asked(2) if call["path"] == "/topic/create"]
