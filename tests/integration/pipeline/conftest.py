from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.harness.archived_bus import Place
from tests.harness.bus_process import BusProcess
from tests.harness.spark import spark_session
from tests.harness.subscribers import SubscriberProcess
from tests.servers.mongodb_fixtures import database, mongodb, patient
from tests.servers.s3_fixtures import bucket, s3_server

__all__ = ["bucket", "database", "mongodb", "patient", "s3_server"]


@pytest.fixture(scope="session")
def spark() -> SparkSession:
    return spark_session()


@pytest.fixture(params=["sqlite", pytest.param("mongodb", marks=pytest.mark.proof)])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    store = f"sqlite:///{tmp_path}/data/store" if request.param == "sqlite" else request.getfixturevalue("database")
    bus = BusProcess(tmp_path / "data", env={"BUS_STORE": store})
    with bus, SubscriberProcess(tmp_path) as subscriber:
        yield Place(bus, subscriber, store, tmp_path / "lake")


@pytest.fixture
def embedded(tmp_path: Path) -> Iterator[Place]:
    with BusProcess(tmp_path / "data") as bus, SubscriberProcess(tmp_path) as subscriber:
        yield Place(bus, subscriber, f"sqlite:///{tmp_path}/data/store", tmp_path / "lake")
