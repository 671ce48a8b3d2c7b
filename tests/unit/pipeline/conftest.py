from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.harness.spark import spark_session

HERE = Path(__file__).parent


@pytest.fixture(scope="session")
def spark() -> SparkSession:
    return spark_session()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let pass that PySpark leaves the sockets over which it reads results to the garbage collector."""
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"))
