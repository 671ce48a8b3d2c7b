"""The embedded store as rows for Spark, read beside a running bus.

A small store is read here and handed to Spark at once, since a worker of Python takes longer to start than that. A
large one is a data source, with a task for each of its partition files. Both are for Spark on the machine of the bus
(local mode): the files are locked and shared as between processes of the bus.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from bus.domain.delivery.delivery import Attempt, Resend
from bus.domain.identity import id_time
from bus.domain.message import Message
from bus.domain.tracing.partition import PartitionLabel
from bus.domain.tracing.trace import DeliveryTrace, attempts_in_order
from bus.stores.sqlite.keys import Label
from bus.stores.sqlite.partitions.scanning import ScannedTrace, bytes_in, partitions_in, scan
from pipeline.schemas import MESSAGES
from pipeline.sources.wanted import TEXTS, MessageSelection

NAME: Final = "bus-sqlite"
_SMALL: Final = 16 * 2**20
"""Bytes of files; their rows take some times as much memory."""
_SCHEMA: Final = to_arrow_schema(MESSAGES.schema)
_MICROS: Final = 1_000
_NOTHING: Final = Message("", "", b"", content_type="")


def from_sqlite(spark: SparkSession, path: Path, wanted: MessageSelection) -> DataFrame:
    """Return messages (``schemas.MESSAGES``) of a store's directory; raises ``ConfigurationError`` when it is none."""
    parts = [label for label in partitions_in(path) if wanted.may_be_in(PartitionLabel(*label))]
    if bytes_in(path, parts) <= _SMALL:
        batches = [batch for label in parts for batch in _batches(path, label, wanted)]
        return spark.createDataFrame(pa.Table.from_batches(batches) if batches else _SCHEMA.empty_table())
    spark.dataSource.register(SqliteSource)
    options = {"path": str(path.resolve()), "wanted": msgspec.json.encode(wanted).decode()}
    return spark.read.format(NAME).options(**options).load()


class SqliteSource(DataSource):
    """What Spark asks for a schema and a reader."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return NAME

    def schema(self) -> StructType:
        """Return the schema of a row."""
        return MESSAGES.schema

    def reader(self, schema: StructType) -> DataSourceReader:  # noqa: ARG002 - it is the one above
        """Return the reader of the store's files."""
        return _Reader(self.options)


class _File(InputPartition):
    """One task's part."""

    def __init__(self, label: Label) -> None:
        super().__init__((label.day, label.retention_days))
        self.label = label


class _Reader(DataSourceReader):
    def __init__(self, options: dict[str, str]) -> None:
        self._path = Path(options["path"])
        self._wanted = msgspec.json.decode(options["wanted"], type=MessageSelection)

    def partitions(self) -> Sequence[InputPartition]:
        return [_File(label) for label in partitions_in(self._path) if self._wanted.may_be_in(PartitionLabel(*label))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if not isinstance(partition, _File):  # Spark has one task all the same where there is nothing to read
            return
        yield from _batches(self._path, partition.label, self._wanted)


def _batches(path: Path, label: Label, wanted: MessageSelection) -> Iterator[pa.RecordBatch]:
    since, before, bodies, _ = wanted
    for piece in scan(path, label, since=since, before=before, bodies=bodies):
        yield pa.RecordBatch.from_pylist([_row(scanned) for scanned in piece], schema=_SCHEMA)


def _row(scanned: ScannedTrace) -> dict[str, Any]:
    trace = scanned.trace
    message = trace.message or _NOTHING
    return {
        "id": trace.id,
        "made_at": _time(id_time(trace.id)),
        "destination": trace.destination,
        "retention_days": trace.retention_days,
        "arrived": trace.message is not None,
        **{name: getattr(message, name) for name in TEXTS},
        "headers": list(message.headers.items()),
        "expected": list(message.expected),
        **{name: _time(getattr(message, name)) for name in ("sent_at", "received_at", "deliver_at")},
        "body_bytes": trace.body_bytes,
        "body": scanned.body if scanned.body is not None and len(scanned.body) == trace.body_bytes else None,
        "deliveries": [_delivery(name, delivery) for name, delivery in sorted(trace.deliveries.items())],
    }


def _delivery(name: str, delivery: DeliveryTrace) -> dict[str, Any]:
    return {
        "subscription": name,
        "status": delivery.status.value,
        "generation": delivery.generation,
        "attempts_made": delivery.attempts_made,
        "at": _time(delivery.at),
        "reason": delivery.reason,
        "due_at": _time(delivery.due_at),
        "url": delivery.url,
        "attempts": [_attempt(attempt) for attempt in attempts_in_order(delivery)],
        "resends": [_resend(resend) for resend in delivery.resends],
    }


def _attempt(attempt: Attempt) -> dict[str, Any]:
    return {
        "id": attempt.id,
        "n": attempt.n,
        "by": attempt.by.value,
        "started_at": _time(attempt.started_at),
        "duration_ms": attempt.duration,
        "phases_ms": list(attempt.phases),
        "status_code": attempt.status_code,
        "error": attempt.error,
        "response": attempt.response,
        "node": attempt.node,
        "generation": attempt.generation,
        "taken_at": _time(attempt.taken_at),
    }


def _resend(resend: Resend) -> dict[str, Any]:
    return {
        "generation": resend.generation,
        "job": resend.job,
        "by": resend.by,
        "reason": resend.reason,
        "at": _time(resend.at),
    }


def _time(milliseconds: int) -> int | None:
    """Return a time as Arrow has it; 0 stands for none that is known."""
    return milliseconds * _MICROS if milliseconds else None
