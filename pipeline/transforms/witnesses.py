"""Statements of events and store about single deliveries, as one table: a row (a word) for each."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from pipeline.transforms.deliveries import WHOLE
from pipeline.transforms.ledgers import ACCEPT, DELIVER, KEY, PUBLISH

EXPECTED: Final = "expected"
SETTLED: Final = "settled"
SEEN: Final = "seen"
STORED: Final = "stored"
UNSUBSCRIBED: Final = "unsubscribed"
PENDING: Final = "pending"
_LAST: Final = ("stage", "status", "attempt", "code", "reason", "transport", "node")
# The order in which states of one generation follow each other (bus.domain.delivery.delivery.RANK).
_RANK: Final = ("retrying", "parked", "dead", "canceled", "skipped", "delivered")
_STORED: Final = (
    "struct<generation:int,rank:int,status:string,at:timestamp,reason:string,due_at:timestamp,"
    "attempt:struct<id:string,n:int,at:timestamp,code:int,error:string>>"
)


def near(events: DataFrame, buckets: DataFrame) -> DataFrame:
    """Return the events (``schemas.EVENTS``) about messages of the same destinations and minutes as some buckets."""
    minutes = buckets.select("destination", F.col("minute").alias("sent_minute")).distinct()
    return events.join(F.broadcast(minutes), ["destination", "sent_minute"], "left_semi")


def said_by_events(events: DataFrame, buckets: DataFrame) -> DataFrame:
    """Return the statements of events (``schemas.EVENTS``) about the deliveries of some buckets.

    ``says`` is ``expected``, ``seen`` or ``settled``: for the delivery itself with its ``status``, for a hop before it
    since the message got further. It is ``unsubscribed`` at the publish hop of a message that no subscription expects.
    Words about the publish hop are there for all messages of these buckets.
    """
    words = events.select(
        "id",
        "destination",
        F.col("sent_minute").alias("minute"),
        "generation",
        "at",
        *_LAST,
        F.inline(_words()),
    )
    shaped = words.select(
        *KEY, "id", "says", "generation", "at", F.struct("at", *_LAST).alias("last"), _no_store().alias("stored")
    )
    return _within(shaped, buckets)


def said_by_store(deliveries: DataFrame, buckets: DataFrame) -> DataFrame:
    """Return the statements of the store's messages and deliveries (``transforms.deliveries``), in the same form."""
    last = F.try_element_at("attempts", F.lit(-1))  # null for one that was never attempted
    attempt = F.struct(
        last["id"].alias("id"),
        last["n"].alias("n"),
        last["started_at"].alias("at"),
        last["status_code"].alias("code"),
        last["error"].alias("error"),
    )
    order = rank(F.col("status")).alias("rank")
    stored = F.struct("generation", order, "status", "at", "reason", "due_at", attempt.alias("attempt")).cast(_STORED)
    rows = deliveries.select(
        "id",
        "destination",
        F.date_trunc("minute", "made_at").alias("minute"),
        "generation",
        F.lit(None).cast("timestamp").alias("at"),
        stored.alias("stored"),
        F.inline(_stored_words()),
    ).withColumn("stored", F.when(F.col("says") == STORED, F.col("stored")))
    nothing = F.struct(F.lit(None).cast("timestamp").alias("at"), *[_empty(name).alias(name) for name in _LAST])
    shaped = rows.select(*KEY, "id", "says", "generation", "at", nothing.alias("last"), "stored")
    return _within(shaped, buckets)


def with_last_word(deliveries: DataFrame, events: DataFrame) -> DataFrame:
    """Set ``last`` of deliveries to the last event about them or about their message as a whole.

    Of two destinations that have messages of one id, each has its own.
    """
    message = ["id", "destination"]
    whole = events.where(F.col("subscription") == "").join(
        F.broadcast(deliveries.select(*message).distinct()), message, "left_semi"
    )
    lasts = whole.groupBy(*message).agg(F.max(F.struct("at", *_LAST)).alias("word"))
    return deliveries.join(lasts, message, "left").withColumn("last", F.greatest("last", "word")).drop("word")


def rank(status: Column) -> Column:
    """Return the rank of a status among those of one generation; 0 for one before any POST."""
    return F.coalesce(F.array_position(F.lit(list(_RANK)), status), F.lit(0)).cast("int")


def _words() -> Column:
    """Return the statements of one event about each hop."""
    stage, subscription = F.col("stage"), F.col("subscription")
    nobody = F.size("expected") == 0
    accepted = F.concat(
        F.array(_word(ACCEPT, SETTLED), _word(PUBLISH, EXPECTED)),
        F.when(nobody, F.array(_word(PUBLISH, UNSUBSCRIBED))).otherwise(_none()),
        F.transform("expected", lambda name: _word(DELIVER, EXPECTED, name)),
    )
    further = F.array(_word(ACCEPT, SETTLED), _word(PUBLISH, SETTLED))
    handed = F.when(subscription == "", further).otherwise(
        F.concat(further, F.array(_word(DELIVER, SEEN, subscription)))
    )
    published = F.when(F.col("status") == "confirmed", further).otherwise(F.array(_word(PUBLISH, SEEN)))
    return (
        F.when(stage == "sent", F.array(_word(ACCEPT, EXPECTED)))
        .when(stage == "accepted", accepted)
        .when(stage == "published", published)
        .when(stage == "handed", handed)
        .when(stage == "settled", F.concat(further, F.array(_word(DELIVER, SETTLED, subscription))))
        .otherwise(_none())
    )


def _stored_words() -> Column:
    """Return what a row of the store says: that the message was accepted, and the state of the message or delivery."""
    moved = (F.col("status") != PENDING) | (F.coalesce("reason", F.lit("")) != "") | F.col("deliver_at").isNotNull()
    here = F.array(_word(ACCEPT, SETTLED), _word(DELIVER, STORED, F.col("subscription")))
    whole = F.array(_word(ACCEPT, SETTLED), _word(PUBLISH, STORED))
    return (
        F.when(F.col("subscription") == WHOLE, whole)
        .when(moved, F.concat(here, F.array(_word(PUBLISH, SETTLED))))
        .otherwise(here)
    )


def _word(hop: str, says: str, subscription: Column | None = None) -> Column:
    name = F.lit("") if subscription is None else subscription
    return F.struct(F.lit(hop).alias("hop"), name.alias("subscription"), F.lit(says).alias("says"))


def _none() -> Column:
    return F.array().cast("array<struct<hop:string,subscription:string,says:string>>")


def _no_store() -> Column:
    return F.lit(None).cast(_STORED)


def _empty(name: str) -> Column:
    return F.lit(None).cast("int" if name in ("attempt", "code") else "string")


def _within(words: DataFrame, buckets: DataFrame) -> DataFrame:
    transports = buckets.select(F.lit(PUBLISH).alias("hop"), "destination", F.lit("").alias("subscription"), "minute")
    keys = buckets.select(*KEY).union(transports).distinct()
    return words.join(F.broadcast(keys), list(KEY), "left_semi")
