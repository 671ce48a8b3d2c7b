"""A Kafka that tests of this folder may kill, stop and wipe."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.servers import need
from tests.servers.kafka import KafkaServer


@pytest.fixture(scope="session")
def one_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaServer]:
    with KafkaServer(need("kafka"), tmp_path_factory.mktemp("kafka")) as server:
        yield server


@pytest.fixture
def broker(one_broker: KafkaServer) -> Iterator[KafkaServer]:
    """The broker, running; whatever a test does to it is undone."""
    yield one_broker
    one_broker.resume()
    if not one_broker.child.running:
        one_broker.start()
