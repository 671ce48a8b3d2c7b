from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.servers.rabbitmq import RabbitmqServer
from tests.servers.rabbitmq_fixtures import local


@pytest.fixture
def primary() -> Iterator[RabbitmqServer]:
    server = local("primary")
    yield server
    revive(server)


@pytest.fixture
def backup() -> Iterator[RabbitmqServer]:
    server = local("backup")
    yield server
    revive(server)


def revive(server: RabbitmqServer) -> None:
    """Leave a server to the next test as it was."""
    if server.child.running:
        server.resume()
    else:
        server.start()
