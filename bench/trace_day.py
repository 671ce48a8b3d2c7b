"""Trace events of days as they are in life, made in Spark: skewed destinations, rhythms, retries, failures, latencies.

Everything follows from the seed and the place of a message (destination, minute, number), whatever the partitions are.
"""

from __future__ import annotations

import datetime as dt
import math
from typing import Final, NamedTuple

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from pipeline.schemas import BLOCKS, EVENTS, LEDGER
from pipeline.transforms.histogram import bucket_of

MINUTES_A_DAY: Final = 1440
_MESSAGES_A_BLOCK: Final = 50
_BLOCKS_A_MINUTE: Final = 8192
_STEPS: Final = 64  # more than a message has events
_RETRY_MS: Final = (0, 5_000, 35_000, 335_000)
_LOW: Final = 0xFFFFFFFF
_SENT, _ACCEPTED, _PUBLISHED, _HANDED, _SETTLED = "sent", "accepted", "published", "handed", "settled"


class Sender(NamedTuple):
    """A destination: its share of all messages, its rhythm and its subscribers.

    ``peak`` and ``width`` in hours of the day, ``floor`` what is left at night beside a peak of 1, ``weekend`` the
    share of a working day, ``failing`` the share of first attempts that fail, ``median_us`` of a delivery.
    """

    code: str
    share: float
    subscribers: int
    peak: float
    width: float
    floor: float
    weekend: float
    failing: float
    median_us: int
    size: int


SENDERS: Final = (
    Sender("orders", 0.36, 3, 14.0, 4.0, 0.15, 0.7, 0.010, 9_000, 1_400),
    Sender("payments", 0.21, 2, 13.0, 4.5, 0.15, 0.8, 0.004, 14_000, 900),
    Sender("stock", 0.14, 2, 11.0, 5.0, 0.10, 0.3, 0.020, 6_000, 400),
    Sender("clicks", 0.10, 1, 20.0, 4.0, 0.20, 1.3, 0.002, 3_000, 300),
    Sender("mail", 0.07, 1, 10.0, 3.0, 0.05, 0.4, 0.030, 45_000, 5_000),
    Sender("prices", 0.045, 4, 12.0, 9.0, 0.60, 1.0, 0.008, 7_000, 250),
    Sender("nightly", 0.03, 1, 3.0, 1.2, 0.02, 1.0, 0.015, 30_000, 20_000),
    Sender("users", 0.02, 2, 19.0, 5.0, 0.15, 1.1, 0.006, 11_000, 700),
    Sender("returns", 0.012, 2, 15.0, 4.0, 0.08, 0.2, 0.012, 16_000, 1_100),
    Sender("invoices", 0.008, 1, 9.0, 2.0, 0.05, 0.1, 0.010, 25_000, 8_000),
    Sender("partners", 0.004, 1, 12.0, 6.0, 0.30, 0.9, 0.080, 120_000, 2_000),
    Sender("rare", 0.001, 1, 12.0, 6.0, 0.30, 0.9, 0.010, 10_000, 600),
)


class Traffic(NamedTuple):
    """How many events, over which days, from which seed; the number comes out within a few per cent.

    Of all deliveries one in ``lost`` has no event of its end, nor has the ledger; 0 for none.
    """

    events: int
    start: dt.datetime
    days: int = 1
    seed: int = 1
    lost: int = 0


def events_of_days(spark: SparkSession, traffic: Traffic) -> DataFrame:
    """Return the events (``schemas.EVENTS``) of some days, nearly in the order of their minutes."""
    events = _with_outcome(_with_times(_steps(_messages(spark, traffic)))).select(
        *[field.name for field in EVENTS.schema.fields]
    )
    if not traffic.lost:
        return events
    chosen = F.xxhash64("id", "subscription") % traffic.lost == 0
    return events.where((F.col("status") != "delivered") | ~chosen)


def ledger_of_events(events: DataFrame) -> DataFrame:
    """Return the rows of the ledger (``schemas.LEDGER``) that emitters of events would write, block by block."""
    expected = events.where(F.col("stage") == _ACCEPTED).select(
        "emitter",
        "seq",
        "arrived",
        F.lit("expected").alias("stage"),
        "destination",
        F.explode("expected").alias("subscription"),
        F.col("sent_minute").alias("minute"),
        "id",
        F.lit(-1).cast("bigint").alias("latency_us"),
    )
    counted = F.col("stage").isin(_SENT, _ACCEPTED) | F.col("status").isin("confirmed", "delivered", "dead")
    passed = events.where(counted).select(
        "emitter",
        "seq",
        "arrived",
        F.when(F.col("stage") == _SETTLED, F.col("status")).otherwise(F.col("stage")).alias("stage"),
        "destination",
        "subscription",
        F.col("sent_minute").alias("minute"),
        "id",
        "latency_us",
    )
    return _added(passed.unionByName(expected)).select(*[field.name for field in LEDGER.schema.fields])


def blocks_of_events(events: DataFrame) -> DataFrame:
    """Return a row for each block (``schemas.BLOCKS``) of events."""
    blocks = events.groupBy("emitter", "seq").agg(
        F.max("arrived").alias("arrived"), F.max("node").alias("node"), F.count("*").alias("events")
    )
    made = {"role": F.lit("receiver+dispatcher"), "at": F.col("arrived"), "lost": F.lit(0), "ledger": F.lit(0)}
    return blocks.withColumns(made).select(*[field.name for field in BLOCKS.schema.fields])


def _messages(spark: SparkSession, traffic: Traffic) -> DataFrame:
    """Return a row for each message: the minute it was sent in, its number there, and its destination's figures."""
    minutes = traffic.days * MINUTES_A_DAY
    parts = max(4, min(minutes // 60, math.ceil(traffic.events / 1_000_000)))
    senders = spark.createDataFrame([_figures(one, place, traffic) for place, one in enumerate(SENDERS)], _FIGURES)
    grid = spark.range(0, minutes, 1, parts).crossJoin(F.broadcast(senders)).withColumnRenamed("id", "slot")
    many = _many(traffic).alias("many")
    rows = grid.select("*", many).where("many > 0").withColumn("number", F.explode(F.sequence(F.lit(1), "many")))
    start = int(traffic.start.timestamp() * 1000)
    return rows.withColumn("luck", F.xxhash64(F.lit(traffic.seed), "place", "slot", "number")).withColumn(
        "sent", F.lit(start) + F.col("slot") * 60_000 + F.floor(_chance("in minute") * 60_000)
    )


_FIGURES: Final = (
    "place int, code string, rate double, subscribers int, peak double, width double, floor double, weekend double, "
    "failing double, median_us double, size int"
)


def _figures(sender: Sender, place: int, traffic: Traffic) -> tuple[object, ...]:
    """Return what the grid has of a sender; ``rate`` is its messages a minute at a weight of 1."""
    minutes = range(0, traffic.days * MINUTES_A_DAY, 10)
    weights = [_weight(sender, traffic.start + dt.timedelta(minutes=minute)) for minute in minutes]
    a_message = sum(one.share * (3 + one.subscribers * (1 + 2.67 * one.failing)) for one in SENDERS)
    rate = traffic.events / a_message * sender.share / (sum(weights) * 10)
    shape = (sender.peak, sender.width, sender.floor, sender.weekend)
    return (place, sender.code, rate, sender.subscribers, *shape, sender.failing, float(sender.median_us), sender.size)


def _weight(sender: Sender, time: dt.datetime) -> float:
    away = abs(time.hour + time.minute / 60 - sender.peak)
    away = min(away, 24 - away)
    day = sender.weekend if time.weekday() >= 5 else 1.0
    return day * (sender.floor + (1 - sender.floor) * math.exp(-((away / sender.width) ** 2)))


def _many(traffic: Traffic) -> Column:
    """Return how many messages a minute has: the rhythm, better and worse days and hours, and chance."""
    minute = F.col("slot") + F.lit(traffic.start.hour * 60 + traffic.start.minute)
    away = F.abs(minute % MINUTES_A_DAY / 60 - F.col("peak"))
    away = F.least(away, 24 - away)
    weekday = (F.floor(minute / MINUTES_A_DAY) + traffic.start.weekday()) % 7
    rhythm = F.col("floor") + (1 - F.col("floor")) * F.exp(-F.pow(away / F.col("width"), F.lit(2)))
    day, hour = F.floor(minute / MINUTES_A_DAY), F.floor(minute / 60)
    seed = F.lit(traffic.seed)
    swing = 0.05 * _gauss(seed, "day", F.col("place"), day) + 0.06 * _gauss(seed, "hour", F.col("place"), hour)
    mean = F.col("rate") * F.when(weekday >= 5, F.col("weekend")).otherwise(1.0) * rhythm * F.exp(swing)
    by_chance = _uniform(seed, "many", F.col("place"), F.col("slot"))
    few = F.floor(mean + by_chance)
    many = F.round(mean + F.sqrt(mean) * _gauss(seed, "crowd", F.col("place"), F.col("slot")))
    return F.greatest(F.when(mean < 3, few).otherwise(many), F.lit(0)).cast("int")


def _steps(messages: DataFrame) -> DataFrame:
    """Return a row for each event: stages of the message (``subscriber`` 0), then attempts of each subscriber."""
    places = messages.withColumn("subscriber", F.explode(F.sequence(F.lit(0), F.col("subscribers"))))
    bad = _uniform(F.col("luck"), "fails", F.col("subscriber"))
    last = F.lit(1)
    for harder in (1, 4, 12):
        last = last + (bad < F.col("failing") / harder).cast("int")
    several = F.when(F.col("subscriber") == 0, 3).otherwise(2 * F.col("last") - 1)
    rows = places.withColumn("last", last).withColumn("step", F.explode(F.sequence(F.lit(1), several)))
    plain = F.element_at(F.array(*[F.lit(each) for each in (_SENT, _ACCEPTED, _PUBLISHED)]), F.col("step"))
    of_delivery = F.when(F.col("step") % 2 == 0, _HANDED).otherwise(_SETTLED)
    attempt = F.floor(F.col("step") / 2) + 1
    return rows.withColumns(
        {
            "stage": F.when(F.col("subscriber") == 0, plain).otherwise(of_delivery),
            "attempt": F.when(F.col("subscriber") == 0, 0).otherwise(attempt).cast("int"),
        }
    )


def _with_times(steps: DataFrame) -> DataFrame:
    """Add when each event happened, and what names it."""
    stage, attempt, subscriber = F.col("stage"), F.col("attempt"), F.col("subscriber")
    waited = F.element_at(F.array(*[F.lit(each) for each in _RETRY_MS]), F.greatest(attempt, F.lit(1)))
    swing = _gauss(F.col("luck"), "takes", subscriber, attempt)
    duration = F.floor(F.col("median_us") * F.exp(0.6 * swing)).cast("bigint")
    after = (
        F.when(stage == _SENT, 0)
        .when(stage == _ACCEPTED, 2)
        .when(stage == _PUBLISHED, 4)
        .when(stage == _HANDED, waited)
        .otherwise(waited + F.ceil(F.col("duration_us") / 1000))
    )
    sequence = F.col("slot") * _BLOCKS_A_MINUTE + F.floor((F.col("number") - 1) / _MESSAGES_A_BLOCK) + 1
    in_block = (F.col("number") - 1) % _MESSAGES_A_BLOCK
    return (
        steps.withColumns({"id": _id(F.col("sent"), F.col("luck")), "duration_us": duration, "waited": waited})
        .withColumn("ms", F.col("sent") + after)
        .withColumns(
            {
                "emitter": F.concat(F.lit("0190a000-0000-7000-8000-"), F.lpad(F.col("place"), 12, "0")),
                "seq": sequence,
                "position": (in_block * _STEPS + subscriber * 8 + F.col("step")).cast("int"),
                "node": F.concat(F.lit("host-"), F.col("place") % 4),
                "at": F.timestamp_millis("ms"),
                "arrived": F.timestamp_millis(F.col("ms") + 1000),
                "minute": F.timestamp_millis(F.col("ms") - F.col("ms") % 60_000),
                "sent_minute": F.timestamp_millis(F.col("sent") - F.col("sent") % 60_000),
            }
        )
    )


def _with_outcome(steps: DataFrame) -> DataFrame:
    """Add what became of each attempt."""
    settled, attempt, last = F.col("stage") == _SETTLED, F.col("attempt"), F.col("last")
    gives_up = (last == len(_RETRY_MS)) & (_uniform(F.col("luck"), "dies", F.col("subscriber")) < 0.2)
    outcome = F.when(attempt < last, "retrying").when(gives_up, "dead").otherwise("delivered")
    status = F.when(F.col("stage") == _PUBLISHED, "confirmed").when(settled, outcome).otherwise("")
    delivered, empty = F.col("status") == "delivered", F.lit("")
    names = F.transform(F.sequence(F.lit(1), F.col("subscribers")), _subscription)
    expected = F.when(F.col("stage") == _ACCEPTED, names).otherwise(F.array().cast("array<string>"))
    return steps.withColumn("status", status).withColumns(
        {
            "verdict": F.lit("good"),
            "destination": F.col("code"),
            "subscription": F.when(F.col("subscriber") > 0, _subscription(F.col("subscriber"))).otherwise(""),
            "expected": expected,
            "attempt_id": F.when(settled, F.concat_ws("/", "id", "subscriber", "attempt")).otherwise(empty),
            "generation": F.lit(0),
            "origin": F.when(settled, F.when(attempt > 1, "retry").otherwise("road")).otherwise(empty),
            "code": F.when(delivered, 200).when(settled, 503).otherwise(0),
            "reason": F.when(settled & ~delivered, "503 Service Unavailable").otherwise(empty),
            "transport": F.when(F.col("stage") == _PUBLISHED, "direct").otherwise(empty),
            "bytes": F.when(F.col("stage") == _HANDED, 0).otherwise(_size()).cast("bigint"),
            "biz_id": F.concat(F.lit("b"), F.abs(F.col("luck")) % 100_000),
            "source": F.concat(F.lit("app-"), F.col("place") % 5),
            "latency_us": F.when(delivered, F.col("waited") * 1000 + F.col("duration_us")).otherwise(-1),
            "duration_us": F.when(settled, F.col("duration_us")).otherwise(-1),
            "replay": empty,
        }
    )


def _added(rows: DataFrame) -> DataFrame:
    key = ("emitter", "seq", "stage", "destination", "subscription", "minute")
    hashed = rows.withColumn("hash", F.xxhash64("id"))
    low, high = F.col("hash").bitwiseAND(_LOW), F.shiftrightunsigned("hash", 32)
    counts = hashed.groupBy(*key).agg(
        F.max("arrived").alias("arrived"),
        F.count("*").alias("count"),
        F.bit_xor("hash").alias("xor"),
        F.sum(low).alias("low"),
        F.sum(high).alias("high"),
        F.array_sort(F.collect_list(F.when(F.col("latency_us") >= 0, bucket_of(F.col("latency_us"))))).alias("buckets"),
    )
    carried = (F.col("high") + F.shiftrightunsigned("low", 32)).bitwiseAND(_LOW)
    total = F.shiftleft(carried, 32).bitwiseOR(F.col("low").bitwiseAND(_LOW))
    histogram = F.map_from_arrays(
        F.array_distinct("buckets"),
        F.transform(
            F.array_distinct("buckets"),
            lambda bucket: F.size(F.filter("buckets", lambda each: each == bucket)).cast("bigint"),
        ),
    )
    place = F.abs(F.hash("stage", "subscription")) % 1_000_000
    return counts.withColumns({"sum": total, "latency": histogram, "position": place})


def _subscription(number: Column) -> Column:
    return F.concat(F.lit("s"), number)


def _size() -> Column:
    return F.floor(F.col("size") * (0.5 + _chance("size")))


def _id(milliseconds: Column, luck: Column) -> Column:
    """Return the text of a UUID of version 7."""
    stamp = F.lpad(F.lower(F.hex(milliseconds)), 12, "0")
    rest = F.lower(F.lpad(F.hex(luck), 16, "0"))
    more = F.lower(F.lpad(F.hex(F.xxhash64(luck)), 16, "0"))
    parts = (F.substring(stamp, 1, 8), F.substring(stamp, 9, 4), F.concat(F.lit("7"), F.substring(rest, 1, 3)))
    tail = (F.concat(F.lit("8"), F.substring(rest, 4, 3)), F.concat(F.substring(rest, 7, 10), F.substring(more, 1, 2)))
    return F.concat_ws("-", *parts, *tail)


def _chance(what: str) -> Column:
    return _uniform(F.col("luck"), what)


def _uniform(seed: Column, what: str, *keys: Column) -> Column:
    """Return a number between 0 and 1 that follows from its arguments."""
    return (F.shiftrightunsigned(F.xxhash64(seed, F.lit(what), *keys), 11) + 1) / F.lit(2.0**53 + 1)


def _gauss(seed: Column, what: str, *keys: Column) -> Column:
    far = F.sqrt(-2 * F.log(_uniform(seed, f"{what} far", *keys)))
    return far * F.cos(_uniform(seed, f"{what} round", *keys) * 2 * math.pi)
