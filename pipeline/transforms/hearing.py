"""Up to which time all emitters were heard, and what of them was never heard."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from typing import Final, NamedTuple

from pyspark.sql import Column, DataFrame, Row, Window
from pyspark.sql import functions as F

OPEN: Final = "open"
PROVISIONAL: Final = "provisional"
FINAL: Final = "final"
AMENDED: Final = "amended"


class Patience(NamedTuple):
    """For how long the proof waits, in seconds.

    Attributes
    ----------
    allowance
        From a message to a judgement of it: what events need to get into the lake. An emitter that was not heard for
        longer, while others were, is gone.
    horizon
        Until a delivery that was retried must have ended: that of the longest retry policy.
    """

    allowance: int = 600
    horizon: int = 7 * 24 * 3600


def heard(blocks: DataFrame) -> DataFrame:
    """Return a row for each emitter of blocks (``schemas.BLOCKS``): when it was heard last, and what is missing of it.

    ``gaps`` are numbers of blocks that never arrived, ``lost`` events that the emitter itself had to drop.
    """
    return blocks.groupBy("emitter").agg(
        F.max("node").alias("node"),
        F.max("role").alias("role"),
        F.min("at").alias("first"),
        F.max("at").alias("last"),
        F.max("lost").alias("lost"),
        (F.max("seq") - F.count("*")).alias("gaps"),
    )


def gaps(blocks: DataFrame) -> DataFrame:
    """Return a row for each gap in an emitter's blocks: how many are missing, and between which times.

    Events that were dropped between two blocks are a gap, too, of no blocks and ``lost`` events. Of the first blocks
    of an emitter ``after`` is null.
    """
    ordered = Window.partitionBy("emitter").orderBy("seq")
    before = blocks.select(
        "emitter",
        "node",
        F.lag("at").over(ordered).alias("after"),
        F.col("at").alias("until"),
        (F.col("seq") - F.coalesce(F.lag("seq").over(ordered), F.lit(0)) - 1).alias("blocks"),
        (F.col("lost") - F.coalesce(F.lag("lost").over(ordered), F.lit(0))).alias("lost"),
    )
    return before.where((F.col("blocks") > 0) | (F.col("lost") > 0))


def watermark_of(emitters: Iterable[Row], patience: Patience) -> dt.datetime | None:
    """Return the time up to which all live emitters were heard; None when nobody was."""
    lasts = [emitter["last"] for emitter in emitters]
    if not lasts:
        return None
    live = max(lasts) - dt.timedelta(seconds=patience.allowance)
    watermark: dt.datetime = min(last for last in lasts if last >= live)
    return watermark


def state_at(watermark: dt.datetime, patience: Patience) -> Column:
    """Return the state of a bucket (``minute``): open, provisional or final."""
    end = F.col("minute") + F.expr("interval 60 seconds")
    moment = F.lit(watermark)
    return (
        F.when(end + F.make_dt_interval(secs=F.lit(patience.allowance)) > moment, OPEN)
        .when(end + F.make_dt_interval(secs=F.lit(patience.horizon)) <= moment, FINAL)
        .otherwise(PROVISIONAL)
    )
