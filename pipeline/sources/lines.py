"""Lines of trace events as streams of ``value`` and ``arrived``."""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

BYTES_PER_BATCH: Final = 256 * 2**20
OFFSETS_PER_BATCH: Final = 20_000  # records of Kafka, each a block of up to 1,000 events


def from_files(spark: SparkSession, folder: str, *, most: int = BYTES_PER_BATCH) -> DataFrame:
    """Return the lines of the files that emitters have closed below a folder, the oldest first.

    A line arrived when its file was closed. At most so many bytes make a batch.
    """
    lines = (
        spark.readStream.format("text")
        .option("maxBytesPerTrigger", most)
        .option("pathGlobFilter", "*.jsonl")
        .option("maxFileAge", "36500d")  # a file that waited long is read all the same
        .load(folder)
    )
    return lines.select("value", F.col("_metadata.file_modification_time").alias("arrived"))


def from_kafka(
    spark: SparkSession,
    bootstrap: str,
    topic: str,
    *,
    options: dict[str, str] | None = None,
    most: int = OFFSETS_PER_BATCH,
) -> DataFrame:
    """Return the lines of a topic; one arrived when the broker took it. At most so many records make a batch.

    A gap in what the broker kept stops the stream (``failOnDataLoss``): what it lost is not passed over.
    """
    records = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("failOnDataLoss", "true")
        .option("maxOffsetsPerTrigger", most)
        .options(**(options or {}))
        .load()
    )
    return records.select(F.col("value").cast("string").alias("value"), F.col("timestamp").alias("arrived"))
