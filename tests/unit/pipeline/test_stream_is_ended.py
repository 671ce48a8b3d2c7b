"""A stream that is asked to end does so without a word of Spark's about the batch that had only just begun."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest
from py4j.protocol import Py4JError, Py4JNetworkError

from pipeline.ending import ended_by_signals
from pipeline.errors import JobFailed
from pipeline.jobs.rollup import Stream


class Spark:
    """What a stream needs of a session; ``level`` is what Spark logs."""

    def __init__(self) -> None:
        self.level = "ERROR"
        self.sparkContext = SimpleNamespace(setLogLevel=self._set)
        self.streams = SimpleNamespace(removeListener=lambda _: None)

    def _set(self, level: str) -> None:
        self.level = level


class Query:
    """A stream between two batches; ``stopped_at`` is what Spark logged when it was stopped."""

    status: dict[str, Any] = {"isTriggerActive": False}  # noqa: RUF012
    lastProgress = None  # noqa: N815

    def __init__(self, spark: Spark, failure: Exception | None = None) -> None:
        self.stopped_at = ""
        self._spark = spark
        self._failure = failure

    def awaitTermination(self, _seconds: float) -> bool:  # noqa: N802
        return bool(self.stopped_at)

    def stop(self) -> None:
        self.stopped_at = self._spark.level
        if self._failure is not None:
            raise self._failure


def ended(query: Query, spark: Spark) -> None:
    asked, over = threading.Event(), threading.Event()
    asked.set()
    over.set()
    watcher, sink = SimpleNamespace(dropped=0, ended=over), SimpleNamespace(failure=None, close=lambda: None)
    parts: tuple[Any, ...] = (query, spark, watcher, sink)
    Stream(*parts).wait(asked)


def test_spark_is_silent_while_it_is_stopped() -> None:
    spark = Spark()
    query = Query(spark)
    ended(query, spark)
    assert (query.stopped_at, spark.level) == ("OFF", "ERROR")


def test_spark_speaks_of_a_batch_that_was_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipeline.jobs.rollup._LAST_BATCH_S", 0)
    spark = Spark()
    query = Query(spark)
    query.status = {"isTriggerActive": True}
    ended(query, spark)
    assert query.stopped_at == "ERROR"


def test_spark_speaks_again_when_it_could_not_be_stopped() -> None:
    spark = Spark()
    with pytest.raises(TimeoutError):
        ended(Query(spark, TimeoutError("of the stream's thread")), spark)
    assert spark.level == "ERROR"


def caused(error: Exception, cause: Exception | None) -> Exception:
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    "told", [Py4JNetworkError("gone"), ConnectionRefusedError(), caused(JobFailed("Spark ended"), Py4JError("gone"))]
)
def test_what_spark_says_when_it_was_ended_too_is_no_failure(told: Exception) -> None:
    with ended_by_signals() as asked:
        asked.set()
        raise told
    with pytest.raises(type(told)), ended_by_signals():
        raise told


@pytest.mark.parametrize("told", [JobFailed("lines were left out"), caused(JobFailed("no room"), OSError(28, "full"))])
def test_what_the_stream_itself_tells_is_a_failure_at_its_end_too(told: Exception) -> None:
    def end() -> None:
        with ended_by_signals() as asked:
            asked.set()
            raise told

    with pytest.raises(JobFailed):
        end()
