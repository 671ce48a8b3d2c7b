"""``bus pipeline reconcile``."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, Final, NamedTuple

from bus.cli.options import Output
from bus.cli.output import print_json
from bus.cli.tables import Table
from bus.errors import BusError
from pipeline.commands.following import following
from pipeline.commands.looking import check_report, check_store, is_small, lake_with
from pipeline.commands.proving import summarized
from pipeline.commands.repairing import RepairBalance, RepairOptions, repair
from pipeline.commands.telling import ProofSummary, ReportTarget, tell_proof
from pipeline.jobs.reconcile import Plan
from pipeline.options import SessionOptions
from pipeline.reports.proof import render
from pipeline.reports.summary import HOPS, STATES, VERDICTS, Finding, Findings, Summary, sentence_of
from pipeline.schemas import BLOCKS
from pipeline.session import running

_HOPS: Final = ("hop", "buckets", *STATES, "expected", *VERDICTS)
_FINDINGS: Final = ("id", "destination", "subscription", "finding", "last_event", "store")
_NOTHING_JUDGED: Final = 3  # an exit code of its own, since nothing was proven; 2 is wrong usage
_CONTRADICTED: Final = 4
_MOST_SHOWN: Final = 1_000
_APART: Final = ("bars", "missing", "contradicted", "held")


class ReconcileOptions(NamedTuple):
    """The arguments of the command."""

    lake: str
    store: str | None
    plan: Plan
    report: Path | None
    repairing: RepairOptions | None
    telling: ReportTarget | None


@dataclass
class ProofFollowUp:
    """The results of the steps after a proof was printed.

    ``jobs`` are those that the bus took; ``failed`` has the errors of the repair and of the report, by step.
    """

    jobs: list[str] = field(default_factory=list)
    repaired: RepairBalance | None = None
    told: bool = False
    failed: dict[str, BusError] = field(default_factory=dict)

    def check(self) -> None:
        """Raise the first error."""
        for error in self.failed.values():
            raise error


def run(options: ReconcileOptions, session: SessionOptions, *, output: Output) -> int:
    """Prove, print, and repair and report when asked; return the exit code.

    It is 0 when nothing is missing or all that was is delivered, 1 when something is, 3 when nothing could be judged,
    4 when nothing is missing but events and store contradict each other.

    Raises
    ------
    ReceiverError
        The bus refused to repair, or does not answer; the proof was printed.
    JobFailed
        The report did not reach the bus.
    """
    output.tables(_HOPS, _FINDINGS)  # names of columns that there are not are refused before all else
    lake = lake_with(options.lake, BLOCKS)
    check_store(options.store, session)
    check_report(options.report)
    small = is_small(lake, options.store, options.plan)
    plan = options.plan._replace(screens=not small)
    with running("reconcile", session, options.lake, small=small) as spark, ExitStack() as proof:
        with following(spark, "proving"):
            summary = proof.enter_context(
                summarized(spark, lake, options.store, plan, charts=options.report is not None)
            )
        return _tell_of(summary, options, output)


def _tell_of(summary: Summary, options: ReconcileOptions, output: Output) -> int:
    """Write and print what was found, act on it, and return the exit code."""
    if options.report is not None:
        options.report.write_text(render(summary), "utf-8")
    tables = output.tables(_HOPS, _FINDINGS)
    after = _print_json(summary, options) if output.as_json else _print(summary, options, *tables)
    after.check()
    if _still_missing(summary, after):
        return 1
    if len(summary.contradicted):
        return _CONTRADICTED
    return _NOTHING_JUDGED if summary.verdict == "unheard" else 0


def _print(summary: Summary, options: ReconcileOptions, hops: Table, findings: Table) -> ProofFollowUp:
    """Print for people, the proof before the bus is asked."""
    lines = [_line(title, summary.hops[hop]) for hop, title in HOPS.items()]
    hops.show([dict(zip(_HOPS, line, strict=True)) for line in lines])
    for found in (summary.missing, summary.contradicted):
        if len(found):
            _show(found, findings)
    if summary.lost_blocks or summary.lost_events:
        sys.stdout.write(f"emitters lost {summary.lost_blocks} blocks and {summary.lost_events} events\n")
    sys.stdout.write(sentence_of(summary) + "\n")
    sys.stdout.flush()
    after = ProofFollowUp()
    try:
        _act(summary, options, after)
    finally:
        if after.jobs and after.repaired is None:
            sys.stderr.write(f"the bus goes on with {', '.join(after.jobs)}: reconcile again once they have ended\n")
    if after.repaired is not None:
        sys.stdout.write(after.repaired.sentence + "\n")
    if options.telling is not None and "told" not in after.failed:
        sys.stdout.write("the bus was told\n" if after.told else "the bus was told nothing\n")
    for error in list(after.failed.values())[1:]:
        sys.stderr.write(f"{error}\n")
    return after


def _show(found: Findings, table: Table) -> None:
    """Print findings: all of them for programs, as many as a person may look at on a terminal."""
    most = _MOST_SHOWN if sys.stdout.isatty() else len(found)
    table.show(dict(zip(_FINDINGS, _row(each), strict=True)) for each in islice(found, most))
    if len(found) > most:
        sys.stdout.write(f"and {len(found) - most} more: --report, --json, or send this to a file\n")


def _print_json(summary: Summary, options: ReconcileOptions) -> ProofFollowUp:
    """Print one document, in which a repair that failed or was broken off has its error."""
    proof = {"summary": sentence_of(summary), **_plain(summary)}
    found = {"missing": summary.missing, "contradicted": summary.contradicted}
    after = ProofFollowUp()
    try:
        _act(summary, options, after)
    except KeyboardInterrupt:
        broken = {"error": "it was broken off", "hint": "reconcile again once the jobs have ended", "jobs": after.jobs}
        is_broken = options.repairing is not None and after.repaired is None
        print_json({**proof, "repair": broken if is_broken else after.repaired, "told": False}, found)
        raise
    became: dict[str, Any] = {"repair": after.repaired, "told": after.told}
    for name, error in after.failed.items():
        jobs = {"jobs": after.jobs} if name == "repair" else {}
        became[name] = {"error": str(error), "hint": error.hint, **jobs}
    print_json({**proof, **became}, found)
    return after


def _act(summary: Summary, options: ReconcileOptions, after: ProofFollowUp) -> None:
    """Repair, and then report, when asked; a failure of one does not prevent the other."""
    try:
        after.repaired = _repaired(summary, options.repairing, after.jobs)
    except BusError as error:
        after.failed["repair"] = error
    try:
        after.told = _tell(summary, options, after)
    except BusError as error:
        after.failed["told"] = error


def _tell(summary: Summary, options: ReconcileOptions, after: ProofFollowUp) -> bool:
    """Report to the bus what is still missing, and return whether it did; an unjudged proof is not reported."""
    if options.telling is None or summary.verdict == "unheard":
        return False
    missing: Findings = summary.missing if _still_missing(summary, after) else []
    plan = options.plan
    found = (summary.with_store, missing, summary.contradicted)
    tell_proof(options.telling, ProofSummary(summary.checked, plan.since, plan.before, *found))
    return True


def _still_missing(summary: Summary, after: ProofFollowUp) -> bool:
    return len(summary.missing) > 0 and not (after.repaired is not None and after.repaired.is_whole)


def _repaired(summary: Summary, repairing: RepairOptions | None, jobs: list[str]) -> RepairBalance | None:
    if repairing is None:
        return None
    if not len(summary.missing) and not (repairing.reorder and len(summary.held)):
        return None
    return repair(summary, repairing, jobs)


def _plain(summary: Summary) -> dict[str, Any]:
    return {name: getattr(summary, name) for name in summary.__struct_fields__ if name not in _APART}


def _line(title: str, hop: dict[str, Any]) -> list[object]:
    states, verdicts = hop["states"], hop["verdicts"]
    return [
        title,
        hop.get("buckets", 0),
        *[states.get(state, 0) for state in STATES],
        hop.get("expected", 0),
        *[verdicts.get(verdict, 0) for verdict in VERDICTS],
    ]


def _row(each: Finding) -> list[object]:
    return [each.id, each.destination, each.subscription, each.finding, each.last_word, each.stored]
