"""One Spark session for a whole test run: it takes ten seconds to start."""

from __future__ import annotations

import os
from functools import cache

from pyspark.sql import SparkSession

from pipeline.session import open_session
from tests.servers import need

CORES = 1


@cache
def spark_session() -> SparkSession:
    """Return the session, started by whoever asks first; with the connectors to Kafka and MongoDB."""
    # Asked for before the session starts, by the helper that compares data frames.
    os.environ.setdefault("PYARROW_IGNORE_TIMEZONE", "1")
    connectors = need("connectors")
    session = open_session("tests", master=f"local[{CORES}]", memory="2g", connectors=connectors)
    session.conf.set("spark.sql.shuffle.partitions", str(CORES))
    return session
