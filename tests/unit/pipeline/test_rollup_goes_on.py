"""The rollup of a pipeline that stays: whatever stops it, it is started again, as long as Spark is there."""

from __future__ import annotations

import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from pipeline.commands.telling import ReportTarget
from pipeline.errors import JobFailed
from pipeline.metrics import StreamMetrics
from pipeline.serving import stream
from pipeline.serving.listeners import Listeners
from pipeline.serving.plan import ServingPlan
from pipeline.serving.stream import Rollup


class World:
    """A rollup whose streams end as a test says; ``asked`` is set when there is no more to say."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, root: Path, *ends: Exception | None) -> None:
        self.trouble: list[str] = []
        self.asked = threading.Event()
        self.is_stopped = False
        self.errors: list[str] = []
        self._ends = list(ends)
        spark = SimpleNamespace(sparkContext=SimpleNamespace(_jsc=self))
        monkeypatch.setattr(stream, "_FIRST_S", 0.001)
        monkeypatch.setattr(stream, "_LONGEST_S", 0.002)
        monkeypatch.setattr(Rollup, "_start", lambda _: self)
        listeners = Listeners(lambda _: None, lambda _: None, self.trouble.append)
        plan = cast("ServingPlan", SimpleNamespace(lake=str(root), telling=ReportTarget("", "")))
        self.rollup = Rollup(cast("SparkSession", spark), plan, StreamMetrics(), listeners)

    def sc(self) -> Any:
        return SimpleNamespace(isStopped=lambda: self.is_stopped)

    def wait(self, asked: threading.Event) -> None:
        end = self._ends.pop(0)
        if not self._ends:
            asked.set()
        self.errors.append(self.rollup.state.error)
        if end is not None:
            raise end

    def is_idle(self, _: float) -> bool:
        return False

    def run(self) -> None:
        self.rollup.run(self.asked)


@pytest.mark.parametrize(
    "failure",
    [
        PySparkException("the source is gone"),
        Py4JError("the source is gone"),
        OSError(28, "the source is gone"),
        ValueError("the source is gone"),
    ],
)
def test_it_is_started_again_and_says_meanwhile_why(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, failure: Exception
) -> None:
    world = World(monkeypatch, tmp_path, failure, failure, None)
    world.run()
    assert len(world.trouble) == 2
    assert [("the source is gone" in error) for error in world.errors] == [False, True, True]
    assert world.rollup.state.hint


def test_what_it_would_leave_out_ends_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    world = World(monkeypatch, tmp_path, JobFailed("the clock went back"), None)
    with pytest.raises(JobFailed, match="the clock went back"):
        world.run()


def test_without_spark_it_ends(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    world = World(monkeypatch, tmp_path, PySparkException("the context was stopped"), None)
    world.is_stopped = True
    with pytest.raises(PySparkException, match="was stopped"):
        world.run()
    assert world.trouble == []


def test_once_it_waits_for_more_there_is_no_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    world = World(monkeypatch, tmp_path, ValueError("the source is gone"), None)
    world.run()
    assert world.rollup.state.error
    world.rollup._stream = cast("Any", SimpleNamespace(is_idle=lambda _within: True))
    assert (world.rollup.state.error, world.rollup.state.hint) == ("", "")
