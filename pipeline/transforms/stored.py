"""Level one with the store: whether it has the accepted messages and the ended deliveries that the ledger has.

The store is independent of the ledger, so the two are compared in every bucket, by the same sums: a delivery that the
store lost is found even if both sides of the ledger are equal, and so is one that only the store has. Messages are
compared in the buckets of the hop to the transports: of one without a subscription there is no delivery.
"""

from __future__ import annotations

import datetime as dt
from typing import Final, NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from pipeline.transforms.deliveries import ARRIVED, OPEN, WHOLE
from pipeline.transforms.ledgers import CLOSED, DELIVER, ENDED, KEY, PUBLISH, Sums, summed, sums_of

UNHEARD: Final = "unheard"
_COUNTS: Final = ("expected", "settled", "delivered", "skipped", "canceled", "dead", "parked", "fingerprint")
# Partitions are dropped as whole days of ids, and the time in an id may be some minutes ahead of its receiver's.
_SLACK: Final = dt.timedelta(hours=1)
_NOTHING: Final = 3 * ("bigint",)


class Store(NamedTuple):
    """The store as a witness.

    Attributes
    ----------
    deliveries
        Its messages and deliveries (``transforms.deliveries``), and those ``archived`` from it, of the plan's range.
    due
        What the compensator has to do, read before the deliveries were: ``id`` and ``subscription``, which is empty
        for a message that is to be published later.
    destinations
        Those configured: ``destination``, ``retention_days``, and why it is paused (``destination_paused``) or null.
    subscriptions
        Those configured: ``destination``, ``subscription``, and why it is paused (``subscription_paused``) or null.
    """

    deliveries: DataFrame
    due: DataFrame
    destinations: DataFrame
    subscriptions: DataFrame


def unwitnessed(buckets: DataFrame) -> DataFrame:
    """Return buckets (``transforms.ledgers``) with what ``beside_store`` adds, where no store was asked."""
    return buckets.withColumns(
        {"opened": F.lit(False), "paused": F.lit(None).cast("string"), "remembered": F.lit(False)}
    )


def beside_store(buckets: DataFrame, store: Store, begun: dt.datetime, now: dt.datetime) -> DataFrame:
    """Add to buckets what the store says of them, and those that only the store has.

    ``opened`` says whether the store has something unfinished or notable in it (``kept``), or other messages or other
    deliveries that ended well than the ledger.
    ``paused`` is why the subscription or destination is paused, else null. ``remembered`` says whether the store must
    still have the messages: they are within the present retention of their destination.

    Parameters
    ----------
    begun
        The time of the lake's first events: there are none of deliveries that ended before.
    """
    joined = buckets.join(kept(store.deliveries), list(KEY), "full")
    configured = joined.join(F.broadcast(store.destinations), "destination", "left").join(
        F.broadcast(store.subscriptions), ["destination", "subscription"], "left"
    )
    expires = F.col("minute") + F.make_dt_interval(days=F.col("retention_days"))
    judged = configured.withColumns(
        {
            "paused": F.coalesce("destination_paused", "subscription_paused"),
            "remembered": F.coalesce(expires > F.lit(now + _SLACK), F.lit(False)),
        }
    ).withColumn("opened", F.coalesce("unfinished", F.lit(False)) | _differs(begun))
    whole = judged.where(F.col("compared").isNotNull() | F.col("opened"))
    counts = {name: F.coalesce(name, F.lit(0)) for name in _COUNTS}
    columns = [*buckets.columns, "opened", "paused", "remembered"]
    return whole.withColumns(counts | {"compared": F.coalesce("compared", F.lit(UNHEARD))}).select(*columns)


def kept(deliveries: DataFrame) -> DataFrame:
    """Return a row for each bucket of the store: whether something is ``unfinished`` or ``notable``, and ``prints``.

    Notable is what is dead, parked or resent: of these the ids alone do not say enough. The prints are hashes of the
    ids of messages that arrived, or of deliveries that ended well (``Sums.print``): in the store, in the archive, and
    in both together, since what is archived may still be in the store, or be there again.
    """
    hashed, ended, status = F.xxhash64("id"), F.col("status").isin(ARRIVED, *CLOSED), F.col("status")
    parts = {"live": ~F.col("archived"), "archive": F.col("archived"), "both": F.lit(True)}
    sides = [column for name, part in parts.items() for column in summed(name, ended & part, F.lit(1), hashed, hashed)]
    minute = F.date_trunc("minute", "made_at").alias("minute")
    hop = F.when(F.col("subscription") == WHOLE, PUBLISH).otherwise(DELIVER).alias("hop")
    rows = deliveries.select(hop, "destination", "subscription", minute, "id", "status", "generation", "archived")
    marks = {"unfinished": status.isin(*OPEN), "notable": status.isin(*ENDED) | (F.col("generation") > 0)}
    sums = rows.groupBy(*KEY).agg(*[F.bool_or(mark).alias(name) for name, mark in marks.items()], *sides)
    prints = [F.when(sums_of(name).number > 0, sums_of(name).print) for name in parts]
    return sums.select(*KEY, *marks, F.array_compact(F.array(*prints)).alias("prints"))


def _differs(begun: dt.datetime) -> Column:
    """Return whether the store has others than the ledger, where both must have them, or something notable."""
    nothing = Sums(*[F.lit(0).cast(kind) for kind in _NOTHING]).print
    prints = F.when(F.size("prints") > 0, F.col("prints")).otherwise(F.array(nothing))
    is_known = F.when(F.col("compared").isNull(), F.col("minute") >= F.date_trunc("minute", F.lit(begun))).otherwise(
        F.col("remembered")
    )
    here = F.coalesce("kept_print", nothing)
    differs = ~F.array_contains(prints, here) | F.coalesce("notable", F.lit(False))
    return F.col("hop").isin(PUBLISH, DELIVER) & is_known & differs
