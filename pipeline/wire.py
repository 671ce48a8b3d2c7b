"""The schema of what emitters write: a line is a block, with its events and its rows of the audit ledger.

Fields are only ever added; one that a line does not have is null.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
)


def struct(**fields: DataType) -> StructType:
    """Return a type with these fields, each of which may be null."""
    return StructType([StructField(name, kind) for name, kind in fields.items()])


_TEXT, _INT, _LONG = StringType(), IntegerType(), LongType()

EVENT_FACTS: Final[dict[str, DataType]] = {
    "destination": _TEXT,
    "subscription": _TEXT,
    "expected": ArrayType(_TEXT),
    "status": _TEXT,
    "attempt": _INT,
    "attempt_id": _TEXT,
    "generation": _INT,
    "origin": _TEXT,
    "code": _INT,
    "reason": _TEXT,
    "transport": _TEXT,
    "bytes": _LONG,
    "biz_id": _TEXT,
    "source": _TEXT,
    "latency_us": _LONG,
    "duration_us": _LONG,
    "replay": _TEXT,
}
"""The fields of an event beside its stage, its time and its message; tables keep them as they are written."""
WIRE_EVENT: Final = struct(stage=_TEXT, at=_LONG, id=_TEXT, **EVENT_FACTS)
"""One event in a block, as ``bus.domain.tracing.events`` writes it; absent fields are null."""

WIRE_LEDGER: Final = struct(
    stage=_TEXT,
    destination=_TEXT,
    subscription=_TEXT,
    minute=_LONG,
    count=_LONG,
    xor=_LONG,
    sum=_LONG,
    latency=MapType(_TEXT, _LONG),
)
WIRE_BLOCK: Final = struct(
    v=_INT,
    emitter=_TEXT,
    role=_TEXT,
    node=_TEXT,
    seq=_LONG,
    at=_LONG,
    lost=_LONG,
    events=ArrayType(WIRE_EVENT),
    ledger=ArrayType(WIRE_LEDGER),
    last=BooleanType(),
)
"""One line: events that an emitter gathered in a second. (emitter, seq) names it permanently."""
WIRE_VERSION: Final = 1
STAGES: Final = ("sent", "accepted", "published", "settled", "handed")
