"""A pipeline that stays: the rollup, the jobs one after the other, and the reports to the bus, each in a thread."""

from __future__ import annotations

import datetime as dt
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

from bus.domain.pipelines import Job, Pipeline, RunRequest, ScheduledJob
from bus.domain.times import format_time
from bus.error_texts import error_text
from bus.ports.clock import Clock
from pipeline.lake.storage import Storage
from pipeline.metrics import StreamMetrics
from pipeline.serving.jobs import Jobs
from pipeline.serving.listeners import Listeners
from pipeline.serving.metrics import RunMetrics
from pipeline.serving.plan import ServingPlan
from pipeline.serving.runs import QueuedRun, RunBook
from pipeline.serving.status_reporter import StatusReporter
from pipeline.serving.stream import Rollup
from pipeline.serving.worker import Worker

_LOOK_S: Final = 0.5
LAST_S: Final = 45.0
"""For how long the end waits for the batch, the job and the call that are at work."""


class Service:
    """The threads of one session, on one lake.

    Raises
    ------
    JobFailed
        The lake's records of earlier runs cannot be read.
    """

    def __init__(
        self, spark: SparkSession, plan: ServingPlan, clock: Clock, metrics: StreamMetrics, listeners: Listeners
    ) -> None:
        self._plan = plan
        self._clock = clock
        self._trouble = listeners.trouble
        self._started = format_time(clock.now())
        self._book = RunBook(Storage(plan.lake), clock)
        self._next = {job: self._first(job) for job in plan.schedule.crons}
        runs = RunMetrics(metrics.registry)
        self._rollup = Rollup(spark, plan, metrics, listeners)
        self._worker = Worker(self._book, Jobs(spark, plan, self._rollup, clock), self._rollup, runs, listeners)
        self._teller = StatusReporter(plan.telling, self.state, self._take, runs, listeners)

    def run(self, asked: threading.Event) -> None:
        """Run until ``asked`` is set: the rollup ends between two batches; a job at work runs again at the next start.

        Raises
        ------
        JobFailed
            The rollup may not continue.
        Py4JError, ConnectionError
            Spark's own process has ended.
        """
        ending = threading.Event()
        threads = [_Thread(each.run, ending) for each in (self._rollup, self._worker, self._teller)]
        for thread in threads:
            thread.start()
        while not (asked.is_set() or ending.is_set()):
            self._look()
            asked.wait(_LOOK_S)
        ending.set()
        deadline = time.monotonic() + LAST_S
        for thread in threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        for thread in threads:
            if thread.error is not None:
                raise thread.error
        with suppress(OSError):  # else the next start takes it for killed, and has it run again as well
            self._book.put_off()

    def state(self) -> Pipeline:
        """Return the present status of the pipeline."""
        waiting = {each.job: each for each in self._book.waiting()}
        return Pipeline(
            started_at=self._started,
            lake=_place(self._plan.lake),
            timezone=self._plan.set.timezone,
            stream=self._rollup.state,
            jobs=tuple(self._scheduled(job, waiting.get(job)) for job in Job),
            runs=self._book.runs(),
        )

    def _scheduled(self, job: Job, waiting: QueuedRun | None) -> ScheduledJob:
        at = self._next[job]
        return ScheduledJob(
            job=job,
            cron=self._plan.schedule.crons[job],
            next_at=format_time(round(at.timestamp() * 1000)) if at is not None else None,
            waits=waiting is not None,
            wish=waiting.wish if waiting is not None else "",
        )

    def _first(self, job: Job) -> dt.datetime | None:
        """Return when a job is due first: at once, where a time for it went by since it ran last."""
        now = self._now()  # the clock may have been ahead when it ran last
        return self._plan.schedule.after(job, min(self._book.last(job) or now, now))

    def _look(self) -> None:
        """Have wait what is due; where the lake cannot be written, it is due at the next look as well."""
        now = self._now()
        for job, at in self._next.items():
            if at is None:
                continue
            if at > now:
                self._next[job] = min(at, self._plan.schedule.after(job, now) or at)  # the clock may have gone back
            else:
                try:
                    self._book.want(QueuedRun(job=job))
                except OSError as error:
                    self._trouble(f"the lake cannot be written, and is tried again: {error_text(error)}")
                    return
                self._next[job] = self._plan.schedule.after(job, now)

    def _take(self, wish: RunRequest) -> None:
        self._book.want(QueuedRun(job=wish.job, by=wish.by, wish=wish.id))

    def _now(self) -> dt.datetime:
        return dt.datetime.fromtimestamp(self._clock.now() / 1000, dt.UTC)


class _Thread(threading.Thread):
    """A part of the service; ``error`` is what ended it, and ends the others."""

    def __init__(self, work: Callable[[threading.Event], None], ending: threading.Event) -> None:
        super().__init__(name=work.__qualname__, daemon=True)  # a daemon: a job at work may be left at the end
        self.error: BaseException | None = None
        self._work = work
        self._ending = ending

    def run(self) -> None:
        """Do it."""
        try:
            self._work(self._ending)
        except BaseException as error:  # noqa: BLE001 - raised by the thread that waits for all of them
            self.error = error
            self._ending.set()


def _place(lake: str) -> str:
    """Return a lake's name independent of the working directory."""
    return lake if "://" in lake else str(Path(lake).absolute())
