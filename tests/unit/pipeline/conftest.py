from contextlib import nullcontext

import pytest
from pyspark.sql import SparkSession

from pipeline.commands import archiving, baselining, rebuilding, reconciling, replaying, rolling
from tests.harness.spark import spark_session

COMMANDS = (archiving, baselining, rebuilding, reconciling, replaying, rolling)
"""Those that start Spark."""


@pytest.fixture(scope="session")
def spark() -> SparkSession:
    return spark_session()


@pytest.fixture
def without_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands go on without Spark; what it would find is the test's to say."""
    for module in COMMANDS:
        monkeypatch.setattr(module, "running", lambda *_: nullcontext())
