"""Rooms with a proxy, two clusters of stock NSQ without one, and two of the fork's double."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.acceptance.lookup.migrating import CHANNEL, TOPIC
from tests.doubles.youzan.running import YouzanDouble
from tests.harness.lookup_proxy import LookupProxy, routes
from tests.servers import need, nsq
from tests.servers.nsq import NsqdServer, NsqServers

_numbers = itertools.count(1)
BOTH = {"#C": ["east", "west"], "#P": {"east": "east", "west": "west"}}


class Rooms(NamedTuple):
    """Two stock clusters, and a lookup proxy in the room of the first."""

    east: NsqServers
    west: NsqServers
    proxy: LookupProxy

    @property
    def clusters(self) -> dict[str, list[str]]:
        return clusters(self.east, self.west)


def clusters(east: NsqServers, west: NsqServers) -> dict[str, list[str]]:
    return {"east": [one.http for one in east.lookupds], "west": [one.http for one in west.lookupds]}


def port(nsqd: NsqdServer) -> int:
    return int(nsqd.tcp.rpartition(":")[2])


class Stock(NamedTuple):
    """Two clusters of stock NSQ, the first one with the topic."""

    source: nsq.NsqServers
    target: nsq.NsqServers

    @property
    def clusters(self) -> dict[str, str]:
        """Their nsqlookupds by name."""
        return {"a": self.source.lookupds[0].http, "b": self.target.lookupds[0].http}


class Forks(NamedTuple):
    """Two clusters of the fork, the first one with the ordered topic."""

    source: YouzanDouble
    target: YouzanDouble

    @property
    def clusters(self) -> dict[str, str]:
        """Their nsqlookupds by name."""
        return {"a": self.source.lookups[0], "b": self.target.lookups[0]}


@pytest.fixture(scope="session")
def programs() -> Path:
    return need("nsq")


@pytest.fixture
def rooms(programs: Path, tmp_path: Path) -> Iterator[Rooms]:
    """Rooms of a test's own, to harm."""
    with nsq.running(programs, tmp_path / "east") as east, nsq.running(programs, tmp_path / "west") as west:
        told = routes(default=BOTH)
        with LookupProxy(tmp_path / "proxy", clusters(east, west), told, room="east") as proxy:
            yield Rooms(east, west, proxy)


@pytest.fixture
def topic() -> str:
    return f"orders-{next(_numbers)}"


@pytest.fixture
def stock(programs: Path, tmp_path: Path) -> Iterator[Stock]:
    with nsq.running(programs, tmp_path / "a") as source, nsq.running(programs, tmp_path / "b") as target:
        for nsqd in source.nsqds:
            nsqd.call("/topic/create", topic=TOPIC)
            nsqd.call("/channel/create", topic=TOPIC, channel=CHANNEL)
        yield Stock(source, target)


@pytest.fixture
def forks(tmp_path: Path) -> Iterator[Forks]:
    with YouzanDouble(tmp_path / "a") as source, YouzanDouble(tmp_path / "b") as target:
        source.create_topic(TOPIC, partitions=2, ordered=True)
        source.create_channel(TOPIC, CHANNEL)
        yield Forks(source, target)
