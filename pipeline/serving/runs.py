"""The runs of a lake: what waits, what runs, how the last ones ended; kept in the lake, so that a kill loses none."""

from __future__ import annotations

import datetime as dt
import threading
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from bus.domain.pipelines import MOST_RUNS, MOST_TEXT, Job, Run, Verdict
from bus.domain.times import format_time, parse_time
from bus.ports.clock import Clock
from pipeline.errors import JobFailed
from pipeline.lake.storage import Storage

PATH: Final = "_serving/runs.json"
_MOST_OF_A_JOB: Final = MOST_RUNS // len(Job)


class QueuedRun(msgspec.Struct, frozen=True, kw_only=True):
    """A job that is to run: who wanted it, empty for the clock; ``goes_on`` for one that a kill broke."""

    job: Job
    by: str = ""
    wish: str = ""
    goes_on: bool = False


class Outcome(msgspec.Struct, frozen=True):
    """The end of a run."""

    verdict: Verdict
    figures: dict[str, int] = {}
    error: str = ""
    hint: str = ""


class _RunsDocument(msgspec.Struct, frozen=True, kw_only=True):
    """The document; ``runs`` are by number, and ``goes_on`` is whether the last one was broken by a kill before."""

    last: int = 0
    runs: tuple[Run, ...] = ()
    waiting: tuple[QueuedRun, ...] = ()
    goes_on: bool = False


class RunBook:
    """The queued and past runs; a change is durable when its method returns, and not made where it raises ``OSError``.

    Threads may share one. A run that an earlier process did not end is ``broken``, and waits to continue: once, since
    it may be what ended the process.

    Raises
    ------
    JobFailed
        The document cannot be read.
    """

    def __init__(self, storage: Storage, clock: Clock) -> None:
        self._storage = storage
        self._clock = clock
        self._lock = threading.Lock()
        self._kept = self._read()
        self._break_off(goes_on=True)

    def runs(self) -> tuple[Run, ...]:
        """Return the latest of each job, those that began last first."""
        return self._kept.runs[::-1]

    def waiting(self) -> tuple[QueuedRun, ...]:
        """Return the runs that wait, in their order."""
        return self._kept.waiting

    def last(self, job: Job) -> dt.datetime | None:
        """Return the time at which a job began last; None when it never did."""
        began = [parse_time(run.began_at) for run in self._kept.runs if run.job is job]
        return dt.datetime.fromtimestamp(max(began) / 1000, dt.UTC) if began else None

    def want(self, wanted: QueuedRun) -> None:
        """Have a job run once after the jobs before it; it waits once, and a person's request precedes the clock's."""
        with self._lock:
            waiting = {each.job: each for each in self._kept.waiting}
            if wanted.job not in waiting or wanted.wish:
                self._put(waiting=tuple((waiting | {wanted.job: wanted}).values()))

    def begin(self) -> Run | None:
        """Begin what waits first; None when nothing does."""
        with self._lock:
            if not self._kept.waiting:
                return None
            first, *rest = self._kept.waiting
            number = self._kept.last + 1
            run = Run(number=number, job=first.job, by=first.by, wish=first.wish, began_at=self._now())
            runs = _latest([*self._kept.runs, run])
            self._put(last=number, runs=runs, waiting=tuple(rest), goes_on=first.goes_on)
        return run

    def end(self, run: Run, outcome: Outcome) -> Run:
        """End a run, and return it as it is kept."""
        outcome = msgspec.structs.replace(outcome, error=outcome.error[:MOST_TEXT], hint=outcome.hint[:MOST_TEXT])
        ended = msgspec.structs.replace(run, ended_at=self._now(), **msgspec.structs.asdict(outcome))
        with self._lock:
            self._put(runs=tuple(ended if each.number == run.number else each for each in self._kept.runs))
        return ended

    def put_off(self) -> None:
        """Have what runs wait again, for this process ends in an orderly way before it has ended."""
        with self._lock:
            self._break_off(goes_on=False)

    def _break_off(self, *, goes_on: bool) -> None:
        kept = self._kept
        left = [run for run in kept.runs if run.verdict is Verdict.RUNNING]
        if not left:
            return
        broken = {run.number: msgspec.structs.replace(run, verdict=Verdict.BROKEN) for run in left}
        waiting = {each.job for each in kept.waiting}
        is_twice = goes_on and kept.goes_on
        again = [] if is_twice else [QueuedRun(job=run.job, by=run.by, goes_on=goes_on) for run in left]
        self._put(
            runs=tuple(broken.get(run.number, run) for run in kept.runs),
            waiting=(*(each for each in again if each.job not in waiting), *kept.waiting),
        )

    def _now(self) -> str:
        return format_time(self._clock.now())

    def _read(self) -> _RunsDocument:
        try:
            return msgspec.json.decode(self._storage.read(PATH), type=_RunsDocument)
        except FileNotFoundError:
            return _RunsDocument()
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise JobFailed(
                f"{self._storage.url(PATH)} cannot be read: {error}; the tables of the lake are as they were",
                hint="remove this file: it has only which jobs ran and which wait",
            ) from error

    def _put(self, **changes: Any) -> None:
        kept = msgspec.structs.replace(self._kept, **changes)
        self._storage.write(PATH, msgspec.json.encode(kept))
        self._kept = kept


def _latest(runs: Sequence[Run]) -> tuple[Run, ...]:
    """Return the latest of each job, by number."""
    kept = [run for job in Job for run in [each for each in runs if each.job is job][-_MOST_OF_A_JOB:]]
    return tuple(sorted(kept, key=lambda run: run.number))
