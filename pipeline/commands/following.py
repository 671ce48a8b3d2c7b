"""How far Spark is, for who waits at a terminal."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import Final

from py4j.protocol import Py4JError
from pyspark import SparkJobInfo, StatusTracker
from pyspark.sql import SparkSession

from bus.cli.output import progress

_EVERY_S: Final = 0.5
_RUNNING: Final = "RUNNING"


class Tasks:
    """The tasks of the jobs that a session begins from now on; Spark plans a job once those before it have ended."""

    def __init__(self, spark: SparkSession) -> None:
        self._tracker: StatusTracker = spark.sparkContext.statusTracker()
        self._over = set(self._tracker.getJobIdsForGroup())
        self._counts: dict[int, tuple[int, int]] = {}

    def count(self) -> tuple[int, int]:
        """Return how many are done, and how many are planned so far, those among them."""
        for number in set(self._tracker.getJobIdsForGroup()) - self._over:
            job = self._tracker.getJobInfo(number)
            if job is not None:
                self._counts[number] = self._tasks(job)
                if job.status != _RUNNING:
                    self._over.add(number)
        return sum(done for done, _ in self._counts.values()), sum(of for _, of in self._counts.values())

    def _tasks(self, job: SparkJobInfo) -> tuple[int, int]:
        """Return the same of one job; one that has ended needed no more than were done."""
        stages = [stage for each in job.stageIds if (stage := self._tracker.getStageInfo(each)) is not None]
        done = sum(stage.numCompletedTasks for stage in stages)
        return done, sum(stage.numTasks for stage in stages) if job.status == _RUNNING else done


@contextmanager
def following(spark: SparkSession, what: str) -> Iterator[None]:
    """Show on a terminal how many of Spark's tasks are done, until the ``with`` block is left."""
    with progress() as shown:
        if shown.disable:
            yield
            return
        task, over = shown.add_task(what, total=None), threading.Event()

        def look() -> None:
            with suppress(Py4JError, OSError):  # of a Spark that died the job itself tells
                tasks = Tasks(spark)
                while not over.wait(_EVERY_S):
                    done, of = tasks.count()
                    shown.update(task, completed=done, total=of or None)

        with ThreadPoolExecutor(max_workers=1) as pool:
            looking = pool.submit(look)
            try:
                yield
            finally:
                over.set()
        looking.result()
