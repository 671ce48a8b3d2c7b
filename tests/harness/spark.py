"""One Spark session for a whole test run: it takes ten seconds to start."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager
from functools import cache

import pyarrow as pa
from pyspark.sql import SparkSession

from pipeline.session import configured, open_session
from tests.servers import need

CORES = 1
SEVERAL = 4
"""Partitions of a batch, as the stream has them where nobody says otherwise."""
_PARTITIONS = "spark.sql.shuffle.partitions"


@cache
def spark_session() -> SparkSession:
    """Return the session, started by whoever asks first; with the connectors to Kafka and MongoDB.

    It has run a job, so that no test pays for the first one: the planner is loaded, and a Python worker stands by.
    """
    # Asked for before the session starts, by the helper that compares data frames.
    os.environ.setdefault("PYARROW_IGNORE_TIMEZONE", "1")
    connectors = need("connectors")
    session = open_session("tests", master=f"local[{CORES}]", memory="2g", connectors=connectors)
    session.conf.set(_PARTITIONS, str(CORES))
    session.range(1).mapInArrow(_same, "id long").groupBy("id").count().collect()
    return session


def partitioned(session: SparkSession, count: int) -> AbstractContextManager[None]:
    """Have rows shuffled over so many partitions, and left there, as those of a large input are."""
    settings = {_PARTITIONS: str(count), "spark.sql.adaptive.coalescePartitions.enabled": "false"}
    return configured(session, settings)


def _same(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    return batches
