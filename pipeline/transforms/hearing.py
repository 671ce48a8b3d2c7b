"""Up to which time the events of all emitters have arrived, and the gaps in them."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from typing import Final, NamedTuple

from pyspark.sql import Column, DataFrame, Row, Window
from pyspark.sql import functions as F

from pipeline.transforms.ledgers import DELIVER

OPEN: Final = "open"
PROVISIONAL: Final = "provisional"
FINAL: Final = "final"
AMENDED: Final = "amended"
_MOST_GAPS: Final = 100
_SIGN_OF_LIFE: Final = 180
"""The longest time in seconds between two blocks of a process that lives."""
_PRODUCER: Final = "producer"


class Patience(NamedTuple):
    """For how long the proof waits, in seconds.

    Attributes
    ----------
    allowance
        How long after a message it may be judged: the time for events to get into the lake, and outcomes into the
        store. An emitter without blocks for longer, while others' arrived, is gone.
    horizon
        How long after a message all retries must have ended: as long as the longest retry policy.
    """

    allowance: int = 600
    horizon: int = 7 * 24 * 3600


def heard(blocks: DataFrame, since: dt.datetime | None = None) -> DataFrame:
    """Return a row for each emitter of blocks (``schemas.BLOCKS``): the times of its ``first`` and ``last`` block.

    These are by the emitter's own clock, but never later than the block's arrival. ``arrived`` is when the last block
    did. Each of ``gaps`` says how many ``blocks`` are missing, and between which times (``after``, ``until``). Events
    that were dropped between two blocks are a gap, too, of no blocks and ``lost`` events. For a gap before the first
    block ``after`` is null. Gaps that ended before ``since`` are left out. ``lost_blocks`` and ``lost_events`` are over
    all gaps, of which the first 100 of each emitter are there: one that was overloaded for a day has millions.

    ``role`` and ``node`` are the emitter's; ``ended`` is whether its last block says that there is none behind it, null
    in a lake of an earlier version.
    """
    told, ordered = F.least("at", "arrived"), Window.partitionBy("emitter").orderBy("seq")
    gap = F.struct(
        "emitter",
        "role",
        "node",
        F.lag("at").over(ordered).alias("after"),
        F.col("at").alias("until"),
        (F.col("seq") - F.coalesce(F.lag("seq").over(ordered), F.lit(0)) - 1).alias("blocks"),
        (F.col("lost") - F.coalesce(F.lag("lost").over(ordered), F.lit(0))).alias("lost"),
    )
    kept = ("emitter", "seq", "arrived", "role", "node", F.col("last").alias("ended"))
    placed = blocks.select(*kept, told.alias("told"), gap.alias("gap"))
    is_gap = (F.col("gap.blocks") > 0) | (F.col("gap.lost") > 0)
    if since is not None:
        is_gap &= F.col("gap.until") >= F.lit(since)
    number = F.count(F.when(is_gap, 1)).over(ordered)
    numbered = placed.withColumns({"is_gap": is_gap, "number": number})
    lost = {
        f"lost_{what}": F.sum(F.when(F.col("is_gap"), F.col(name)).otherwise(0))
        for what, name in (("blocks", "gap.blocks"), ("events", "gap.lost"))
    }
    return numbered.groupBy("emitter").agg(
        F.min("told").alias("first"),
        F.max("told").alias("last"),
        F.max("arrived").alias("arrived"),
        *[F.max_by(name, "seq").alias(name) for name in ("role", "node", "ended")],
        *[column.alias(name) for name, column in lost.items()],
        F.collect_list(F.when(F.col("is_gap") & (F.col("number") <= _MOST_GAPS), F.col("gap"))).alias("gaps"),
    )


def watermark_of(emitters: Iterable[Row], patience: Patience) -> dt.datetime | None:
    """Return the time up to which the events of all live emitters (rows of ``heard``) arrived; None without emitters.

    Whether an emitter is live is judged by arrivals, which are by one clock, so that one whose own clock is ahead makes
    no other seem gone. One whose clock is behind holds the watermark back by as much.
    """
    found = list(emitters)
    if not found:
        return None
    live = max(each["arrived"] for each in found) - dt.timedelta(seconds=patience.allowance)
    watermark: dt.datetime = min(each["last"] for each in found if each["arrived"] >= live)
    return watermark


def broken_off(
    emitters: Iterable[Row], patience: Patience, since: dt.datetime | None, until: dt.datetime | None
) -> list[Row]:
    """Return the emitters (rows of ``heard``) that are gone and did not end: their last events may be lost.

    Producers are left out: what they send is on their disks. So are those that were gone before ``since``. Blocks are
    known to have arrived up to ``until``, or up to the last that did.
    """
    found = list(emitters)
    times = [each["arrived"].astimezone(dt.UTC) for each in found]
    newest = max([*times, *([until] if until is not None else [])], default=None)
    if newest is None:
        return []
    quiet = newest - dt.timedelta(seconds=max(patience.allowance, 3 * _SIGN_OF_LIFE))
    return [
        each
        for each, arrived in zip(found, times, strict=True)
        if each["ended"] is False
        and each["role"] != _PRODUCER
        and (since is None or arrived >= since)
        and arrived < quiet
    ]


def with_front(buckets: DataFrame, patience: Patience) -> DataFrame:
    """Add to buckets of level one whether the transport has ``passed`` them.

    Transports keep the order of messages roughly: once deliveries of the same subscription have ended that are younger
    by more than the allowance, one that was never attempted is not in the transport's backlog any more.
    """
    lane = Window.partitionBy("destination", "subscription")
    ended = (F.col("hop") == DELIVER) & (F.col("settled") + F.col("dead") + F.col("parked") > 0)
    front = F.max(F.when(ended, F.col("minute"))).over(lane)
    reach = F.col("minute") + F.make_dt_interval(secs=F.lit(60 + patience.allowance))
    passed = (F.col("hop") == DELIVER) & (reach <= front)
    return buckets.withColumn("passed", F.coalesce(passed, F.lit(False)))


def state_at(watermark: dt.datetime, patience: Patience) -> Column:
    """Return the state of a bucket (``minute``): open, provisional or final."""
    end = F.col("minute") + F.make_dt_interval(secs=F.lit(60))
    moment = F.lit(watermark)
    return (
        F.when(end + F.make_dt_interval(secs=F.lit(patience.allowance)) > moment, OPEN)
        .when(end + F.make_dt_interval(secs=F.lit(patience.horizon)) <= moment, FINAL)
        .otherwise(PROVISIONAL)
    )
