"""From lines, each a block of an emitter, to events, rows of the audit ledger, and malformed parts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, StringType

from bus.domain.identity import ID_PATTERN
from bus.domain.tracing.events import LARGEST
from pipeline.wire import STAGES, WIRE_BLOCK, WIRE_EVENT, struct

GOOD: Final = "good"
LATE: Final = "late"
FUTURE: Final = "future"
MALFORMED: Final = "malformed"
MINUTE_MS: Final = 60_000
_LAST_MS: Final = 253_402_300_799_999
"""The end of the year 9999: what reads the tables has no later time."""
_NO_BLOCK: Final = "not a block of trace events"
_NO_ROW: Final = "a row of the ledger that cannot be read"
_RAW: Final = struct(events=ArrayType(StringType()), ledger=ArrayType(StringType()))
_ID: Final = rf"\A{ID_PATTERN}\z"
_BUCKET: Final = r"\A(0|-?[1-9][0-9]{0,8})\z"
_NEEDED: Final = ("stage", "id", "destination", "at", "bytes")
_TEXT_FIELDS: Final = tuple(f.name for f in WIRE_EVENT.fields if isinstance(f.dataType, StringType))


class Allowance(NamedTuple):
    """By how many seconds the time of an event may lie before and after the arrival of its line.

    The rule depends on the row alone. With a watermark that moves with the stream, the same row would be late or not
    depending on the batches and on partitions that lag, and a repeated run would have another result.
    """

    late: int = 600
    future: int = 600


def parsed(lines: DataFrame) -> DataFrame:
    """Add to lines (``value``, ``arrived``) their ``block``, and its key ``emitter`` and ``seq``.

    The key of a line that is no block is made from its text.
    """
    block = F.from_json("value", WIRE_BLOCK)
    named = lines.withColumn("block", block)
    return named.withColumn("emitter", F.coalesce("block.emitter", F.lit(""))).withColumn(
        "seq", F.when(_is_block(), F.col("block.seq")).otherwise(F.xxhash64("value"))
    )


def blocks_of(lines: DataFrame) -> DataFrame:
    """Return a row for each block (``schemas.BLOCKS``) of parsed lines."""
    return lines.where(_is_block()).select(
        "emitter",
        "seq",
        "arrived",
        F.coalesce("block.role", F.lit("")).alias("role"),
        F.coalesce("block.node", F.lit("")).alias("node"),
        F.timestamp_millis("block.at").alias("at"),
        F.coalesce("block.lost", F.lit(0)).alias("lost"),
        _length("block.events").alias("events"),
        _length("block.ledger").alias("ledger"),
        F.coalesce("block.last", F.lit(False)).alias("last"),
    )


def events_of(lines: DataFrame, allowance: Allowance) -> DataFrame:
    """Return the events that can be read (``schemas.EVENTS``) of parsed lines, with their verdict."""
    flat = (
        lines.where(_is_block())
        .select("emitter", "seq", "arrived", F.col("block.node").alias("node"), F.posexplode("block.events"))
        .select("emitter", "seq", F.col("pos").alias("position"), "arrived", "node", "col.*")
        .where(is_readable())
    )
    defaults = {name: F.coalesce(name, F.lit("")) for name in (*_TEXT_FIELDS, "node")}
    numbers = {name: F.coalesce(name, F.lit(0)) for name in ("attempt", "generation", "code", "bytes")}
    durations = {name: F.coalesce(name, F.lit(-1)) for name in ("latency_us", "duration_us")}
    return flat.withColumns(defaults | numbers | durations).withColumns(
        {
            "verdict": verdict(allowance),
            "expected": F.coalesce("expected", F.array().cast("array<string>")),
            "minute": F.timestamp_millis(_minute_of(F.col("at"))),
            "sent_minute": F.timestamp_millis(_minute_of(id_time(F.col("id")))),
            "at": F.timestamp_millis("at"),
        }
    )


def ledger_of(lines: DataFrame) -> DataFrame:
    """Return the rows of the audit ledger (``schemas.LEDGER``) of parsed lines."""
    rows = lines.where(_is_block()).select("emitter", "seq", "arrived", F.posexplode("block.ledger"))
    return (
        rows.where(_is_ledger_row(F.col("col")))
        .select("emitter", "seq", F.col("pos").alias("position"), "arrived", "col.*")
        .withColumn("subscription", F.coalesce("subscription", F.lit("")))
        .withColumn("minute", F.timestamp_millis("minute"))
        .withColumn(
            "latency", F.coalesce(F.col("latency").cast("map<int,bigint>"), F.create_map().cast("map<int,bigint>"))
        )
    )


def malformed_of(lines: DataFrame) -> DataFrame:
    """Return the parts that could not be read (``schemas.SIDE``) of parsed lines: whole lines, and parts of blocks.

    Parts are single events and rows of the ledger, with their position in the block. All are found in one pass: Spark's
    cache does not serve a second reading of a stream's batch, which would run source and state once more.
    """
    origin = ("emitter", "seq", "arrived")
    found = F.when(
        _is_block(), F.concat(_broken("events", _readable, _why), _broken("ledger", _is_ledger_row, _no_row))
    )
    found = found.otherwise(F.array(_malformed(F.lit(-1), F.lit(_NO_BLOCK), F.col("value"))))
    bad = lines.where(~_is_block() | _has_broken("events", _readable) | _has_broken("ledger", _is_ledger_row))
    rows = bad.select(*origin, F.explode(found).alias("row"))
    return rows.select(*origin, "row.position", F.lit(MALFORMED).alias("verdict"), "row.why", "row.raw")


def misdated(events: DataFrame) -> DataFrame:
    """Return the late and the future-dated of events as rows for the side table (``schemas.SIDE``)."""
    raw = F.to_json(F.struct(*[field.name for field in WIRE_EVENT.fields]))
    return events.where(F.col("verdict") != GOOD).select(
        "emitter",
        "seq",
        "arrived",
        "position",
        "verdict",
        F.concat(F.lit("happened at "), F.date_format("at", "yyyy-MM-dd HH:mm:ss"), F.lit(" UTC")).alias("why"),
        raw.alias("raw"),
    )


def verdict(allowance: Allowance) -> Column:
    """Return whether an event's time (``at``, ms) fits the arrival of its line."""
    ahead = F.col("at") - F.unix_millis("arrived")
    return F.when(ahead > allowance.future * 1000, FUTURE).when(ahead < -allowance.late * 1000, LATE).otherwise(GOOD)


def is_readable() -> Column:
    """Return whether the columns that every event must have are there and valid."""
    return _has_all(*[F.col(name) for name in _NEEDED])


def id_time(message_id: Column) -> Column:
    """Return the milliseconds since the epoch that a message id carries (RFC 9562, version 7), or null."""
    stamp = F.concat(F.substring(message_id, 1, 8), F.substring(message_id, 10, 4))
    return F.conv(stamp, 16, 10).try_cast("bigint")


def _is_block() -> Column:
    block = F.col("block")
    named = (block["v"] >= 1) & (F.length(block["emitter"]) > 0) & _is_number(block["seq"]) & (block["seq"] > 0)
    # A value that is no list is null here: then the whole line is malformed, since it has no parts to put aside.
    listed = block["events"].isNotNull() & block["ledger"].isNotNull()
    lost = F.coalesce(_is_number(block["lost"]), F.lit(True))
    return F.coalesce(named & listed & lost & _is_time(block["at"]), F.lit(False))


def _is_time(milliseconds: Column) -> Column:
    return (milliseconds > 0) & (milliseconds <= _LAST_MS)


def _is_number(value: Column) -> Column:
    """Return whether a number is so small that millions of them add up without overflow."""
    return (value >= 0) & (value <= LARGEST)


def _readable(event: Column) -> Column:
    return _has_all(*[event[name] for name in _NEEDED])


def _has_all(stage: Column, message_id: Column, destination: Column, at: Column, length: Column) -> Column:
    is_id = message_id.rlike(_ID) & (id_time(message_id) <= _LAST_MS)
    has_length = F.coalesce(_is_number(length), F.lit(True))
    fits = is_id & stage.isin(*STAGES) & (F.length(destination) > 0) & _is_time(at) & has_length
    return F.coalesce(fits, F.lit(False))


def _is_ledger_row(row: Column) -> Column:
    """Return whether a row of the ledger is well-formed."""
    timed = (row["minute"] >= 0) & (row["minute"] <= _LAST_MS)
    keys, counts = (F.coalesce(of(row["latency"]), F.array()) for of in (F.map_keys, F.map_values))
    whole = F.forall(keys, lambda key: key.rlike(_BUCKET)) & F.forall(counts, _is_number)
    return F.coalesce(row["stage"].isNotNull() & _is_number(row["count"]) & timed & whole, F.lit(False))


def _has_broken(kind: str, is_whole: Callable[[Column], Column]) -> Column:
    return F.coalesce(F.exists(f"block.{kind}", lambda each: ~is_whole(each)), F.lit(False))


def _broken(kind: str, is_whole: Callable[[Column], Column], why: Callable[[Column], Column]) -> Column:
    """Return the malformed parts of a block, with their original text."""
    # The line is parsed again for the original texts; inside the lambda that would be done for each part.
    written = F.coalesce(F.from_json("value", _RAW)[kind], F.array())
    pairs = F.zip_with(f"block.{kind}", written, lambda each, raw: F.struct(each.alias("each"), raw.alias("raw")))
    placed = F.transform(pairs, lambda pair, place: pair.withField("place", place))
    broken = F.filter(placed, lambda part: ~is_whole(part["each"]))
    return F.transform(broken, lambda part: _malformed(part["place"], why(part["each"]), part["raw"]))


def _no_row(_row: Column) -> Column:
    return F.lit(_NO_ROW)


def _malformed(position: Column, why: Column, raw: Column) -> Column:
    return F.struct(position.alias("position"), why.alias("why"), F.make_valid_utf8(raw).alias("raw"))


def _why(event: Column) -> Column:
    return (
        F.when(event["stage"].isNull() | ~event["stage"].isin(*STAGES), "its stage is none that is known")
        .when(F.coalesce(event["at"], F.lit(0)) <= 0, "it has no time")
        .when(event["at"] > _LAST_MS, "its time is in no calendar")
        .when(F.coalesce(F.length(event["destination"]), F.lit(0)) == 0, "it has no destination")
        .when(~F.coalesce(event["id"].rlike(_ID), F.lit(False)), "its id is not a UUID of version 7")
        .when(id_time(event["id"]) > _LAST_MS, "its id is of a time in no calendar")
        .otherwise("its length is none that a body has")
    )


def _minute_of(milliseconds: Column) -> Column:
    return milliseconds - milliseconds % MINUTE_MS


def _length(array: str) -> Column:
    return F.coalesce(F.size(F.coalesce(F.col(array), F.array())), F.lit(0))
