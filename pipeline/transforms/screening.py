"""Messages of differing buckets that are not plainly done, found from figures alone.

Of the millions of deliveries in buckets that differ few are lost. Level two looks at each closely, so the others are
left out before: a delivery is plain when it was announced, and ended well once, and the store says the same or need not
have it; a message when it was accepted and went further, and the store has it or need not. It would be found settled,
and adds nothing to what is counted of its bucket.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from pipeline.transforms.deliveries import ARRIVED, WHOLE
from pipeline.transforms.ledgers import ACCEPT, DELIVER, HOPS, PUBLISH
from pipeline.transforms.witnesses import rank

_SENT, _ACCEPTED, _PASSED = 1, 2, 4
_KEPT: Final = 1
"""Stands for a message that the store has."""
_RANKS: Final = 16
_LEAST_CLOSED: Final = 4
"""The rank of the first status that ends well; of each generation there are fewer than 16."""
_LANE: Final = ("destination", "subscription", "minute")


def suspects(
    events: DataFrame, deliveries: DataFrame | None, buckets: DataFrame, hops: Collection[str] = HOPS
) -> DataFrame:
    """Return ``message``, the hash of each message that is not plain in one of some buckets.

    Parameters
    ----------
    events
        As ``schemas.EVENTS``.
    deliveries
        What the store has (``transforms.deliveries``); None where no store was asked.
    buckets
        Those that differ: their keys, and whether the store must have their messages (``remembered``).
    hops
        The hops that these are of.
    """
    with_whole = set(hops) != {DELIVER}
    words = _of_events(events, with_whole=with_whole)
    if deliveries is not None:
        words = words.unionByName(_of_store(deliveries, with_whole=with_whole))
    of_lanes = words.join(F.broadcast(_lanes(buckets)), list(_LANE))
    summed = of_lanes.groupBy("message", F.xxhash64("destination", "subscription").alias("name")).agg(
        F.bit_or("marks").alias("marks"),
        F.sum("delivered").alias("delivered"),
        F.max("told").alias("told"),
        F.max("stored").alias("stored"),
        *[F.bool_or(name).alias(name) for name in ("accepts", "publishes", "delivers", "remembered")],
    )
    return summed.where(~_is_plain(asked=deliveries is not None)).select("message").distinct()


def suspected(rows: DataFrame, messages: DataFrame) -> DataFrame:
    """Return the rows of suspect messages, by their ``id``."""
    return rows.join(messages, _hash(F.col("id")) == F.col("message"), "left_semi")


def _lanes(buckets: DataFrame) -> DataFrame:
    """Return at which hops each destination, subscription and minute differs."""
    hops = {"accepts": ACCEPT, "publishes": PUBLISH, "delivers": DELIVER}
    marks = [F.bool_or(F.col("hop") == hop).alias(name) for name, hop in hops.items()]
    return buckets.groupBy(*_LANE).agg(*marks, F.bool_or("remembered").alias("remembered"))


def _of_events(events: DataFrame, *, with_whole: bool) -> DataFrame:
    """Return a row for each subscription that an event is about, and one for the message as a whole when asked."""
    stage, status, about = F.col("stage"), F.col("status"), F.col("subscription")
    tells = (about != WHOLE) | (stage == "settled")
    named = F.when(stage == "accepted", F.col("expected")).when(tells, F.array(about))
    if with_whole:
        named = F.concat(F.array(F.lit(WHOLE)), F.coalesce(named, F.array().cast("array<string>")))
    rows = events.select(
        "stage",
        "status",
        "generation",
        (F.size("expected") == 0).alias("nobody"),
        _hash(F.col("id")).alias("message"),
        "destination",
        F.col("sent_minute").alias("minute"),
        F.explode(named).alias("subscription"),
    )
    settles, of_whole = stage == "settled", F.col("subscription") == WHOLE
    passed = stage.isin("handed", "settled") | (status == "confirmed") | ((stage == "accepted") & F.col("nobody"))
    whole = _bit(stage == "sent", _SENT) + _bit(stage == "accepted", _ACCEPTED) + _bit(passed, _PASSED)
    single = _bit(stage == "accepted", _ACCEPTED)
    return rows.select(
        "message",
        *_LANE,
        F.when(of_whole, whole).otherwise(single).alias("marks"),
        _bit(settles & (status == "delivered"), 1).alias("delivered"),
        F.when(settles | (stage == "handed"), _standing()).alias("told"),
        F.lit(None).cast("bigint").alias("stored"),
    )


def _of_store(deliveries: DataFrame, *, with_whole: bool) -> DataFrame:
    """Return such rows for the store's deliveries, which include messages without any event."""
    of_whole = F.col("subscription") == WHOLE
    rows = deliveries if with_whole else deliveries.where(~of_whole)
    return rows.select(
        _hash(F.col("id")).alias("message"),
        "destination",
        "subscription",
        F.date_trunc("minute", "made_at").alias("minute"),
        F.lit(0).alias("marks"),
        F.lit(0).alias("delivered"),
        F.lit(None).cast("bigint").alias("told"),
        F.when(of_whole, _bit(F.col("status") == ARRIVED, _KEPT)).otherwise(_standing()).alias("stored"),
    )


def _hash(message_id: Column) -> Column:
    """Return the 64 bits that stand for an id; of two ids with the same, both are suspect."""
    return F.xxhash64(message_id)


def _standing() -> Column:
    """Return generation and rank of a status as one number, in their order."""
    return F.col("generation").cast("bigint") * _RANKS + rank(F.col("status"))


def _is_plain(*, asked: bool) -> Column:
    accepted = ~F.col("accepts") | (_has(_SENT) & (_has(_ACCEPTED) | _has(_PASSED)))
    published = _has(_ACCEPTED) & _has(_PASSED)
    told, stored = F.col("told"), F.col("stored")
    ended = _has(_ACCEPTED) & F.coalesce(told % _RANKS >= _LEAST_CLOSED, F.lit(False)) & (F.col("delivered") <= 1)
    if asked:
        is_of_one_generation = F.floor(stored / _RANKS) == F.floor(told / _RANKS)
        agrees = (stored >= told) & (stored % _RANKS >= _LEAST_CLOSED) & is_of_one_generation
        ended &= F.coalesce(agrees, ~F.col("remembered"))
        published &= F.coalesce(stored == _KEPT, ~F.col("remembered"))
    return accepted & (~F.col("publishes") | published) & (~F.col("delivers") | ended)


def _has(mark: int) -> Column:
    return F.col("marks").bitwiseAND(F.lit(mark)) != 0


def _bit(condition: Column, value: int) -> Column:
    return F.when(condition, value).otherwise(0)
