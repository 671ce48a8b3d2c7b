import datetime as dt
import random

import pytest
from pyspark.sql import functions as F

from pipeline.transforms.freshness import freshness, happened, read_points

START = 1_763_700_000_000
PUBLISHED = START + 100_000


def time_of(ms):
    return dt.datetime.fromtimestamp(ms / 1000, dt.UTC)


def points_of(spark, times, counted=None):
    rows = [(time_of(at), good) for at, good in zip(times, counted or [True] * len(times), strict=True)]
    frame = spark.createDataFrame(rows, "at timestamp, good boolean")
    (row,) = frame.agg(happened(F.col("good")).alias("points")).collect()
    return read_points(row.points)


def test_ages_are_those_of_the_events_that_count(spark):
    chance = random.Random(1)
    good = [START + int(chance.paretovariate(1.5) * 1000) % 90_000 for _ in range(5_000)]
    wrong = [START - 10**9] * 1_000
    fresh = freshness(len(good), points_of(spark, good + wrong, [True] * 5_000 + [False] * 1_000), PUBLISHED)
    ages = sorted((PUBLISHED - at) / 1000 for at in good)
    assert fresh.greatest == ages[-1]
    for share, found in ((0.5, fresh.p50), (0.95, fresh.p95)):
        assert ages[int((share - 0.002) * 5_000)] <= found <= ages[int((share + 0.002) * 5_000)]
    for age in (0.5, 20, 60, 98, 99, 200):
        exact = sum(each <= age for each in ages)
        assert abs(fresh.not_older(age) - exact) <= 5_000 / 20
    assert fresh.not_older(100) == 5_000
    assert fresh.total() == pytest.approx(sum(ages), rel=0.02)


def test_without_events_there_is_none(spark):
    assert freshness(0, points_of(spark, [START], [False]), PUBLISHED) is None


def test_one_event_is_all_of_them():
    fresh = freshness(1, [START] * 21, PUBLISHED)
    assert fresh.row() == dict.fromkeys(("freshness_p50_ms", "freshness_p95_ms", "freshness_max_ms"), 100_000)
    assert [fresh.not_older(age) for age in (99.9, 100, 101)] == [0, 1, 1]


def test_a_clock_that_is_ahead_makes_new_events_not_negative_ages():
    assert freshness(2, [PUBLISHED, PUBLISHED + 500], PUBLISHED).ages == (0, 0)
