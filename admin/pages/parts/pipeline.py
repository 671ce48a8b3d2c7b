"""Texts for jobs of the pipeline: their names, how they ended, their results."""

from __future__ import annotations

from typing import Final

from admin.pages.parts.figures import count
from admin.pages.parts.states import StateStyle
from admin.pages.parts.tables import Cell, badge
from admin.pages.parts.times import took
from admin.pages.viewer import Viewer
from bus.domain.pipelines import Job, Run, Verdict
from bus.domain.times import parse_time
from bus.localized_text import N_

JOBS: Final = {
    Job.RECONCILE: N_("Prove that nothing is lost"),
    Job.JUDGE: N_("Judge the last hours by their norms"),
    Job.COMPACT: N_("Put small files together"),
    Job.BASELINE: N_("Learn what is usual"),
    Job.ARCHIVE: N_("Archive old messages"),
}
VERDICTS: Final = {
    Verdict.RUNNING: StateStyle(N_("at work"), "warn", "autorenew"),
    Verdict.PROVEN: StateStyle(N_("proven"), "good", "verified"),
    Verdict.EXPLAINED: StateStyle(N_("accounted for, partly by the store alone"), "good", "verified"),
    Verdict.UNSETTLED: StateStyle(N_("not everything can be judged"), "warn", "pending"),
    Verdict.MISSING: StateStyle(N_("deliveries are missing"), "bad", "error"),
    Verdict.CONTRADICTED: StateStyle(N_("the store contradicts events"), "bad", "error"),
    Verdict.UNHEARD: StateStyle(N_("nothing to judge yet"), "wait", "schedule"),
    Verdict.WITHIN: StateStyle(N_("within the norms"), "good", "check_circle"),
    Verdict.OUT: StateStyle(N_("outside of the norms"), "bad", "error"),
    Verdict.DONE: StateStyle(N_("finished"), "good", "check_circle"),
    Verdict.NOTHING: StateStyle(N_("nothing to do"), "wait", "remove_circle_outline"),
    Verdict.FAILED: StateStyle(N_("failed"), "bad", "cancel"),
    Verdict.BROKEN: StateStyle(N_("broken off"), "warn", "power_off"),
}
_FIGURES: Final = {
    "expected": N_("{count} expected"),
    "on_their_way": N_("{count} on their way"),
    "missing": N_("{count} missing"),
    "contradicted": N_("{count} contradicted"),
    "metrics": N_("{count} metrics"),
    "out": N_("{count} out"),
    "batches": N_("{count} batches"),
    "commits": N_("to {count} commits"),
    "removed": N_("{count} old files removed"),
    "norms": N_("{count} norms"),
    "messages": N_("{count} messages moved"),
    "dropped_days": N_("{count} days moved"),
    "archived_days": N_("{count} days kept in the store"),
    "unfinished_days": N_("{count} days unfinished"),
    "changed_days": N_("{count} days changed meanwhile"),
    "empty_days": N_("{count} days empty"),
}
_ALWAYS: Final = ("expected", "missing", "metrics", "norms")


def verdict(viewer: Viewer, run: Run) -> Cell:
    """Return a cell with how a run ended."""
    look = VERDICTS[run.verdict]
    return badge(viewer.t(look.text), look.tone, look.icon)


def did(viewer: Viewer, run: Run) -> str:
    """Return the result of a run, and why it failed."""
    known = [(name, run.figures[name]) for name in _FIGURES if name in run.figures]
    shown = [viewer.t(_FIGURES[name], count=count(value)) for name, value in known if value or name in _ALWAYS]
    return " · ".join(filter(None, [*shown, run.error, run.hint]))


def lasted(run: Run) -> str:
    """Return how long a run took; a dash for one that has not ended."""
    return took(parse_time(run.ended_at) - parse_time(run.began_at)) if run.ended_at else "–"
