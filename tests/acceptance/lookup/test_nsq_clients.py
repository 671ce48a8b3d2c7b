"""Clients of NSQ that know nothing of the proxy work through it unchanged."""

from __future__ import annotations

import hashlib
import itertools
import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.acceptance.lookup.conftest import Rooms, port
from tests.harness.bus_process import BusProcess
from tests.harness.http import PLAIN
from tests.harness.lookup_proxy import LookupProxy, routes
from tests.harness.process import ROOT, Child
from tests.harness.subscribers import SubscriberProcess
from tests.harness.waiting import wait_until
from tests.servers import need
from tests.servers.nginx import NginxServer
from tests.servers.nsq import NsqdServer

MESSAGES = itertools.count(1)
NAME = "nsq.example:4161"  # by which clients on other machines know it
NGINX = ROOT / "deploy" / "lookup" / "nginx.conf"


class Flow:
    """Messages into nsqds, and what of them a subscriber has."""

    def __init__(self, topic: str, subscriber: SubscriberProcess) -> None:
        self.topic = topic
        self.subscriber = subscriber
        self.sent: dict[str, bytes] = {}

    def send(self, *nsqds: NsqdServer) -> None:
        """Publish some to each."""
        for nsqd, _ in itertools.product(nsqds, range(5)):
            body = b"%d" % next(MESSAGES)
            nsqd.call("/pub", body, topic=self.topic)
            self.sent[hashlib.sha256(body).hexdigest()] = body

    def missing(self) -> set[bytes]:
        return {self.sent[one] for one in self.sent.keys() - {call.sha256 for call in self.subscriber.calls()}}

    def wait(self) -> None:
        wait_until(lambda: not self.missing(), within=40, what="all arrive", state=self.missing, every=0.2)


@pytest.fixture
def flow(rooms: Rooms, topic: str, tmp_path: Path, programs: Path) -> Iterator[Flow]:
    """Stock nsq_to_http reads the topic through the proxy."""
    for nsqd in (*rooms.east.nsqds, *rooms.west.nsqds):
        nsqd.call("/topic/create", topic=topic)
        nsqd.call("/channel/create", topic=topic, channel="to_http")
    with SubscriberProcess(tmp_path) as subscriber:
        argv = [
            str(programs / "nsq_to_http"),
            f"-topic={topic}",
            "-channel=to_http",
            f"-post={subscriber.url('/got')}",
            f"-lookupd-http-address={rooms.proxy.address}",
            "-consumer-opt=lookupd_poll_interval,500ms",
        ]
        with Child(argv, log=tmp_path / "nsq_to_http.log"):
            yield Flow(topic, subscriber)


def test_stock_clients_go_on_while_servers_and_a_whole_room_are_gone(rooms: Rooms, flow: Flow) -> None:
    east, west = rooms.east.nsqds, rooms.west.nsqds
    flow.send(*east, *west)
    flow.wait()
    rooms.east.lookupds[0].kill()
    flow.send(*east, *west)
    rooms.west.lookupds[0].pause()
    flow.send(*east, *west)
    flow.wait()
    for lookupd in rooms.west.lookupds:
        lookupd.kill()
    for nsqd in rooms.west.nsqds:
        nsqd.stop()  # killed, it would not find its own queue again
    flow.send(*east)
    flow.wait()
    for server in (*rooms.west.lookupds, *rooms.west.nsqds):
        server.start()
    rooms.proxy.wait_ports(flow.topic, "r", {port(nsqd) for nsqd in (*east, *west)}, within=30)
    flow.send(*west)
    flow.wait()


def test_nsqs_own_tools_read_and_write_through_the_proxy(
    rooms: Rooms, topic: str, programs: Path, tmp_path: Path
) -> None:
    nsqds = (rooms.east.nsqds[0], rooms.west.nsqds[0])
    for nsqd in nsqds:
        nsqd.call("/topic/create", topic=topic)
        # Its own channel is ephemeral, and drops what it does not take at once from an nsqd without memory for queues.
        nsqd.call("/channel/create", topic=topic, channel="tail")
    rooms.proxy.wait_ports(topic, "r", {port(nsqd) for nsqd in nsqds})
    tail = [str(programs / "nsq_tail"), f"-topic={topic}", "-channel=tail"]
    tail.append(f"-lookupd-http-address={rooms.proxy.address}")
    with Child(tail, log=tmp_path / "nsq_tail.log") as reader:
        wait_until(lambda: reader.output().count("connecting to nsqd") == 2, within=20, what="both are read")
        (producer,) = rooms.proxy.get(f"/lookup?topic={topic}&access=w").json()["producers"]
        place = f"{producer['broadcast_address']}:{producer['tcp_port']}"
        writer = [str(programs / "to_nsq"), f"-topic={topic}", f"-nsqd-tcp-address={place}"]
        subprocess.run(writer, input=b"from to_nsq\n", check=True, capture_output=True, timeout=20)
        nsqds[1].call("/pub", b"from the other room", topic=topic)
        wait_until(
            lambda: all(words in reader.output() for words in ("from to_nsq", "from the other room")),
            within=20, what="both messages are read", state=reader.output,
        )  # fmt: skip


def test_a_bus_delivers_over_both_rooms(rooms: Rooms, topic: str, tmp_path: Path) -> None:
    env = {"BUS_NSQ_LOOKUPD": rooms.proxy.address}
    with SubscriberProcess(tmp_path) as subscriber, BusProcess(tmp_path / "bus", env=env) as bus:
        bus.admin.destination(topic, transport="nsq")
        bus.admin.subscription(topic, "shop", subscriber.url("/shop"))
        sent = [bus.admin.send(topic, b'{"n":%d}' % number).json()["id"] for number in range(20)]
        wait_until(lambda: {call.id for call in subscriber.calls()} >= set(sent), within=30, what="all are delivered")
        for server in (*rooms.west.nsqds, *rooms.west.lookupds):
            server.kill()
        sent += [bus.admin.send(topic, b'{"n":%d}' % number).json()["id"] for number in range(20)]
        wait_until(lambda: {call.id for call in subscriber.calls()} >= set(sent), within=40, what="all are delivered")


def test_a_reverse_proxy_may_hijack_lookups_only(rooms: Rooms, topic: str, tmp_path: Path) -> None:
    program = need("nginx")
    settings = NGINX.read_text().replace("listen 4161", "listen PORT").replace("127.0.0.1:4163", rooms.proxy.address)
    settings = settings.replace("127.0.0.1:4261", rooms.east.lookupds[0].http)
    rooms.east.nsqds[0].call("/topic/create", topic=topic)
    rooms.west.nsqds[0].call("/topic/create", topic=topic)
    both = {port(rooms.east.nsqds[0]), port(rooms.west.nsqds[0])}
    rooms.proxy.wait_ports(topic, "r", both)
    with NginxServer(program, tmp_path / "nginx", settings) as nginx:

        def get(path: str) -> httpx.Response:
            return httpx.get(f"{nginx.url}{path}", headers={"host": NAME}, timeout=5, **PLAIN)

        found = get(f"/lookup?topic={topic}")
        assert {one["tcp_port"] for one in found.json()["producers"]} == both
        assert len(get("/nodes").json()["producers"]) == 2  # its own room's nsqlookupds answer this
        (leader,) = get("/listlookup").json()["lookupdnodes"]
        assert f"{leader['NodeIP']}:{leader['HttpPort']}" == NAME
        assert httpx.post(f"{nginx.url}/topic/create?topic=made-{topic}", **PLAIN).status_code == 200
        assert f"made-{topic}" in get("/topics").json()["topics"]


def test_a_lookup_proxy_may_stand_in_front_of_everything(rooms: Rooms, topic: str, tmp_path: Path) -> None:
    """Two of them: clients that know both go on when one is killed."""
    told = routes(default={"#C": ["east", "west"], "#P": "east"})
    with (
        LookupProxy(tmp_path / "second", rooms.clusters, told) as second,
        SubscriberProcess(tmp_path) as subscriber,
        BusProcess(tmp_path / "bus", env={"BUS_NSQ_LOOKUPD": f"{rooms.proxy.address},{second.address}"}) as bus,
    ):
        bus.admin.destination(topic, transport="nsq")
        bus.admin.subscription(topic, "shop", subscriber.url("/shop"))
        for kill in (lambda: None, rooms.proxy.bus.kill):
            kill()
            sent = [bus.admin.send(topic, b'{"n":%d}' % number).json()["id"] for number in range(5)]
            wait_until(lambda: {call.id for call in subscriber.calls()} >= set(sent), within=30, what="they arrive")  # noqa: B023
