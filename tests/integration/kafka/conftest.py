"""A Kafka that tests of this folder may kill, stop and wipe."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.servers.kafka import KafkaServer
from tests.servers.kafka_fixtures import local


@pytest.fixture
def broker() -> Iterator[KafkaServer]:
    """The broker, running; whatever a test does to it is undone."""
    server = local()
    yield server
    server.resume()
    if not server.child.running:
        server.start()
