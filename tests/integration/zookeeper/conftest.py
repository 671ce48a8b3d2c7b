from __future__ import annotations

from collections.abc import Iterator

import pytest

from bus.coordinators.zookeeper import connection
from tests.servers import need
from tests.servers.zookeeper import ZookeeperServer
from tests.servers.zookeeper_fixtures import documents, place, zookeeper

__all__ = ["documents", "place", "zookeeper"]


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Notice sooner than the bus does that a server is away or stands still."""
    for name, seconds in {"SESSION": 1.0, "REACH": 0.5, "DEADLINE": 2.0}.items():
        monkeypatch.setattr(connection, name, seconds)


@pytest.fixture(scope="session")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZookeeperServer]:
    """A server to be killed and stopped; every test leaves it running."""
    with ZookeeperServer(need("zookeeper"), tmp_path_factory.mktemp("own")) as server:
        yield server
