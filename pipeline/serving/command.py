"""``bus pipeline serve``."""

from __future__ import annotations

import sys
import threading
import time
from contextlib import nullcontext
from typing import Final

import msgspec

from bus.cli.output import print_json_line
from bus.clock import SystemClock
from bus.domain.pipelines import Run
from bus.domain.times import parse_time
from pipeline.commands.rolling import line_of_batch, told_of_batch
from pipeline.ending import ended_by_signals
from pipeline.jobs.batch import Batch
from pipeline.lake.locking import alone
from pipeline.metrics import StreamMetrics, serve
from pipeline.options import SessionOptions
from pipeline.serving.listeners import Listeners
from pipeline.serving.plan import ServingPlan
from pipeline.serving.service import Service
from pipeline.session import running

_QUIET_S: Final = 600.0
"""Seconds in which the same trouble is not reported again."""


def run(plan: ServingPlan, session: SessionOptions, metrics_at: tuple[str, int] | None, *, as_json: bool) -> None:
    """Serve until a signal.

    Raises
    ------
    ConfigurationError
        Another process serves this lake, or the metrics cannot be served there.
    JobFailed
        Spark's own process ended, or the rollup may not continue. What was committed stays.
    """
    metrics = StreamMetrics()
    with (
        ended_by_signals() as asked,
        alone(plan.lake),
        serve(metrics, *metrics_at) if metrics_at is not None else nullcontext(),
        running("serve", session, plan.lake) as spark,
    ):
        service = Service(spark, plan, SystemClock(), metrics, _listeners(as_json=as_json))
        if not as_json:
            sys.stderr.write(_greeting(plan))
        service.run(asked)


def _listeners(*, as_json: bool) -> Listeners:
    """Return the listeners that print a line for each batch, run and trouble, whole, though several threads do."""
    lock, told = threading.Lock(), dict[str, float]()

    def tell(line: str, document: object) -> None:
        with lock:
            if as_json:
                print_json_line(document)
            else:
                sys.stderr.write(f"{line}\n")

    def batch(each: Batch) -> None:
        tell(line_of_batch(each), told_of_batch(each))

    def run(each: Run) -> None:
        tell(_line(each), {"run": msgspec.to_builtins(each)})

    def trouble(text: str) -> None:
        now = time.monotonic()
        if now - told.get(text, -_QUIET_S) >= _QUIET_S:
            told.clear()  # of what continues the latest is enough
            told[text] = now
            tell(text, {"trouble": text})

    return Listeners(batch, run, trouble)


def _line(run: Run) -> str:
    took = (parse_time(run.ended_at or run.began_at) - parse_time(run.began_at)) / 1000
    figures = [f"{name.replace('_', ' ')} {count}" for name, count in run.figures.items()]
    words = ", ".join([run.verdict, *figures, f"{took:.1f} s", *filter(None, (run.error, run.hint))])
    return f"{run.job} {run.number}: {words}"


def _greeting(plan: ServingPlan) -> str:
    crons = ", ".join(f"{job} {cron}" for job, cron in plan.schedule.crons.items() if cron)
    return (
        f"serving the lake {plan.lake}: rollup every {plan.set.every:g} s; {crons or 'no job by the clock'} "
        f"({plan.set.timezone}); see {plan.telling.url}/admin/pipeline\n"
    )
