"""The buckets that a run found, compared with those of earlier runs."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from pipeline.schemas import FINDINGS, PROOFS
from pipeline.transforms.hearing import AMENDED, FINAL
from pipeline.transforms.ledgers import KEY


def latest(proofs: DataFrame) -> DataFrame:
    """Return the rows in force of all runs (``schemas.PROOFS``): for each bucket that of the latest run with one."""
    names = [field.name for field in PROOFS.schema.fields]
    row = F.max_by(F.struct(*names), F.col("checked"))
    return proofs.groupBy(*KEY).agg(row.alias("row")).select("row.*")


def in_force(findings: DataFrame, proofs: DataFrame) -> DataFrame:
    """Return the findings (``schemas.FINDINGS``) of the rows of buckets in force."""
    names = [field.name for field in FINDINGS.schema.fields]
    return findings.join(proofs.select(*KEY, "checked", "state"), [*KEY, "checked"]).select(*names, "state")


def compared_with(rows: DataFrame, before: DataFrame) -> DataFrame:
    """Return buckets with their state, given the rows in force before, and whether they are ``news``.

    A bucket that is final stays so, unless something in it changes: then it is amended.
    """
    known = before.select(*KEY, F.col("state").alias("old_state"), F.col("fingerprint").alias("old_fingerprint"))
    same = F.col("fingerprint") == F.col("old_fingerprint")
    was_final = F.col("old_state").isin(FINAL, AMENDED)
    state = F.when(was_final, F.when(same, F.col("old_state")).otherwise(AMENDED)).otherwise(F.col("state"))
    joined = rows.join(known, list(KEY), "left").withColumn("state", state)
    news = F.col("old_state").isNull() | ~same | (F.col("state") != F.col("old_state"))
    return joined.withColumn("news", news).drop("old_state", "old_fingerprint")
