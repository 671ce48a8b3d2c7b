"""Lines of trace events as streams of ``value`` and ``arrived``."""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

BATCH: Final = 256.0
"""Mebibytes that a batch reads at most."""
_MEBIBYTE: Final = 2**20
_BLOCK: Final = 64 * 1024  # assumed bytes of a record of Kafka, which is a block


def from_files(spark: SparkSession, folder: str, *, batch: float = BATCH) -> DataFrame:
    """Return the lines of the files that emitters have closed below a folder, the oldest first.

    A line arrived when its file was closed. At most ``batch`` MiB make a batch, and one file at least.
    """
    lines = (
        spark.readStream.format("text")
        .option("maxBytesPerTrigger", int(batch * _MEBIBYTE))
        .option("pathGlobFilter", "*.jsonl")
        .option("maxFileAge", "36500d")  # old files are read too
        .load(folder)
    )
    return lines.select("value", F.col("_metadata.file_modification_time").alias("arrived"))


def from_kafka(
    spark: SparkSession,
    bootstrap: str,
    topic: str,
    *,
    options: dict[str, str] | None = None,
    batch: float = BATCH,
    accept_gap: bool = False,
) -> DataFrame:
    """Return the lines of a topic; one arrived when the broker took it.

    A batch has about ``batch`` MiB at most, by the usual size of a block. Records that the broker has lost stop the
    stream (``failOnDataLoss``), unless a person accepts that with ``accept_gap``.
    """
    records = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("failOnDataLoss", str(not accept_gap).lower())
        .option("maxOffsetsPerTrigger", max(int(batch * _MEBIBYTE / _BLOCK), 1))
        .options(**(options or {}))
        .load()
    )
    return records.select(F.col("value").cast("string").alias("value"), F.col("timestamp").alias("arrived"))
