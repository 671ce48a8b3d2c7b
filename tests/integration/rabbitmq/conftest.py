from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.servers import need
from tests.servers.rabbitmq import RabbitmqServer


@pytest.fixture(scope="session")
def primary_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RabbitmqServer]:
    with RabbitmqServer(need("rabbitmq"), tmp_path_factory.mktemp("primary"), name="primary") as server:
        yield server


@pytest.fixture(scope="session")
def backup_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RabbitmqServer]:
    with RabbitmqServer(need("rabbitmq"), tmp_path_factory.mktemp("backup"), name="backup") as server:
        yield server


@pytest.fixture
def primary(primary_server: RabbitmqServer) -> Iterator[RabbitmqServer]:
    yield primary_server
    revive(primary_server)


@pytest.fixture
def backup(backup_server: RabbitmqServer) -> Iterator[RabbitmqServer]:
    yield backup_server
    revive(backup_server)


def revive(server: RabbitmqServer) -> None:
    """Leave a server to the next test as it was."""
    if server.child.running:
        server.resume()
    else:
        server.start()
