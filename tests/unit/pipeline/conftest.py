import pytest
from pyspark.sql import SparkSession

from tests.harness.spark import spark_session


@pytest.fixture(scope="session")
def spark() -> SparkSession:
    return spark_session()
