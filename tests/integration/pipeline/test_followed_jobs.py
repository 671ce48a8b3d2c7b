"""Progress of a Spark job at a terminal."""

import os
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pipeline.commands.following import Tasks, following
from tests.harness.waiting import wait_until


@contextmanager
def terminal() -> Iterator[bytearray]:
    """Make standard error a terminal, and give what it has shown; a fixture's would be taken away by pytest's own."""
    reading, writing = os.openpty()
    shown = bytearray()

    def read() -> None:
        while b"\x04" not in shown:  # whoever writes to a terminal that nobody reads is held up
            shown.extend(os.read(reading, 4096))

    with pytest.MonkeyPatch.context() as patch, ThreadPoolExecutor() as pool, os.fdopen(writing, "w") as stream:
        patch.setenv("TERM", "xterm")
        patch.setattr(sys, "stderr", stream)
        pool.submit(read)
        try:
            yield shown
        finally:
            stream.write("\x04")
    os.close(reading)


def test_tasks_of_jobs_are_counted_from_when_one_looks(spark: SparkSession) -> None:
    spark.sparkContext.range(0, 10, numSlices=3).count()
    tasks = Tasks(spark)
    assert tasks.count() == (0, 0)
    spark.sparkContext.range(0, 10, numSlices=5).count()
    wait_until(lambda: tasks.count() == (5, 5), within=30, what="Spark to tell of its job")
    spark.sparkContext.range(0, 10, numSlices=4).count()
    wait_until(lambda: tasks.count() == (9, 9), within=30, what="Spark to tell of the next")


def test_tasks_that_spark_leaves_out_are_not_awaited(spark: SparkSession, tmp_path: Path) -> None:
    gate = tmp_path / "gate"

    def held(rows: Iterator[object]) -> Iterator[object]:
        while not gate.exists():
            time.sleep(0.05)
        return rows

    pairs = spark.sparkContext.range(0, 10, numSlices=4).map(lambda number: (number, 1)).groupByKey(3)
    pairs.count()
    tasks = Tasks(spark)
    with ThreadPoolExecutor() as pool:
        counting = pool.submit(pairs.mapPartitions(held).count)
        try:
            wait_until(lambda: tasks.count() == (0, 3), within=30, what="the stage behind the shuffle, alone")
        finally:
            gate.touch()
        assert counting.result(60) == 10
    wait_until(lambda: tasks.count() == (3, 3), within=30, what="Spark to tell that it has ended")


def test_a_terminal_shows_how_many_tasks_are_done(spark: SparkSession) -> None:
    with terminal() as shown, following(spark, "counting"):
        spark.sparkContext.range(0, 10, numSlices=7).count()
        wait_until(lambda: b"counting: 7 of 7" in shown, within=30, what="the count")


def test_what_fails_meanwhile_is_told_as_it_is(spark: SparkSession) -> None:
    with terminal(), pytest.raises(KeyError, match="mine"), following(spark, "counting"):
        raise KeyError("mine")


def test_nothing_is_shown_where_no_terminal_is(spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    with following(spark, "counting"):
        spark.range(0, 10).count()
    assert capsys.readouterr().err == ""
