"""Fixtures for tests on a ZooKeeper: one server for the tests of a folder, a path of its own for each test."""

from __future__ import annotations

import itertools
import os
from collections.abc import AsyncIterator, Iterator

import pytest

from bus.coordinators.zookeeper import ZookeeperDocuments
from tests.servers import docker, need
from tests.servers.zookeeper import VERSION, ZookeeperServer
from tests.servers.zookeeper import address as named

PATIENCE = 30.0
_PORT = 2181
_numbers = itertools.count()


def place_on(server: str) -> str:
    """Return an address on a server, with a path that no other test uses."""
    return f"{server}/test-{os.getpid()}-{next(_numbers)}/documents"


@pytest.fixture(scope="session")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """``HOST:PORT`` of the environment's server, of one in Docker where an engine answers, or of a local one."""
    if address := named():
        yield address
    elif docker.answers():
        from testcontainers.core.container import DockerContainer  # noqa: PLC0415 - needs an engine to be of use

        with DockerContainer(f"zookeeper:{VERSION}").with_exposed_ports(_PORT) as container:
            yield f"{container.get_container_host_ip()}:{container.get_exposed_port(_PORT)}"
    else:
        with ZookeeperServer(need("zookeeper"), tmp_path_factory.mktemp("zookeeper")) as server:
            yield server.address


@pytest.fixture
def place(zookeeper: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """An address of its own, of a server that is waited for as long as a slow machine takes."""
    for name in ("DEADLINE", "REACH"):
        monkeypatch.setattr(f"bus.coordinators.zookeeper.connection.{name}", PATIENCE)
    return place_on(zookeeper)


@pytest.fixture
async def documents(place: str) -> AsyncIterator[ZookeeperDocuments]:
    made = ZookeeperDocuments(place)
    yield made
    await made.close()
