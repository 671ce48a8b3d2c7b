"""Level one beside the store: what it has of each bucket, and whether that is what the ledger says came.

The store is a witness of its own, so it is compared with the ledger in every bucket, by the ledger's own sums: a
delivery that the store lost is seen though both sides of the ledger are equal, and so is one that only the store knows.
"""

from __future__ import annotations

import datetime as dt
from typing import Final, NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from pipeline.transforms.deliveries import OPEN
from pipeline.transforms.ledgers import CLOSED, DELIVER, ENDED, KEY, Sums, summed, sums_of

UNHEARD: Final = "unheard"
_COUNTS: Final = ("expected", "settled", "delivered", "skipped", "canceled", "dead", "parked", "fingerprint")
# Days of ids are dropped whole, and ids may be some minutes ahead of their receiver.
_SLACK: Final = dt.timedelta(hours=1)
_NOTHING: Final = 3 * ("bigint",)


class Store(NamedTuple):
    """The store as a witness.

    Attributes
    ----------
    deliveries
        Its deliveries (``transforms.deliveries``), and those that were ``archived`` from it; of the range of a plan.
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
    """Add to buckets what the store says of them, and those that only the store knows of.

    ``opened`` are those in which the store has something unfinished, or other ended deliveries than the ledger.
    ``paused`` is why what waits there waits, else null. ``remembered`` says whether the store must still have the
    messages: they are within the retention of their destination, as it is configured now.

    Parameters
    ----------
    begun
        When the lake begins. Of what ended in the store before, no event can tell.
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
    """Return a row for each bucket of the store's deliveries: whether something is ``unfinished``, and ``prints``.

    Each of the prints stands for the ids of deliveries that have ended (``Sums.print``): of the store, of the archive,
    and of both. What is archived may be in the store as well, or have come there again.
    """
    hashed, ended = F.xxhash64("id"), F.col("status").isin(*CLOSED, *ENDED)
    parts = {"live": ~F.col("archived"), "archive": F.col("archived"), "both": F.lit(True)}
    sides = [column for name, part in parts.items() for column in summed(name, ended & part, F.lit(1), hashed, hashed)]
    minute = F.date_trunc("minute", "made_at").alias("minute")
    rows = deliveries.select(
        F.lit(DELIVER).alias("hop"), "destination", "subscription", minute, "id", "status", "archived"
    )
    sums = rows.groupBy(*KEY).agg(F.bool_or(F.col("status").isin(*OPEN)).alias("unfinished"), *sides)
    prints = [F.when(sums_of(name).number > 0, sums_of(name).print) for name in parts]
    return sums.select(*KEY, "unfinished", F.array_compact(F.array(*prints)).alias("prints"))


def _differs(begun: dt.datetime) -> Column:
    """Return whether the store has other ended deliveries than the ledger, as far as both can know of them."""
    nothing = Sums(*[F.lit(0).cast(kind) for kind in _NOTHING]).print
    prints = F.when(F.size("prints") > 0, F.col("prints")).otherwise(F.array(nothing))
    is_known = F.when(F.col("compared").isNull(), F.col("minute") >= F.date_trunc("minute", F.lit(begun))).otherwise(
        F.col("remembered")
    )
    here = F.coalesce("settled_print", nothing)
    return (F.col("hop") == DELIVER) & is_known & ~F.array_contains(prints, here)
