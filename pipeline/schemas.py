"""The schemas of all tables of the lake, and the rules for changing them.

A field is only ever added, with a default that stands for "not known", and never changes its type or its meaning;
readers name the schema, so that rows written before have the default. What would break that is another table, or
a greater ``VERSION`` of the job: it then starts from a new checkpoint and rebuilds from the events that are kept.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DoubleType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructType,
    TimestampType,
)

from pipeline.wire import EVENT_FACTS, struct

_TEXT, _INT, _LONG, _TIME = StringType(), IntegerType(), LongType(), TimestampType()
_REAL = DoubleType()
_ORIGIN: Final[dict[str, DataType]] = {"emitter": _TEXT, "seq": _LONG, "position": _INT, "arrived": _TIME}


class Table(NamedTuple):
    """A table of the lake.

    Attributes
    ----------
    name
        Its folder.
    schema
        Of a row.
    time
        The time column by whose range in a file readers skip the file; empty for none.
    """

    name: str
    schema: StructType
    time: str = ""


EVENTS: Final = Table(
    "events",
    struct(
        **_ORIGIN,
        node=_TEXT,
        verdict=_TEXT,
        stage=_TEXT,
        at=_TIME,
        minute=_TIME,
        id=_TEXT,
        sent_minute=_TIME,
        **EVENT_FACTS,
    ),
    "at",
)
"""Every event that could be read, once. ``minute`` is when it happened, ``sent_minute`` the minute of the message's id,
``verdict`` is ``good``, ``late`` or ``future``; only good ones are in rollups of the stream."""

BLOCKS: Final = Table(
    "blocks",
    struct(
        emitter=_TEXT,
        seq=_LONG,
        arrived=_TIME,
        role=_TEXT,
        node=_TEXT,
        at=_TIME,
        lost=_LONG,
        events=_INT,
        ledger=_INT,
        last=BooleanType(),
    ),
    "arrived",
)
"""A row for each block: by a missing ``seq``, or a ``lost`` that grows, it shows that an emitter lost events. ``last``
is whether the emitter ended with it; null in blocks that were read before that was recorded."""

LEDGER: Final = Table(
    "ledger",
    struct(
        **_ORIGIN,
        stage=_TEXT,
        destination=_TEXT,
        subscription=_TEXT,
        minute=_TIME,
        count=_LONG,
        xor=_LONG,
        sum=_LONG,
        latency=MapType(_INT, _LONG),
    ),
    "minute",
)
"""The audit ledger as emitted: deltas, which add up. ``minute`` is that of the message's id."""

SIDE: Final = Table(
    "side",
    struct(**_ORIGIN, verdict=_TEXT, why=_TEXT, raw=_TEXT),
    "arrived",
)
"""Rows that no rollup counts: ``malformed`` blocks and events, ``late`` and ``future`` events; ``raw`` as JSON."""

ROLLUPS: Final = Table(
    "rollups",
    struct(
        minute=_TIME,
        stage=_TEXT,
        destination=_TEXT,
        subscription=_TEXT,
        events=_LONG,
        delivered=_LONG,
        failed=_LONG,
        retries=_LONG,
        bytes=_LONG,
        biz_ids=BinaryType(),
        latency=MapType(_INT, _LONG),
    ),
    "minute",
)
"""Partial counts of a minute, one for each batch with events of it: ``pipeline.transforms.rolling`` adds them up."""

QUALITY: Final = Table(
    "quality",
    struct(batch=_LONG, measured=_TIME, check=_TEXT, rows=_LONG, broken=_LONG),
    "measured",
)
"""The checks of each batch: over how many rows, and how many rows failed."""

PROGRESS: Final = Table(
    "progress",
    struct(
        query=_TEXT,
        batch=_LONG,
        measured=_TIME,
        rows=_LONG,
        rows_per_second=_LONG,
        batch_ms=_LONG,
        state_rows=_LONG,
        state_bytes=_LONG,
        dropped_by_watermark=_LONG,
        lag=_LONG,
        freshness_p50_ms=_LONG,
        freshness_p95_ms=_LONG,
        freshness_max_ms=_LONG,
    ),
    "measured",
)
"""Figures of the stream itself, a row for each batch that had data. ``freshness`` is the age of the batch's good events
when their rollups could be read; null of a batch that had none."""

PROOFS: Final = Table(
    "proofs",
    struct(
        checked=_TIME,
        hop=_TEXT,
        destination=_TEXT,
        subscription=_TEXT,
        minute=_TIME,
        state=_TEXT,
        compared=_TEXT,
        verdict=_TEXT,
        expected=_LONG,
        settled=_LONG,
        delivered=_LONG,
        skipped=_LONG,
        canceled=_LONG,
        dead=_LONG,
        parked=_LONG,
        missing=_LONG,
        under_way=_LONG,
        held=_LONG,
        unpublished=_LONG,
        event_lost=_LONG,
        store_behind=_LONG,
        unannounced=_LONG,
        duplicates=_LONG,
        resent=_LONG,
        fingerprint=_LONG,
    ),
    "minute",
)
"""Changes that each run of ``reconcile`` found in a bucket (hop, destination, subscription, id's minute); the row
with the latest ``checked`` is in force. ``expected`` to ``parked`` are the ledger's, the rest are deliveries."""

FINDINGS: Final = Table(
    "findings",
    struct(
        checked=_TIME,
        hop=_TEXT,
        destination=_TEXT,
        subscription=_TEXT,
        minute=_TIME,
        id=_TEXT,
        finding=_TEXT,
        last_at=_TIME,
        last_stage=_TEXT,
        last_status=_TEXT,
        last_attempt=_INT,
        last_code=_INT,
        last_reason=_TEXT,
        last_transport=_TEXT,
        last_node=_TEXT,
        store_status=_TEXT,
        store_at=_TIME,
        store_reason=_TEXT,
        store_due_at=_TIME,
        attempt_id=_TEXT,
        attempt_n=_INT,
        attempt_at=_TIME,
        attempt_code=_INT,
        attempt_error=_TEXT,
    ),
    "minute",
)
"""Deliveries that events and store do not both report as ended well, with the last event and last stored attempt.
In force are those whose ``checked`` is that of their bucket's row in ``proofs``."""

ATTEMPT: Final = struct(
    id=_TEXT,
    n=_INT,
    by=_TEXT,
    started_at=_TIME,
    duration_ms=DoubleType(),
    phases_ms=ArrayType(DoubleType()),
    status_code=_INT,
    error=_TEXT,
    response=BinaryType(),
    node=_TEXT,
    generation=_INT,
    taken_at=_TIME,
)
"""One POST, as ``bus.domain.delivery.delivery.Attempt``."""

RESEND: Final = struct(generation=_INT, job=_TEXT, by=_TEXT, reason=_TEXT, at=_TIME)

DELIVERY: Final = struct(
    subscription=_TEXT,
    status=_TEXT,
    generation=_INT,
    attempts_made=_INT,
    at=_TIME,
    reason=_TEXT,
    due_at=_TIME,
    url=_TEXT,
    attempts=ArrayType(ATTEMPT),
    resends=ArrayType(RESEND),
)
"""One delivery of a message, as ``bus.domain.tracing.trace.DeliveryTrace``, with its attempts in their order."""

MESSAGES: Final = Table(
    "messages",
    struct(
        id=_TEXT,
        made_at=_TIME,
        destination=_TEXT,
        retention_days=_INT,
        arrived=BooleanType(),
        source=_TEXT,
        biz_id=_TEXT,
        key=_TEXT,
        routing_key=_TEXT,
        content_type=_TEXT,
        headers=MapType(_TEXT, _TEXT),
        sent_at=_TIME,
        received_at=_TIME,
        deliver_at=_TIME,
        traceparent=_TEXT,
        tracestate=_TEXT,
        expected=ArrayType(_TEXT),
        original_id=_TEXT,
        idempotency_key=_TEXT,
        edited_from=_TEXT,
        replay=_TEXT,
        body_bytes=_LONG,
        body=BinaryType(),
        deliveries=ArrayType(DELIVERY),
    ),
    "made_at",
)
"""A store's record of a message, whichever store it is. ``made_at`` is the time of the id; times that are not known
are null. While only outcomes have ``arrived``, everything of the message is empty. ``body`` is null where it was not
asked for, and where the store does not have it as long as it should be."""

REPLAYS: Final = Table(
    "replays",
    struct(
        id=_TEXT,
        new_id=_TEXT,
        destination=_TEXT,
        source=_TEXT,
        biz_id=_TEXT,
        key=_TEXT,
        routing_key=_TEXT,
        content_type=_TEXT,
        headers=MapType(_TEXT, _TEXT),
        sent_at=_TIME,
        traceparent=_TEXT,
        tracestate=_TEXT,
        body=BinaryType(),
        deliver_at=_TIME,
    ),
)
"""A frozen selection, in the order of ids: the messages as they were, and the ids under which they are sent again.
``deliver_at`` is null for one whose time had come, or that had none."""

THRESHOLDS: Final = Table(
    "thresholds",
    struct(
        computed=_TIME,
        destination=_TEXT,
        subscription=_TEXT,
        metric=_TEXT,
        hour_of_week=_INT,
        norm=_REAL,
        mad=_REAL,
        low=_REAL,
        high=_REAL,
        weeks=_REAL,
        state=_TEXT,
        method=_TEXT,
    ),
    "computed",
)
"""The usual range of a metric: ``metric`` is ``volume`` (an hour's), ``latency`` (p95, ms) or ``failure`` (share of
attempts); ``hour_of_week`` 0 is Monday 00:00 UTC. Outside ``low`` and ``high`` is out; null is no limit. ``state`` is
``learning`` (under three weeks), ``ready``, or ``thin``: too little volume in this hour to distinguish half from
chance. ``method`` is ``median`` or ``stl``."""

TABLES: Final = {
    table.name: table
    for table in (
        EVENTS,
        BLOCKS,
        LEDGER,
        SIDE,
        ROLLUPS,
        QUALITY,
        PROGRESS,
        MESSAGES,
        REPLAYS,
        PROOFS,
        FINDINGS,
        THRESHOLDS,
    )
}
