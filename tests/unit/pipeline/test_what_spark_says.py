"""Failures inside Spark are told in a line, with the next step; other errors pass as they are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from py4j.protocol import Py4JError, Py4JJavaError, Py4JNetworkError
from pyspark.errors import AnalysisException, PySparkException, PythonException, StreamingQueryException

from pipeline import session
from pipeline.errors import JobFailed
from pipeline.options import SessionOptions
from pipeline.session import running

CALLED = "An error occurred while calling o84.collectToPython.\n: "
TRACE = "\n\tat org.apache.spark.rdd.RDD.compute(RDD.scala:1)\nCaused by: java.io.IOException: deeper\n\t... 3 more"
GONE = "[FAILED_READ_FILE.FILE_NOT_EXIST] Encountered error while reading file file:///lake/a.parquet. File is gone"
TASK = "Job aborted due to stage failure: Task 0 in stage 3.0 failed 1 times, most recent failure: "
TASK += "Lost task 0.0 in stage 3.0 (TID 3) (192.0.2.2 executor driver): "
CAST = "[CAST_INVALID_INPUT] The value 'a' cannot be cast.\n== SQL (line 1, position 1) ==\ncast(biz_id as int) > 5\n"
WORKER = "\n  An exception was thrown from the Python worker. Please see the stack trace below.\n"
WORKER += 'Traceback (most recent call last):\n  File "a.py", line 1, in a\n    1/0\n    ~^~\nOSError: no place\n'


class FromJava(Py4JJavaError):
    """As Py4J raises it; Java is asked for the text when it is shown."""

    def __init__(self, text: str | Exception) -> None:
        Exception.__init__(self)
        self._text = text

    def __str__(self) -> str:
        if isinstance(self._text, Exception):
            raise self._text
        return self._text


@pytest.fixture(autouse=True)
def stopped(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """What was done to a session that is none."""
    calls: list[str] = []

    class Session:
        def stop(self) -> None:
            calls.append("stop")

    monkeypatch.setattr(session, "open_session", lambda *_, **__: Session())
    yield calls
    assert calls == ["stop"]


def fail(error: BaseException) -> None:
    with running("archive", SessionOptions(), "lake"):
        raise error


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (FromJava(f"{CALLED}org.apache.spark.SparkException: {GONE}.{TRACE}"), GONE),
        (FromJava(f"{CALLED}org.apache.spark.SparkException: {TASK}java.io.IOException: Mkdirs{TRACE}"), "Mkdirs;"),
        (FromJava(f"{CALLED}java.lang.OutOfMemoryError: Java heap space{TRACE}"), "Java heap space"),
        (FromJava(f"{CALLED}java.lang.NullPointerException{TRACE}"), "java.lang.NullPointerException"),
        (AnalysisException("[PATH_NOT_FOUND] It is not there: file:/lake/a."), "[PATH_NOT_FOUND] It is not there"),
        (PySparkException(CAST), "[CAST_INVALID_INPUT] The value 'a' cannot be cast;"),
        (PySparkException("no reader: java.io.IOException: gone"), "no reader: java.io.IOException: gone;"),
        (PythonException(WORKER), "OSError: no place"),
        (PySparkException(""), "no reason given"),
    ],
)
def test_a_failure_is_told_by_its_first_meaningful_line(error: Exception, line: str) -> None:
    with pytest.raises(JobFailed) as caught:
        fail(error)
    told = str(caught.value)
    assert told.startswith(f"Spark failed: {line}")
    assert told.endswith("committed batches stay")
    assert "\n" not in told
    assert "calling o84" not in told
    assert caught.value.hint
    assert caught.value.__cause__ is error


@pytest.mark.parametrize(
    "error", [Py4JNetworkError("gone"), Py4JError("gone"), ConnectionRefusedError(111, "no"), FromJava(OSError("gone"))]
)
def test_the_end_of_sparks_own_process_is_told_as_that(error: Exception) -> None:
    with pytest.raises(JobFailed, match="Spark's own process ended"):
        fail(error)


@pytest.mark.parametrize(
    "error",
    [BrokenPipeError(32, "Broken pipe"), StreamingQueryException("stopped"), JobFailed("known"), KeyboardInterrupt()],
)
def test_what_is_told_elsewhere_passes(error: Any) -> None:
    with pytest.raises(type(error)) as caught:
        fail(error)
    assert caught.value is error
