"""Level two of the proof: every single delivery of the buckets that differ, by what events and store say of it."""

from __future__ import annotations

import datetime as dt
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from pipeline.transforms.deliveries import ARRIVED, OUTCOMES_ONLY
from pipeline.transforms.deliveries import OPEN as OPEN_STATUSES
from pipeline.transforms.ledgers import CLOSED, DELIVER, ENDED, KEY, PUBLISH
from pipeline.transforms.witnesses import EXPECTED, PENDING, SEEN, SETTLED, UNSUBSCRIBED, rank

DONE: Final = "settled"
MISSING: Final = "missing"
UNDER_WAY: Final = "under_way"
HELD: Final = "held"
UNPUBLISHED: Final = "unpublished"
EVENT_LOST: Final = "event_lost"
STORE_BEHIND: Final = "store_behind"
CONTRADICTED: Final = "contradicted"
COUNTED: Final = (MISSING, UNDER_WAY, HELD, UNPUBLISHED, EVENT_LOST, STORE_BEHIND)
_SUMS: Final = (*COUNTED, "unannounced", "duplicates", "resent")


def accounted(
    words: DataFrame, buckets: DataFrame, due: DataFrame | None, now: dt.datetime, allowance: int
) -> DataFrame:
    """Return a row for each delivery that a witness (events or store) mentions, with its ``finding``.

    Parameters
    ----------
    words
        Of all witnesses (``transforms.witnesses``).
    buckets
        Their keys and ``state``, whether the transport has ``passed`` them, and what the store says
        (``transforms.stored``).
    due
        What the compensator has to do (``transforms.stored.Store``); None where no store was asked.
    now, allowance
        Events of the last ``allowance`` seconds may not be in the store yet. A stored delivery that is to be
        retried, but has had no due work for as long, is missing.
    """
    single = words.groupBy(*KEY, "id").agg(
        _happened(F.col("says").isin(SETTLED, UNSUBSCRIBED)).alias("settled"),
        _happened(F.col("says") == UNSUBSCRIBED).alias("unsubscribed"),
        _count(F.col("says") == EXPECTED).alias("announced"),
        _count(_is("delivered")).alias("deliveries"),
        F.size(F.collect_set(F.when(_is("delivered"), F.col("generation")))).alias("generations"),
        F.max(F.when(F.col("says") == SETTLED, _standing())).alias("standing"),
        F.max(F.when(F.col("says") == SEEN, F.col("generation"))).alias("handed"),
        F.max(F.when(F.col("last.stage").isNotNull(), F.col("last"))).alias("last"),
        F.max("stored").alias("stored"),
    )
    single = single.withColumn("closed", _closed())
    whole = Window.partitionBy("id")
    on_a_transport = (F.col("hop") == PUBLISH) & F.col("closed")
    placed = single.withColumns(
        {"published": F.max(on_a_transport).over(whole), "delivers": F.max(F.col("hop") == DELIVER).over(whole)}
    )
    known = F.broadcast(buckets.select(*KEY, "state", "passed", "paused", "remembered"))
    joined = _with_owners(placed.join(known, list(KEY)), due)
    return joined.withColumn("finding", _finding(F.lit(now - dt.timedelta(seconds=allowance))))


def counted(deliveries: DataFrame) -> DataFrame:
    """Count findings by bucket, with a fingerprint of which deliveries they are about."""
    findings = [_count(F.col("finding") == name).alias(name) for name in COUNTED]
    listed = F.when(F.col("finding") != DONE, F.xxhash64("id", "finding"))
    return deliveries.groupBy(*KEY).agg(
        *findings,
        _count(F.col("announced") == 0).alias("unannounced"),
        F.sum(F.col("deliveries") - F.col("generations")).alias("duplicates"),
        F.sum(F.greatest(F.col("generations") - 1, F.lit(0))).cast("bigint").alias("resent"),
        F.coalesce(F.bit_xor(listed), F.lit(0)).alias("found"),
    )


def concluded(buckets: DataFrame, counts: DataFrame | None) -> DataFrame:
    """Add to buckets of level one what level two counted (None where it was not needed), and a verdict.

    ``proven``: the ledger's sides are equal, or every delivery ended visibly. ``explained``: the sides differ, and
    every delivery is accounted for all the same. ``missing``: some are not. ``contradicted``: events report an end
    that the store does not have. ``unsettled``: too young to say, or something is on its way or held.
    """
    names, none = (*_SUMS, "found"), F.lit(0).cast("bigint")
    joined = buckets if counts is None else buckets.join(counts, list(KEY), "left")
    sums = {name: none if counts is None else F.coalesce(name, none) for name in names}
    waiting = F.col("under_way") + F.col("held") + F.col("unpublished")
    verdict = (
        F.when(F.col("missing") > 0, MISSING)
        .when(F.col("store_behind") > 0, CONTRADICTED)
        .when((waiting > 0) | ((F.col("state") == "open") & (F.col("compared") != "equal")), "unsettled")
        .when(F.col("compared").isin("equal", "ended") & (F.col("event_lost") == 0), "proven")
        .otherwise("explained")
    )
    fingerprint = F.xxhash64("compared", "fingerprint", *_SUMS, "found")
    return joined.withColumns(sums).withColumns({"verdict": verdict, "fingerprint": fingerprint})


def listed(deliveries: DataFrame) -> DataFrame:
    """Return the deliveries that are not simply done, in the form of ``schemas.FINDINGS``."""
    last = [F.col(f"last.{name}").alias(f"last_{name}") for name in _LAST]
    stored = [F.col(f"stored.{name}").alias(f"store_{name}") for name in ("status", "at", "due_at")]
    paused = F.when(F.col("finding") == HELD, F.col("paused"))
    stored.append(F.coalesce(paused, "stored.reason").alias("store_reason"))
    attempt = [F.col(f"stored.attempt.{name}").alias(f"attempt_{name}") for name in ("id", "n", "at", "code", "error")]
    return deliveries.where(F.col("finding") != DONE).select(*KEY, "id", "finding", *last, *stored, *attempt)


_LAST: Final = ("at", "stage", "status", "attempt", "code", "reason", "transport", "node")


def _closed() -> Column:
    """Return whether events have a good end: of a delivery that of its last generation, in which nothing is open."""
    is_reopened = F.col("stored.status").isin(*OPEN_STATUSES) & _is_of_later_generation()
    ended = F.col("standing.status").isin(*CLOSED) & ~F.coalesce(is_reopened, F.lit(False))
    return F.when(F.col("hop") == DELIVER, F.coalesce(ended, F.lit(False))).otherwise(F.col("settled"))


def _with_owners(deliveries: DataFrame, due: DataFrame | None) -> DataFrame:
    """Add whether the compensator has due work for the delivery, or for its message as a whole."""
    if due is None:
        return deliveries.withColumn("owned", F.lit(False))
    names = due.groupBy("id").agg(F.collect_set("subscription").alias("due"))
    owned = F.array_contains("due", F.col("subscription")) | F.array_contains("due", "")
    is_owned = F.coalesce(owned & (F.col("hop") == DELIVER), F.lit(False))
    return deliveries.join(names, "id", "left").withColumn("owned", is_owned).drop("due")


def _finding(limit: Column) -> Column:
    """Return the finding of a delivery; events later than ``limit`` may not be in the store yet."""
    stored, told, delivers = F.col("stored.status"), F.col("standing.status"), F.col("hop") == DELIVER
    is_fresh = F.coalesce(F.col("last.at") >= limit, F.lit(False))
    is_absent = delivers & F.col("remembered") & stored.isNull()
    contradiction = F.when(is_fresh, UNDER_WAY).otherwise(STORE_BEHIND)
    forgot_resend = F.coalesce(F.col("stored.generation") < F.col("handed"), F.lit(False))
    contradicts = delivers & ((told.isin(*CLOSED, *ENDED) & (is_absent | _is_older())) | forgot_resend)
    trying = F.coalesce(stored, told).isin("retrying", "resend")
    abandoned = F.coalesce(~F.col("owned") & (F.col("stored.at") < limit), F.lit(False))
    forgotten = stored.isNull() & ((F.col("state") == "final") | (is_absent & ~is_fresh))
    untried = F.col("standing").isNull() & F.coalesce(stored == PENDING, F.lit(True))
    lost = is_absent & F.col("published")
    waits = untried & ~F.col("passed") & (F.col("state") != "final") & ~lost
    reason = F.coalesce("paused", "stored.reason", F.lit(""))
    return (
        F.when(F.col("hop") == PUBLISH, _finding_of_message(is_fresh))
        .when((F.col("closed") | stored.isin(*CLOSED, *ENDED)) & contradicts, contradiction)
        .when(F.col("closed") & ~_is_of_later_generation(), DONE)
        .when(stored.isin(*CLOSED) | (stored.isin(*ENDED) & _is_newer()), EVENT_LOST)
        .when(stored.isin(*ENDED), stored)
        .when(F.col("owned"), UNDER_WAY)
        .when(contradicts, contradiction)
        .when(stored.isNull() & told.isin(*ENDED), told)
        .when((stored == PENDING) & (reason != ""), HELD)
        .when(trying & ~abandoned & ~forgotten, UNDER_WAY)
        .when(waits, HELD)
        .otherwise(MISSING)
    )


def _finding_of_message(is_fresh: Column) -> Column:
    """Return the finding of a message at the hop to the transports.

    What the store lacks of a message with deliveries is reported of these.
    """
    stored, remembered = F.col("stored.status"), F.col("remembered") & ~is_fresh
    accepted = F.col("announced") > 0
    alone = F.col("unsubscribed") | (~accepted & ~F.col("delivers"))
    return (
        F.when(remembered & stored.isNull() & alone, MISSING)
        .when(accepted & remembered & (stored == OUTCOMES_ONLY), STORE_BEHIND)
        .when(~accepted & (stored == ARRIVED), EVENT_LOST)
        .when(F.col("closed"), DONE)
        .otherwise(UNPUBLISHED)
    )


def _is_older() -> Column:
    """Return whether the store's state is older than that of the events, by (generation, rank)."""
    stored, told = _places()
    return F.coalesce(F.col("stored.status").isNotNull() & (stored < told), F.lit(False))


def _is_newer() -> Column:
    """Return whether no event has the store's state, by (generation, rank)."""
    stored, told = _places()
    return F.col("standing").isNull() | F.coalesce(stored > told, F.lit(False))


def _is_of_later_generation() -> Column:
    return F.coalesce(F.col("stored.generation") > F.col("standing.generation"), F.lit(False))


def _places() -> list[Column]:
    return [F.struct(f"{of}.generation", f"{of}.rank") for of in ("stored", "standing")]


def _is(status: str) -> Column:
    return (F.col("says") == SETTLED) & (F.col("hop") == DELIVER) & (F.col("last.status") == status)


def _standing() -> Column:
    status = F.col("last.status")
    return F.struct("generation", rank(status).alias("rank"), "at", status.alias("status"))


def _happened(condition: Column) -> Column:
    return F.coalesce(F.bool_or(condition), F.lit(False))


def _count(condition: Column) -> Column:
    return F.sum(F.when(condition, 1).otherwise(0)).cast("bigint")
