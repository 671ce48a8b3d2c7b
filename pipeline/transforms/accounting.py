"""Level two of the proof: every single delivery of the buckets that differ, by what its witnesses say."""

from __future__ import annotations

import datetime as dt
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from pipeline.transforms.ledgers import CLOSED, DELIVER, ENDED, KEY, PUBLISH
from pipeline.transforms.witnesses import EXPECTED, PENDING, SETTLED, rank

DONE: Final = "settled"
MISSING: Final = "missing"
UNDER_WAY: Final = "under_way"
HELD: Final = "held"
UNPUBLISHED: Final = "unpublished"
EVENT_LOST: Final = "event_lost"
STORE_BEHIND: Final = "store_behind"
COUNTED: Final = (MISSING, UNDER_WAY, HELD, UNPUBLISHED, EVENT_LOST, STORE_BEHIND)
_SUMS: Final = (*COUNTED, "unannounced", "duplicates", "resent")


def accounted(words: DataFrame, states: DataFrame, now: dt.datetime, allowance: int, *, with_store: bool) -> DataFrame:
    """Return a row for each delivery that witnesses speak of, with its ``finding``.

    Parameters
    ----------
    words
        Of all witnesses (``transforms.witnesses``).
    states
        The buckets' keys, their ``state``, and whether the road has ``passed`` them.
    now, allowance
        A stored delivery that is to be retried, and that nobody has owned for so many seconds, is missing.
    with_store
        Whether the store was asked, so that what it does not have is behind.
    """
    single = words.groupBy(*KEY, "id").agg(
        *[_happened(condition).alias(name) for name, condition in _marks().items()],
        _count(F.col("says") == EXPECTED).alias("announced"),
        _count(_is("delivered")).alias("deliveries"),
        F.size(F.collect_set(F.when(_is("delivered"), F.col("generation")))).alias("generations"),
        F.max(F.when(F.col("says") == SETTLED, _standing())).alias("standing"),
        F.max(F.when(F.col("last.stage").isNotNull(), F.col("last"))).alias("last"),
        F.max("stored").alias("stored"),
    )
    joined = single.join(F.broadcast(states.select(*KEY, "state", "passed")), list(KEY))
    ownerless = ~F.col("stored.owned") & (F.col("stored.at") < F.lit(now - dt.timedelta(seconds=allowance)))
    return joined.withColumn("finding", _finding(F.coalesce(ownerless, F.lit(False)), with_store=with_store))


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


def concluded(buckets: DataFrame, counts: DataFrame) -> DataFrame:
    """Add to buckets of level one what level two counted, and a verdict.

    ``proven``: the ledger's sides are equal, or every delivery ended visibly. ``explained``: the sides differ, and
    every delivery is accounted for all the same. ``missing``: some are not. ``unsettled``: too young to say, or
    something is on its way or held.
    """
    joined = buckets.join(counts, list(KEY), "left")
    sums = {name: F.coalesce(name, F.lit(0)) for name in (*_SUMS, "found")}
    waiting = F.col("under_way") + F.col("held") + F.col("unpublished")
    verdict = (
        F.when(F.col("missing") > 0, MISSING)
        .when((waiting > 0) | ((F.col("state") == "open") & (F.col("compared") != "equal")), "unsettled")
        .when(F.col("compared").isin("equal", "ended") & (F.col("event_lost") + F.col("store_behind") == 0), "proven")
        .otherwise("explained")
    )
    fingerprint = F.xxhash64("compared", "fingerprint", *_SUMS, "found")
    return joined.withColumns(sums).withColumns({"verdict": verdict, "fingerprint": fingerprint})


def listed(deliveries: DataFrame) -> DataFrame:
    """Return the deliveries that are not simply done, in the form of ``schemas.FINDINGS``."""
    last = [F.col(f"last.{name}").alias(f"last_{name}") for name in _LAST]
    stored = [F.col(f"stored.{name}").alias(f"store_{name}") for name in ("status", "at", "reason", "due_at")]
    attempt = [F.col(f"stored.attempt.{name}").alias(f"attempt_{name}") for name in ("id", "n", "at", "code", "error")]
    return deliveries.where(F.col("finding") != DONE).select(*KEY, "id", "finding", *last, *stored, *attempt)


_LAST: Final = ("at", "stage", "status", "attempt", "code", "reason", "transport", "node")


def _marks() -> dict[str, Column]:
    settled, delivers = F.col("says") == SETTLED, F.col("hop") == DELIVER
    return {"closed": settled & (~delivers | F.col("last.status").isin(*CLOSED))}


def _finding(ownerless: Column, *, with_store: bool) -> Column:
    stored, told = F.col("stored.status"), F.col("standing.status")
    delivers = F.col("hop") == DELIVER
    has_ended = F.coalesce(stored.isin(*CLOSED, *ENDED), F.lit(False))
    newer = F.coalesce(F.col("stored.generation") > F.col("standing.generation"), F.lit(False))
    behind = delivers & ~has_ended & ~newer if with_store else F.lit(False)
    trying = F.coalesce(stored, told).isin("retrying", "resend")
    untried = F.col("standing").isNull() & F.coalesce(stored == PENDING, F.lit(True))
    waits = untried & ~F.col("passed") & (F.col("state") != "final")
    given_up = ownerless | (stored.isNull() & (F.col("state") == "final"))
    return (
        F.when(F.col("closed"), F.when(behind, STORE_BEHIND).otherwise(DONE))
        .when(stored.isin(*CLOSED), EVENT_LOST)
        .when(stored.isin(*ENDED), stored)
        .when(stored.isNull() & told.isin(*ENDED), told)
        .when((stored == PENDING) & (F.coalesce("stored.reason", F.lit("")) != ""), HELD)
        .when((trying | F.coalesce("stored.owned", F.lit(False))) & ~given_up, UNDER_WAY)
        .when(F.col("hop") == PUBLISH, UNPUBLISHED)
        .when(waits, HELD)
        .otherwise(MISSING)
    )


def _is(status: str) -> Column:
    return (F.col("says") == SETTLED) & (F.col("hop") == DELIVER) & (F.col("last.status") == status)


def _standing() -> Column:
    status = F.col("last.status")
    return F.struct("generation", rank(status).alias("rank"), "at", status.alias("status"))


def _happened(condition: Column) -> Column:
    return F.coalesce(F.bool_or(condition), F.lit(False))


def _count(condition: Column) -> Column:
    return F.sum(F.when(condition, 1).otherwise(0)).cast("bigint")
