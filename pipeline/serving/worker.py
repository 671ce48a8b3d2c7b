"""The runs of jobs, one after the other."""

from __future__ import annotations

import threading
from typing import Final

from py4j.protocol import Py4JError

from bus.domain.pipelines import Run, Verdict
from bus.error_texts import error_text
from bus.errors import BusError
from pipeline.errors import line_of
from pipeline.serving.jobs import Jobs
from pipeline.serving.listeners import Listeners
from pipeline.serving.metrics import RunMetrics
from pipeline.serving.runs import Outcome, RunBook
from pipeline.serving.stream import Rollup

_LOOK_S: Final = 0.5
_AGAIN_S: Final = 5.0


class Worker:
    """Begins what waits in the book of runs, and writes there how it ended."""

    def __init__(self, book: RunBook, jobs: Jobs, rollup: Rollup, metrics: RunMetrics, listeners: Listeners) -> None:
        self._book = book
        self._jobs = jobs
        self._rollup = rollup
        self._metrics = metrics
        self._listeners = listeners

    def run(self, ending: threading.Event) -> None:
        """Work until ``ending`` is set; a job that this breaks off stays as running, and runs again at the next start.

        Raises
        ------
        Py4JError, ConnectionError
            Spark's own process has ended.
        """
        while not ending.is_set():
            try:
                run = self._book.begin()
            except OSError as error:
                self._tell(error)
                ending.wait(_AGAIN_S)
                continue
            if run is None:
                ending.wait(_LOOK_S)
            elif (outcome := self._outcome(run, ending)) is not None:
                self._end(run, outcome, ending)

    def _outcome(self, run: Run, ending: threading.Event) -> Outcome | None:
        """Run a job; None when it was broken off by the end of the session."""
        try:
            return self._jobs.run(run)
        except BusError as error:
            return Outcome(Verdict.FAILED, {}, str(error), str(error.hint))
        except Exception as error:  # whatever fails in one job, the others continue
            if ending.is_set():
                return None
            if isinstance(error, Py4JError | ConnectionError) and not self._rollup.is_alive():
                raise
            hint = "it runs again at its next time; Spark's own log tells more"
            return Outcome(Verdict.FAILED, {}, line_of(error), hint)

    def _end(self, run: Run, outcome: Outcome, ending: threading.Event) -> None:
        while True:
            try:
                ended = self._book.end(run, outcome)
            except OSError as error:
                self._tell(error)
                if ending.wait(_AGAIN_S):
                    return
            else:
                self._metrics.ended(ended)
                self._listeners.run(ended)
                return

    def _tell(self, error: OSError) -> None:
        self._listeners.trouble(f"the lake cannot be written, and is tried again: {error_text(error)}")
