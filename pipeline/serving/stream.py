"""The rollup in a session that stays: started again, after a pause, when it stopped."""

from __future__ import annotations

import random
import threading
from typing import Any, Final

import msgspec
from py4j.protocol import Py4JError
from pyspark.sql import DataFrame, SparkSession

from bus.domain.pipelines import MOST_TEXT, StreamState
from bus.domain.times import format_time
from bus.transports.backoff import Backoff
from pipeline.commands.rolling import hint_of
from pipeline.errors import JobFailed, line_of
from pipeline.jobs.batch import Batch
from pipeline.jobs.rollup import Plan, Stream, start
from pipeline.lake.batches import ROLLUP_LINE
from pipeline.lake.lake import Lake
from pipeline.lake.storage import Storage
from pipeline.metrics import StreamMetrics
from pipeline.schemas import EVENTS
from pipeline.serving.listeners import Listeners
from pipeline.serving.plan import Kafka, ServingPlan
from pipeline.sources.lines import from_files, from_kafka
from pipeline.watching import BatchProgress

_FIRST_S: Final = 5.0
_LONGEST_S: Final = 300.0


class Rollup:
    """The stream of a pipeline."""

    def __init__(self, session: SparkSession, plan: ServingPlan, metrics: StreamMetrics, listeners: Listeners) -> None:
        self._lock = threading.Lock()
        self._state = StreamState(committed_at=_last_commit(plan.lake))
        self._spark = session
        self._plan = plan
        self._metrics = metrics
        self._listeners = listeners
        self._stream: Stream | None = None
        self._pause = Backoff(_FIRST_S, _LONGEST_S, random.random)

    @property
    def state(self) -> StreamState:
        """The state of the stream; any thread may read it."""
        if self.is_idle(_LONGEST_S):  # it continues, though there is nothing to commit
            self._pause.succeed()
            self._change(error="", hint="")
        return self._state

    def run(self, asked: threading.Event) -> None:
        """Keep the stream going until ``asked`` is set, and then end it between two batches.

        Raises
        ------
        JobFailed
            As ``Stream.wait`` does, where going on would leave something out.
        Exception
            Spark's own process, or its context, has ended.
        """
        while not asked.is_set():
            try:
                self._stream = self._start()
                self._stream.wait(asked)
            except JobFailed:
                raise
            except Exception as error:  # whatever stopped it may be mended meanwhile
                if asked.is_set() or not self.is_alive():
                    raise
                self._stream = None
                self._stopped(error)
                asked.wait(self._pause.fail())

    def is_idle(self, within: float) -> bool:
        """Whether it had read all that there is to read, in the last so many seconds."""
        stream = self._stream
        return stream is not None and stream.is_idle(within)

    def is_alive(self) -> bool:
        """Whether Spark is there: without its own process and its context nothing can continue."""
        try:
            return not self._spark.sparkContext._jsc.sc().isStopped()  # noqa: SLF001 - it has no public way
        except (Py4JError, OSError):
            return False

    def _start(self) -> Stream:
        lake = Lake(Storage(self._plan.lake))
        plan = Plan(self._plan.checkpoint, self._plan.set.every)
        return start(self._spark, lake, self._lines(), plan, done=self._done, progressed=self._progressed)

    def _lines(self) -> DataFrame:
        events = self._plan.events
        if isinstance(events, Kafka):
            return from_kafka(self._spark, events.bootstrap, events.topic)
        return from_files(self._spark, events)

    def _done(self, batch: Batch) -> None:
        self._metrics.committed(batch)
        self._pause.succeed()
        fresh = batch.freshness
        ages = {"freshness_p50": fresh.p50, "freshness_p95": fresh.p95} if fresh is not None else {}
        batches, events = self._state.batches + 1, self._state.events + batch.read.rows(EVENTS.name)
        published = format_time(batch.rolled.published)
        self._change(batches=batches, events=events, committed_at=published, error="", hint="", **ages)
        self._listeners.batch(batch)

    def _progressed(self, progress: BatchProgress) -> None:
        self._metrics.progressed(progress)
        self._change(lag=progress.lag)

    def _stopped(self, error: Exception) -> None:
        cause = line_of(error.__cause__ if isinstance(error.__cause__, Exception) else error)
        self._change(error=cause[:MOST_TEXT], hint=hint_of(cause))
        self._listeners.trouble(f"the rollup stopped, and is started again: {cause}")

    def _change(self, **fields: Any) -> None:
        """Change fields of the state, which Spark's threads and that of the stream do."""
        with self._lock:
            self._state = msgspec.structs.replace(self._state, **fields)


def _last_commit(root: str) -> str | None:
    """Return the time at which rollups of a lake were last published; None for never."""
    published = [each.published for each in Lake(Storage(root)).manifests(ROLLUP_LINE)]
    return format_time(max(published)) if published else None
