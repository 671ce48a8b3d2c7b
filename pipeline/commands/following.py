"""The progress of Spark, shown on a terminal."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

from py4j.protocol import Py4JError
from pyspark import SparkJobInfo, StatusTracker
from pyspark.sql import SparkSession

from bus.cli.output import console

_EVERY_S: Final = 0.5
_LAST_LOOK_S: Final = 5.0
_RUNNING: Final = "RUNNING"


class Tasks:
    """The tasks of the jobs that a session begins from now on."""

    def __init__(self, spark: SparkSession) -> None:
        self._tracker: StatusTracker = spark.sparkContext.statusTracker()
        self._over = set(self._tracker.getJobIdsForGroup())
        self._counts: dict[int, tuple[int, int]] = {}

    def totals(self) -> tuple[int, int]:
        """Return how many jobs there were, and how many of their tasks are done."""
        done, _ = self.count()
        return len(self._counts), done

    def count(self) -> tuple[int, int]:
        """Return how many are done, and how many there are so far in all."""
        for number in set(self._tracker.getJobIdsForGroup()) - self._over:
            job = self._tracker.getJobInfo(number)
            if job is not None:
                self._counts[number] = self._tasks(job)
                if job.status != _RUNNING:
                    self._over.add(number)
        return sum(done for done, _ in self._counts.values()), sum(of for _, of in self._counts.values())

    def _tasks(self, job: SparkJobInfo) -> tuple[int, int]:
        """Return the same for one job; stages that were not begun do not count, since Spark may skip them."""
        stages = [stage for each in job.stageIds if (stage := self._tracker.getStageInfo(each)) is not None]
        begun = [stage for stage in stages if stage.numActiveTasks or stage.numCompletedTasks]
        done = sum(stage.numCompletedTasks for stage in begun)
        return done, sum(stage.numTasks for stage in begun) if job.status == _RUNNING else done


@contextmanager
def following(spark: SparkSession, what: str) -> Iterator[None]:
    """Show on a terminal how many of Spark's tasks are done, until the ``with`` block is left.

    There is no progress bar, since Spark plans the tasks of a step only when it comes to it.
    """
    out, over = console(stderr=True), threading.Event()
    with out.status(what) as shown:
        if not out.is_terminal:
            yield
            return
        tasks = Tasks(spark)

        def look() -> None:
            with suppress(Py4JError, OSError):  # if Spark died, the job itself fails and says so
                while not over.wait(_EVERY_S):
                    done, of = tasks.count()
                    shown.update(f"{what}: {done} of {of} tasks of Spark are done" if of else what)

        looking = threading.Thread(target=look, daemon=True)  # a daemon, since an interrupt may skip the join
        try:
            looking.start()
            yield
        finally:
            over.set()
            looking.join(_LAST_LOOK_S)
