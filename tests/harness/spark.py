"""One Spark session for a whole test run: it takes ten seconds to start."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import cache

import pyarrow as pa
from pyspark.sql import SparkSession

from pipeline.object_store import CHECKPOINTS, spark_settings
from pipeline.session import configured, open_session
from tests.servers import need

CORES = 1
SEVERAL = 4
"""Partitions of a batch, as the stream has them where nobody says otherwise."""
_HADOOP = "spark.hadoop."
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


def large_run(session: SparkSession) -> AbstractContextManager[None]:
    """Have what is run planned as in a command that reads many rows on one machine, as far as a session may change."""
    return configured(session, {_PARTITIONS: "16", "spark.sql.adaptive.enabled": "true"})


@contextmanager
def reaching_buckets(session: SparkSession) -> Iterator[None]:
    """Have a running session reach the object store of this process's environment, as commands do from their start."""
    context, credentials = session.sparkContext, ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
    java, hadoop = context._jvm.System, context._jsc.hadoopConfiguration()
    for name, property_name in zip(credentials, ("aws.accessKeyId", "aws.secretAccessKey"), strict=True):
        java.setProperty(property_name, os.environ[name])
    settings = spark_settings()
    for name, value in settings.items():
        hadoop.set(name.removeprefix(_HADOOP), value)
    planned = {name: value for name, value in settings.items() if not name.startswith(_HADOOP)}
    try:
        with configured(session, planned):
            yield
    finally:
        for name in CHECKPOINTS:  # the stream sets them
            session.conf.unset(name)


def _same(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    return batches
