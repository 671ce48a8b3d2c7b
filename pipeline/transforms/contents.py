"""Counts and checksum of messages, as ``bus.domain.tracing.contents`` makes them, so that bus and archive agree."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from pipeline.transforms.deliveries import is_unfinished

_LANE: Final = 15
_HEXADECIMAL: Final = 16


def line_digest() -> Column:
    """Return the digest of a message (``schemas.MESSAGES``, with its body) and of the state of its deliveries."""
    deliveries = F.concat_ws(",", F.transform("deliveries", _delivery))
    line = F.concat_ws("|", "id", F.length("body").cast("string"), F.sha2("body", 256), deliveries)
    return F.sha2(line, 256)


def counted(messages: DataFrame) -> DataFrame:
    """Return one row: how many messages and deliveries, the two halves of the checksum, and what cannot be archived.

    ``unfinished`` messages have an open delivery or have not arrived; ``unreadable`` ones lack their body.
    """
    digested = messages.select(
        F.size("deliveries").alias("deliveries"),
        is_unfinished().alias("unfinished"),
        F.col("body").isNull().alias("unreadable"),
        line_digest().alias("digest"),
    )
    return digested.agg(
        F.count("*").alias("messages"),
        F.coalesce(F.sum("deliveries"), F.lit(0)).alias("deliveries"),
        *[F.coalesce(F.bit_xor(_half(number)), F.lit(0)).alias(f"half_{number}") for number in range(2)],
        *[F.count(F.when(F.col(name), 1)).alias(name) for name in ("unfinished", "unreadable")],
    )


def left_behind(earlier: DataFrame, rows: DataFrame) -> DataFrame:
    """Return the earlier messages that are not in ``rows``, by id and time of arrival.

    One without a time matches any arrival of its id; one with a time does not match a row without.
    """
    arrived_then, arrived_now = F.col("earlier.received_at"), F.col("rows.received_at")
    same = (F.col("earlier.id") == F.col("rows.id")) & (arrived_then.isNull() | (arrived_then == arrived_now))
    return earlier.alias("earlier").join(rows.alias("rows"), same, "left_anti")


def _half(number: int) -> Column:
    digits = F.substring("digest", 1 + number * _LANE, _LANE)
    return F.conv(digits, _HEXADECIMAL, 10).cast("bigint")


def _delivery(delivery: Column) -> Column:
    numbers = [
        delivery["generation"],
        delivery["attempts_made"],
        F.coalesce(F.unix_millis(delivery["at"]), F.lit(0)),
        F.size(delivery["attempts"]),
        F.size(delivery["resends"]),
    ]
    return F.concat_ws(":", delivery["subscription"], delivery["status"], *[each.cast("string") for each in numbers])
