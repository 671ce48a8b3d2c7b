"""The jobs of a running pipeline; each may be killed at any time, and is run again."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from typing import Final

import msgspec
from pyspark.sql import SparkSession

from bus.domain.pipelines import Job, Run, Verdict
from bus.domain.times import format_time
from bus.errors import BusError
from bus.ports.clock import Clock
from pipeline.commands.archiving import ArchiveOptions, archive, check_readable
from pipeline.commands.compacting import failure_of, freed_of, told_of
from pipeline.commands.looking import is_small
from pipeline.commands.proving import summarized
from pipeline.commands.telling import ProofSummary, put, tell_norms, tell_proof
from pipeline.commands.values import plan_of
from pipeline.errors import JobFailed
from pipeline.jobs import baseline
from pipeline.jobs.compact import due, join_all
from pipeline.jobs.judge import judge, looked_at
from pipeline.jobs.reconcile import Plan
from pipeline.lake.batches import READ_LINE
from pipeline.lake.lake import Lake
from pipeline.lake.storage import Storage
from pipeline.reports.summary import Summary
from pipeline.schemas import BLOCKS, THRESHOLDS
from pipeline.serving.plan import ServingPlan
from pipeline.serving.reports import figures_of, report_of
from pipeline.serving.runs import Outcome
from pipeline.serving.stream import Rollup
from pipeline.session import small_run

REPORT: Final = "/api/v1/pipeline/proof"
_POOL: Final = "jobs"


class Jobs:
    """The jobs on one lake; ``session`` is that of the rollup, beside which they run in one of their own."""

    def __init__(self, session: SparkSession, plan: ServingPlan, rollup: Rollup, clock: Clock) -> None:
        self._spark = session.newSession()
        self._rollup = rollup
        self._plan = plan
        self._clock = clock
        self._lake = Lake(Storage(plan.lake))
        self._jobs: Mapping[Job, Callable[[Run], Outcome]] = {
            Job.RECONCILE: self._reconcile,
            Job.JUDGE: self._judge,
            Job.COMPACT: self._compact,
            Job.BASELINE: self._baseline,
            Job.ARCHIVE: self._archive,
        }

    def run(self, run: Run) -> Outcome:
        """Run a job in this thread, and return how it ended; raises what the job of the command line raises."""
        self._spark.sparkContext.setLocalProperty("spark.scheduler.pool", _POOL)
        return self._jobs[run.job](run)

    def _reconcile(self, run: Run) -> Outcome:
        if not self._lake.files(BLOCKS, line=READ_LINE):
            return Outcome(Verdict.NOTHING)
        plan = self._proof_plan()
        small = is_small(self._lake, self._plan.store, plan)
        with (
            small_run(self._spark) if small else nullcontext(),
            summarized(
                self._spark, self._lake, self._plan.store, plan._replace(screens=not small), charts=True
            ) as summary,
        ):
            outcome = Outcome(Verdict(summary.verdict), figures_of(summary))
            return _told(outcome, lambda: self._tell_proof(summary, plan, run.number))

    def _proof_plan(self) -> Plan:
        # An idle bus emits nothing, so no block shows up to when events were read; the idle rollup shows it instead.
        # What was still on its way when it looked, at most half of the allowance ago, is too young to be judged.
        table = self._plan.set
        complete = self._rollup.is_idle(self._plan.milliseconds("reconcile_allowance") / 2000)
        since = format_time(self._clock.now() - self._plan.milliseconds("reconcile_range"))
        return plan_of(since, None, table.reconcile_allowance, table.reconcile_horizon, complete=complete)

    def _tell_proof(self, summary: Summary, plan: Plan, number: int) -> None:
        telling = self._plan.telling
        if summary.verdict != Verdict.UNHEARD:  # first: alarms are made of it
            found = (summary.with_store, summary.missing, summary.contradicted)
            tell_proof(telling, ProofSummary(summary.checked, plan.since, plan.before, *found))
        put(telling, REPORT, report_of(summary, plan, number))

    def _judge(self, _: Run) -> Outcome:
        found = looked_at(self._lake, dt.datetime.fromtimestamp(self._clock.now() / 1000, dt.UTC))
        if found.until is None or found.why:
            return Outcome(Verdict.NOTHING)
        with small_run(self._spark):
            found = judge(self._spark, self._lake, until := found.until)
        if found.why:
            return Outcome(Verdict.NOTHING)
        figures = {"metrics": found.metrics, "out": len(found.deviations)}
        outcome = Outcome(Verdict.OUT if found.deviations else Verdict.WITHIN, figures)
        return _told(outcome, lambda: tell_norms(self._plan.telling, until, found.deviations))

    def _compact(self, _: Run) -> Outcome:
        now = self._clock.now()
        groups = due(self._lake, now - self._plan.milliseconds("compact_after"))
        done, left = join_all(self._lake, groups)
        freed = freed_of(self._lake, now, self._plan.milliseconds("compact_vacuum"))
        told = told_of(done)
        figures = {
            "commits": told["commits"],
            "batches": told["batches"],
            "removed": sum(each["files"] for each in freed.values()),
        }
        if left:
            error = failure_of(left)
            return Outcome(Verdict.FAILED, figures, str(error), str(error.hint))
        return Outcome(Verdict.DONE, figures)

    def _baseline(self, _: Run) -> Outcome:
        before = baseline.last_hour(self._lake)
        span = baseline.Span(before, self._plan.set.baseline_weeks) if before is not None else None
        if span is None or not baseline.may_have_hours(self._lake, span):
            return Outcome(Verdict.NOTHING)
        hours = baseline.history(self._spark, self._lake, span).persist()
        try:
            baseline.publish(self._lake, hours, span, self._clock.now())
        finally:
            hours.unpersist()
        norms = sum(file.rows for file in self._lake.files(THRESHOLDS, line=baseline.LINE))
        return Outcome(Verdict.DONE, {"norms": norms})

    def _archive(self, _: Run) -> Outcome:
        plan = self._plan
        options = ArchiveOptions(plan.store, plan.lake, plan.set.archive_days, plan.telling.url, plan.telling.api_key)
        found = archive(self._spark, options)
        check_readable(found)
        states = Counter(each.state for each in found)
        messages = sum(each.messages for each in found if each.state == "dropped")
        figures = {"messages": messages, **{f"{state}_days": count for state, count in sorted(states.items())}}
        return Outcome(Verdict.DONE if found else Verdict.NOTHING, figures)


def _told(outcome: Outcome, tell: Callable[[], None]) -> Outcome:
    """Report to the bus; if it does not take the report, the outcome says so, and the next run reports anew."""
    try:
        tell()
    except JobFailed as error:
        cause = error.__cause__.hint if isinstance(error.__cause__, BusError) else ""
        hint = "; ".join(filter(None, (str(cause), "the next run tells it anew")))
        return msgspec.structs.replace(outcome, error=str(error), hint=hint)
    return outcome
