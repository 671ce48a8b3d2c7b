"""The embedded store as a data source of Spark: a task for each of its partition files, read beside a running bus.

For Spark on the machine of the bus (local mode): the files are locked and shared as between processes of the bus.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from bus.domain.delivery import Attempt, Resend
from bus.domain.identity import id_time
from bus.domain.message import Message
from bus.domain.partition import PartitionLabel
from bus.domain.times import DAY
from bus.domain.trace import DeliveryTrace, attempts_in_order
from bus.stores.sqlite.keys import Label
from bus.stores.sqlite.scanning import Scanned, partitions_in, scan
from pipeline.schemas import MESSAGES

NAME: Final = "bus-sqlite"
_MICROS: Final = 1_000
_NOTHING: Final = Message("", "", b"", content_type="")


def from_sqlite(
    spark: SparkSession,
    path: Path,
    *,
    since: dt.datetime | None,
    before: dt.datetime | None,
    bodies: bool,
    only: PartitionLabel | None,
) -> DataFrame:
    """Return the messages (``schemas.MESSAGES``) of a store's directory.

    Raises
    ------
    ConfigurationError
        There is no store.
    """
    partitions_in(path)
    spark.dataSource.register(SqliteSource)
    options = {"path": str(path.resolve()), "bodies": str(bodies)}
    if since is not None:
        options["since"] = str(_milliseconds(since))
    if before is not None:
        options["before"] = str(_milliseconds(before))
    if only is not None:
        options["only"] = only.name
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

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return what reads."""
        return _Reader(schema, self.options)


class _File(InputPartition):
    """One task's part."""

    def __init__(self, label: Label) -> None:
        super().__init__((label.day, label.retention_days))
        self.label = label


class _Reader(DataSourceReader):
    def __init__(self, schema: StructType, options: dict[str, str]) -> None:
        self._schema = schema
        self._path = Path(options["path"])
        self._bodies = options["bodies"] == "True"
        self._since = int(options["since"]) if "since" in options else None
        self._before = int(options["before"]) if "before" in options else None
        self._only = options.get("only")

    def partitions(self) -> Sequence[InputPartition]:
        return [_File(label) for label in partitions_in(self._path) if self._overlaps(label)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, _File)  # noqa: S101 - they are those that it made
        schema = to_arrow_schema(self._schema)
        pieces = scan(self._path, partition.label, since=self._since, before=self._before, bodies=self._bodies)
        for piece in pieces:
            yield pa.RecordBatch.from_pylist([_row(scanned) for scanned in piece], schema=schema)

    def _overlaps(self, label: Label) -> bool:
        if self._only is not None and label.name != self._only:
            return False
        start = label.day * DAY
        return (self._since is None or start + DAY > self._since) and (self._before is None or start < self._before)


def _row(scanned: Scanned) -> dict[str, Any]:
    trace = scanned.trace
    message = trace.message or _NOTHING
    return {
        "id": trace.id,
        "made_at": _time(id_time(trace.id)),
        "destination": trace.destination,
        "retention_days": trace.retention_days,
        "arrived": trace.message is not None,
        **{name: getattr(message, name) for name in _SAME},
        "headers": list(message.headers.items()),
        "expected": list(message.expected),
        **{name: _time(getattr(message, name)) for name in ("sent_at", "received_at", "deliver_at")},
        "body_bytes": trace.body_bytes,
        "body": scanned.body if scanned.body is not None and len(scanned.body) == trace.body_bytes else None,
        "deliveries": [_delivery(name, delivery) for name, delivery in sorted(trace.deliveries.items())],
    }


_SAME: Final = (
    *("source", "biz_id", "key", "routing_key", "content_type", "traceparent", "tracestate"),
    *("original_id", "idempotency_key", "edited_from", "replay"),
)


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


def _milliseconds(time: dt.datetime) -> int:
    return (time - dt.datetime.fromtimestamp(0, dt.UTC)) // dt.timedelta(milliseconds=1)
