"""A lookup proxy in front of two real clusters: what it answers, while all is well and while something is not."""

from __future__ import annotations

import json
from pathlib import Path

import httpx
import pytest

from tests.acceptance.lookup.conftest import BOTH, Rooms, port
from tests.harness.bus_process import run_bus
from tests.harness.http import PLAIN
from tests.harness.lookup_proxy import routes
from tests.harness.waiting import wait_until
from tests.servers.nsq import NsqdServer


def make(nsqd: NsqdServer, topic: str, *channels: str) -> None:
    nsqd.call("/topic/create", topic=topic)
    for channel in channels:
        nsqd.call("/channel/create", topic=topic, channel=channel)


@pytest.fixture
def everywhere(rooms: Rooms, topic: str) -> set[int]:
    """The topic is on every nsqd; returns their ports."""
    nsqds = (*rooms.east.nsqds, *rooms.west.nsqds)
    for nsqd in nsqds:
        make(nsqd, topic, "billing")
    ports = {port(nsqd) for nsqd in nsqds}
    rooms.proxy.wait_ports(topic, "r", ports)
    return ports


def test_what_two_clusters_know_is_answered_as_one_nsqlookupd_does(rooms: Rooms, topic: str) -> None:
    proxy = rooms.proxy
    make(rooms.east.nsqds[0], topic, "billing")
    make(rooms.west.nsqds[1], topic, "billing", "mail")
    here, there = port(rooms.east.nsqds[0]), port(rooms.west.nsqds[1])
    proxy.wait_ports(topic, "r", {here, there})
    assert proxy.ports(topic, "w") == {here}
    # An nsqd tells its nsqlookupd of a topic before its channels.
    wait_until(
        lambda: len(proxy.get(f"/lookup?topic={topic}").json()["channels"]) == 2, within=20, what="both channels"
    )
    answer = proxy.get(f"/lookup?topic={topic}")
    assert answer.headers["x-nsq-content-type"] == "nsq; version=1.0"
    assert answer.json()["channels"] == ["billing", "mail"]
    stock = httpx.get(f"http://{rooms.east.lookupds[0].http}/lookup?topic={topic}", **PLAIN).json()
    (own,) = (one for one in answer.json()["producers"] if one["tcp_port"] == here)
    assert own.keys() == stock["producers"][0].keys()
    assert proxy.get("/topics").json() == {"topics": [topic]}
    assert proxy.get(f"/channels?topic={topic}").json() == {"channels": ["billing", "mail"]}
    nodes = proxy.get("/nodes").json()["producers"]
    assert {one["tcp_port"]: one["topics"] for one in nodes} == {
        here: [topic], there: [topic], port(rooms.east.nsqds[1]): [], port(rooms.west.nsqds[0]): [],
    }  # fmt: skip
    assert proxy.get("/ping").text == "OK"
    (leader,) = proxy.get("/listlookup").json()["lookupdnodes"]
    assert f"{leader['NodeIP']}:{leader['HttpPort']}" == proxy.address
    assert topic in proxy.get("/debug").text  # passed through
    assert proxy.get("/lookup?topic=none").status_code == 404
    assert proxy.get("/lookup").json() == {"message": "MISSING_ARG_TOPIC"}


def test_a_change_goes_to_one_cluster_and_says_which(rooms: Rooms, topic: str) -> None:
    url = rooms.proxy.bus.url

    def topics(servers: int) -> list[set[str]]:
        found = (rooms.east, rooms.west)[servers].lookupds
        return [set(httpx.get(f"http://{one.http}/topics", **PLAIN).json()["topics"]) for one in found]

    done = httpx.post(f"{url}/topic/create?topic={topic}", **PLAIN)
    assert (done.status_code, done.headers["bus-lookup-cluster"]) == (200, "east")
    assert (topics(0), topics(1)) == ([{topic}, {topic}], [set(), set()])
    done = httpx.post(f"{url}/topic/create?topic={topic}&cluster=west", **PLAIN)
    assert done.headers["bus-lookup-cluster"] == "west"
    assert topics(1) == [{topic}, {topic}]
    httpx.post(f"{url}/topic/delete?topic={topic}", **PLAIN).raise_for_status()
    assert (topics(0), topics(1)) == ([set(), set()], [{topic}, {topic}])
    assert httpx.post(f"{url}/topic/create?cluster=west", **PLAIN).json() == {"message": "MISSING_ARG_TOPIC"}
    for request in ("/topic/create?cluster=north&topic=x", "/what/ever"):
        refused = httpx.post(f"{url}{request}", **PLAIN)
        assert (refused.status_code, "east, west" in refused.json()["message"]) == (400, True)


def test_clients_are_told_of_what_lives_when_servers_die_hang_and_come_back(
    rooms: Rooms, topic: str, everywhere: set[int]
) -> None:
    proxy, east, west = rooms.proxy, rooms.east, rooms.west
    here = {port(nsqd) for nsqd in east.nsqds}
    east.lookupds[0].kill()
    proxy.wait_ports(topic, "r", everywhere)
    for hung in west.lookupds:
        hung.pause()
    proxy.wait_ports(topic, "r", here, within=3)
    answer = proxy.get(f"/lookup?topic={topic}", within=2)
    assert answer.headers["bus-lookup-missing"] == "west"
    ill = httpx.get(f"{proxy.bus.url}/readyz", **PLAIN).json()["checks"]
    assert "cluster west" in next(check["detail"] for check in ill if check["name"] == "lookup")
    assert 'bus_lookup_cluster_up{cluster="west"} 0.0' in proxy.bus.admin.metrics()
    east.lookupds[1].kill()
    wait_until(lambda: "bus-lookup-stale" in proxy.get(f"/lookup?topic={topic}").headers, within=5, what="all are away")
    assert proxy.ports(topic) == everywhere
    assert proxy.get("/lookup?topic=never-asked").status_code == 503
    for lookupd in west.lookupds:
        lookupd.resume()
    for lookupd in east.lookupds:
        lookupd.start()
    wait_until(lambda: not proxy.get("/nodes").headers.get("bus-lookup-missing"), within=15, what="all are back")
    proxy.wait_ports(topic, "r", everywhere)  # though the first ones have forgotten all, and learn it anew
    assert "Traceback" not in proxy.bus.child.output()


def test_the_way_from_a_cold_standby_to_two_rooms_that_work(rooms: Rooms, topic: str, everywhere: set[int]) -> None:
    proxy = rooms.proxy
    here, there = ({port(nsqd) for nsqd in one.nsqds} for one in (rooms.east, rooms.west))
    proxy.write(routes(default={"#C": ["east"], "#P": "east"}))  # the first phase: the other room stands by
    proxy.wait_ports(topic, "r", here)
    assert proxy.ports(topic, "w") == here
    proxy.write(routes(default={"#C": ["east", "west"], "#P": "east"}))  # first everybody reads both
    proxy.wait_ports(topic, "r", everywhere)
    assert proxy.ports(topic, "w") == here
    proxy.write(routes(default=BOTH))  # the second phase: each room produces at home
    assert proxy.ports(topic, "w") == here
    proxy.room = "west"
    proxy.write(routes(default=BOTH))
    proxy.wait_ports(topic, "w", there)
    assert proxy.ports(topic, "r") == everywhere
    proxy.file.write_text('{"topics": [')
    wait_until(lambda: "it is no JSON" in proxy.bus.child.output(), within=10, what="the file is refused")
    assert proxy.ports(topic, "w") == there  # what was in force stays
    conditions = httpx.get(f"{proxy.bus.url}/readyz", **PLAIN).json()["checks"]
    assert any(check["name"] == "lookup configuration" and not check["ok"] for check in conditions)
    proxy.write(routes({topic: {"#P": "east"}}, default=BOTH))
    proxy.wait_ports(topic, "w", here)


@pytest.mark.parametrize(("content", "words"), [
    (None, "cannot read the lookup configuration"),
    ("{", "it is no JSON"),
    (json.dumps({"topics": [{"#D": {"#C": ["x"], "#P": "x"}}]}), "x is no cluster of lookupSchema"),
])  # fmt: skip
def test_a_configuration_that_cannot_be_meant_stops_the_start(tmp_path: Path, content: str | None, words: str) -> None:
    file = tmp_path / "rooms.json"
    if content is not None:
        file.write_text(content)
    done = run_bus("run", "lookup", "--data", tmp_path / "data", "--port", 0, env={"BUS_LOOKUP_CONFIG": str(file)})
    assert done.returncode == 1
    assert words in done.stderr
    assert "docs/lookup.md" in done.stderr


def test_a_start_without_a_configuration_says_what_is_needed(tmp_path: Path) -> None:
    done = run_bus("run", "lookup", "--data", tmp_path / "data", "--port", 0)
    assert done.returncode == 1
    assert "BUS_LOOKUP_CONFIG" in done.stderr
