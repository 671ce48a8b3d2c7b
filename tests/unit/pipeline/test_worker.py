"""Jobs run one after the other, and whatever fails in one is told and keeps no other from running."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from prometheus_client import CollectorRegistry
from py4j.protocol import Py4JError

from bus.domain.pipelines import Job, Run, Verdict
from bus.errors import ConfigurationError
from bus.testing.clock import ManualClock
from pipeline.errors import JobFailed
from pipeline.lake.storage import Storage
from pipeline.serving import worker
from pipeline.serving.jobs import Jobs
from pipeline.serving.listeners import Listeners
from pipeline.serving.metrics import RunMetrics
from pipeline.serving.runs import Outcome, QueuedRun, RunBook
from pipeline.serving.stream import Rollup
from pipeline.serving.worker import Worker

Did = Callable[[Run], Outcome]
FINE = Outcome(Verdict.PROVEN, {"expected": 9, "missing": 0})


class World:
    """A worker whose jobs are told what comes of them; it ends once nothing waits."""

    def __init__(self, root: Path, *, is_alive: bool = True) -> None:
        self.storage = Storage(str(root))
        self.book = RunBook(self.storage, ManualClock())
        self.registry = CollectorRegistry()
        self.ended: list[Run] = []
        self.trouble: list[str] = []
        self.ending = threading.Event()
        self._did: list[Did | Exception] = []
        listeners = Listeners(lambda _: None, self._heard, self.trouble.append)
        jobs = cast("Jobs", SimpleNamespace(run=self._run))
        rollup = cast("Rollup", SimpleNamespace(is_alive=lambda: is_alive))
        self._worker = Worker(self.book, jobs, rollup, RunMetrics(self.registry), listeners)

    def work(self, *did: Did | Exception) -> list[Verdict]:
        """Have so many jobs wait and run, and return how they ended."""
        self._did = list(did)
        for job, _ in zip(Job, did, strict=False):
            self.book.want(QueuedRun(job=job))
        self._worker.run(self.ending)
        return [run.verdict for run in self.ended]

    def _run(self, run: Run) -> Outcome:
        did = self._did.pop(0)
        if isinstance(did, Exception):
            raise did
        return did(run)

    def _heard(self, run: Run) -> None:
        self.ended.append(run)
        if not self.book.waiting():
            self.ending.set()


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_whatever_fails_in_one_job_the_next_one_runs(world: World) -> None:
    failures = [
        JobFailed("2 hours were left", hint="free some disk"),
        ConfigurationError("there is no store at x"),
        ValueError("unexpected"),
        Py4JError("An error occurred"),
    ]
    assert world.work(*failures, lambda _: FINE) == [Verdict.FAILED] * 4 + [Verdict.PROVEN]
    assert [run.error for run in world.ended][:3] == ["2 hours were left", "there is no store at x", "unexpected"]
    assert world.ended[0].hint == "free some disk"
    assert all(run.hint or run.error for run in world.ended[:4])
    counted = world.registry.get_sample_value("bus_pipeline_runs_total", {"job": "archive", "verdict": "proven"})
    assert counted == 1
    assert world.registry.get_sample_value("bus_pipeline_found", {"kind": "missing"}) == 0


def test_without_sparks_own_process_nothing_goes_on(tmp_path: Path) -> None:
    world = World(tmp_path, is_alive=False)
    with pytest.raises(ConnectionError):
        world.work(ConnectionError("refused"), lambda _: FINE)
    assert [run.verdict for run in world.book.runs()] == [Verdict.RUNNING]
    assert [run.verdict for run in RunBook(world.storage, ManualClock()).runs()] == [Verdict.BROKEN]


def test_a_job_that_the_end_broke_off_runs_again_at_the_next_start(world: World) -> None:
    def broken(_: Run) -> Outcome:
        world.ending.set()
        raise Py4JError("the session was stopped")

    assert world.work(broken) == []
    again = RunBook(world.storage, ManualClock())
    assert [each.job for each in again.waiting()] == [Job.RECONCILE]


def test_a_lake_that_cannot_be_written_is_tried_again(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    write, left = world.storage.write, [2]

    def full(path: str, content: bytes) -> None:
        if left[0]:
            left[0] -= 1
            raise OSError(28, "No space left on device")
        write(path, content)

    def done(_: Run) -> Outcome:
        left[0] = 2
        return FINE

    monkeypatch.setattr(worker, "_AGAIN_S", 0.001)
    world.book.want(QueuedRun(job=Job.RECONCILE))
    monkeypatch.setattr(world.storage, "write", full)
    world._did = [done]
    world._worker.run(world.ending)
    assert [run.verdict for run in world.ended] == [Verdict.PROVEN]
    assert len(world.trouble) == 4
    assert RunBook(world.storage, ManualClock()).runs()[0].verdict is Verdict.PROVEN
