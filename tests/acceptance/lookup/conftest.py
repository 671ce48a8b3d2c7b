from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

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
