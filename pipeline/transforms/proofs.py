"""What a run found of buckets, beside what runs before it found."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from pipeline.schemas import FINDINGS, PROOFS
from pipeline.transforms.hearing import AMENDED, FINAL
from pipeline.transforms.ledgers import KEY

UNHEARD = "unheard"
_COUNTS = ("expected", "settled", "delivered", "skipped", "canceled", "dead", "parked")


def with_unheard(buckets: DataFrame, unfinished: DataFrame) -> DataFrame:
    """Mark buckets in which the store has something ``unfinished``, and add those that the ledger does not have.

    Parameters
    ----------
    unfinished
        Deliveries of the store: ``destination``, ``subscription``, ``made_at``.
    """
    keys = unfinished.select(
        F.lit("deliver").alias("hop"), "destination", "subscription", F.date_trunc("minute", "made_at").alias("minute")
    ).distinct()
    counts = {name: F.coalesce(name, F.lit(0)) for name in (*_COUNTS, "fingerprint")}
    marked = keys.withColumn("unfinished", F.lit(True))
    return buckets.join(marked, list(KEY), "full").withColumns(
        counts
        | {
            "compared": F.coalesce("compared", F.lit(UNHEARD)),
            "unfinished": F.coalesce("unfinished", F.lit(False)),
        }
    )


def latest(proofs: DataFrame) -> DataFrame:
    """Return the rows in force of what runs wrote (``schemas.PROOFS``): of each bucket that of the latest run."""
    names = [field.name for field in PROOFS.schema.fields]
    row = F.max_by(F.struct(*names), F.col("checked"))
    return proofs.groupBy(*KEY).agg(row.alias("row")).select("row.*")


def in_force(findings: DataFrame, proofs: DataFrame) -> DataFrame:
    """Return the findings (``schemas.FINDINGS``) of the rows of buckets in force."""
    names = [field.name for field in FINDINGS.schema.fields]
    return findings.join(proofs.select(*KEY, "checked", "state"), [*KEY, "checked"]).select(*names, "state")


def compared_with(rows: DataFrame, before: DataFrame) -> DataFrame:
    """Return the state of buckets in the light of the rows in force before, and whether they are ``news``.

    What is final stays so; when something of it changes all the same it is amended.
    """
    known = before.select(*KEY, F.col("state").alias("old_state"), F.col("fingerprint").alias("old_fingerprint"))
    same = F.col("fingerprint") == F.col("old_fingerprint")
    was_final = F.col("old_state").isin(FINAL, AMENDED)
    state = F.when(was_final, F.when(same, F.col("old_state")).otherwise(AMENDED)).otherwise(F.col("state"))
    joined = rows.join(known, list(KEY), "left").withColumn("state", state)
    news = F.col("old_state").isNull() | ~same | (F.col("state") != F.col("old_state"))
    return joined.withColumn("news", news).drop("old_state", "old_fingerprint")
