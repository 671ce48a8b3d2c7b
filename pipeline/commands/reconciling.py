"""``bus pipeline reconcile``."""

from __future__ import annotations

import datetime as dt
import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F

from bus.cli.options import Output
from bus.cli.output import print_json
from bus.cli.tables import Table
from bus.errors import BusError
from pipeline.commands.following import following
from pipeline.commands.looking import check_report, check_store, is_small, lake_with
from pipeline.commands.repairing import Repaired, Repairing, repair
from pipeline.commands.telling import Proven, Telling, tell_proof
from pipeline.jobs import archive
from pipeline.jobs.reconcile import Plan, Proof, contradicted, missing, reconciled, totals
from pipeline.lake.lake import Lake
from pipeline.options import ConnectedOptions
from pipeline.reports.proof import render
from pipeline.reports.summary import HOPS, STATES, VERDICTS, Bar, Finding, Gap, Summary, sentence_of, verdict_of
from pipeline.schemas import BLOCKS, EVENTS, MESSAGES
from pipeline.session import running
from pipeline.sources.configuration import configured, read_catalog
from pipeline.sources.due import read_due
from pipeline.sources.store import read_messages
from pipeline.transforms.deliveries import deliveries_of
from pipeline.transforms.ledgers import DELIVER
from pipeline.transforms.stored import Store

_HOPS: Final = ("hop", "buckets", *STATES, "expected", *VERDICTS)
_FINDINGS: Final = ("id", "destination", "subscription", "finding", "last_event", "store")
_NOTHING_JUDGED: Final = 3  # an exit code of its own, since nothing was proven; 2 is wrong usage
_CONTRADICTED: Final = 4
_MOST_BARS: Final = 240
_GRAINS: Final = {"minute": 60, "hour": 3600}


class ReconcileOptions(NamedTuple):
    """What the command was given."""

    lake: str
    store: str | None
    plan: Plan
    report: Path | None
    repairing: Repairing | None
    telling: Telling | None


@dataclass
class Aftermath:
    """What became of a proof that was printed.

    ``jobs`` are those that the bus took; ``failed`` has the errors of the repair and of the telling, by what failed.
    """

    jobs: list[str] = field(default_factory=list)
    repaired: Repaired | None = None
    told: bool = False
    failed: dict[str, BusError] = field(default_factory=dict)

    def check(self) -> None:
        """Raise the first error."""
        for error in self.failed.values():
            raise error


def run(options: ReconcileOptions, session: ConnectedOptions, *, output: Output) -> int:
    """Prove, print, and repair and tell when asked; return the exit code.

    It is 0 when nothing is missing or all that was is delivered, 1 when something is, 3 when nothing could be judged,
    4 when nothing is missing but events and store contradict each other.

    Raises
    ------
    ReceiverError
        The bus refused to repair, or does not answer; the proof was printed.
    JobFailed
        The bus was not told.
    """
    tables = output.tables(_HOPS, _FINDINGS)
    lake = lake_with(options.lake, BLOCKS)
    check_store(options.store, session)
    check_report(options.report)
    small = is_small(lake, EVENTS, since=options.plan.since)
    plan = options.plan._replace(screens=not small)
    with running("reconcile", session, small=small) as spark, following(spark, "proving"):
        summary = _summary(spark, lake, options._replace(plan=plan))
    if options.report is not None:
        options.report.write_text(render(summary), "utf-8")
    after = _print_json(summary, options) if output.as_json else _print(summary, options, *tables)
    after.check()
    if _still_missing(summary, after):
        return 1
    if summary.contradicted:
        return _CONTRADICTED
    return _NOTHING_JUDGED if summary.verdict == "unheard" else 0


def _summary(spark: SparkSession, lake: Lake, options: ReconcileOptions) -> Summary:
    plan = options.plan
    store = store_of(spark, lake, options.store, plan) if options.store is not None else None
    with reconciled(spark, lake, plan, store) as proof:
        rows, lost = totals(proof), [_finding(row) for row in missing(proof).collect()]
        against = [_finding(row) for row in contradicted(proof).collect()]
        bars = _bars(proof, rows) if options.report is not None else []
        gaps = [_gap(row) for row in proof.gaps]
    judged = any(row["state"] != "open" for row in rows)
    return Summary(
        verdict_of(lost, against, judged=judged),
        _text(plan.now) or "",
        _text(proof.watermark),
        store is not None,
        proof.emitters,
        proof.news,
        {hop: _hop(hop, rows) for hop in HOPS},
        gaps,
        lost,
        against,
        bars,
    )


def store_of(spark: SparkSession, lake: Lake, address: str, plan: Plan) -> Store:
    """Return the store as a witness, with what ``archive`` took from it into the lake.

    Raises
    ------
    ConfigurationError
        The address is impossible, or there is no store.
    StoreUnavailable
        The store does not answer.
    """
    catalog, due = read_catalog(address), read_due(spark, address)
    kept = read_messages(spark, address, since=plan.since, before=plan.before)
    archived = lake.read(spark, MESSAGES, line=archive.LINE, since=plan.since, before=plan.before)
    deliveries = [
        deliveries_of(messages).withColumn("archived", F.lit(is_archived))
        for messages, is_archived in ((kept, False), (archived, True))
    ]
    return Store(deliveries[0].unionByName(deliveries[1]), due, *configured(spark, catalog))


def _hop(hop: str, every: list[Row]) -> dict[str, Any]:
    """Add up one hop's rows; deliveries whose announcing event was lost count as expected too."""
    rows = [row for row in every if row["hop"] == hop]
    states: Counter[str] = Counter()
    verdicts: Counter[str] = Counter()
    sums: Counter[str] = Counter()
    for row in rows:
        values = row.asDict()
        states[values["state"]] += values["buckets"]
        verdicts[values["verdict"]] += values["buckets"]
        sums.update({name: value for name, value in values.items() if isinstance(value, int)})
    if hop == DELIVER:
        sums["expected"] += sums["unannounced"]
    return {"states": dict(states), "verdicts": dict(verdicts), **sums}


def _bars(proof: Proof, rows: list[Row]) -> list[Bar]:
    """Return buckets over time, in minutes, hours or days, so that a chart can show them."""
    if not rows:
        return []
    seconds = (max(row["last"] for row in rows) - min(row["first"] for row in rows)).total_seconds()
    grain = next((name for name, long in _GRAINS.items() if seconds / long < _MOST_BARS), "day")
    counts = [F.sum(F.when(F.col("state") == state, 1).otherwise(0)).alias(state) for state in STATES]
    start = F.date_trunc(grain, "minute").alias("start")
    grouped = proof.buckets.groupBy(start).agg(*counts, F.sum("missing").alias("missing"))
    return [
        Bar(_text(row["start"]) or "", {name: row[name] for name in STATES}, row["missing"])
        for row in grouped.orderBy("start").collect()
    ]


def _finding(row: Row) -> Finding:
    values: dict[str, Any] = {
        name: _text(value) if isinstance(value, dt.datetime) else value for name, value in row.asDict().items()
    }
    return Finding(**{name: values[name] for name in Finding.__struct_fields__})


def _gap(row: Row) -> Gap:
    return Gap(row["emitter"], row["node"], _text(row["after"]), _text(row["until"]) or "", row["blocks"], row["lost"])


def _text(time: dt.datetime | None) -> str | None:
    if time is None:
        return None
    return time.astimezone(dt.UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _print(summary: Summary, options: ReconcileOptions, hops: Table, findings: Table) -> Aftermath:
    """Print for people, the proof before the bus is asked."""
    lines = [_line(title, summary.hops[hop]) for hop, title in HOPS.items()]
    hops.show([dict(zip(_HOPS, line, strict=True)) for line in lines])
    for found in (summary.missing, summary.contradicted):
        if found:
            findings.show([dict(zip(_FINDINGS, _row(each), strict=True)) for each in found])
    if summary.gaps:
        sys.stdout.write(f"emitters lost {summary.lost_blocks} blocks and {summary.lost_events} events\n")
    sys.stdout.write(sentence_of(summary) + "\n")
    sys.stdout.flush()
    after = Aftermath()
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


def _print_json(summary: Summary, options: ReconcileOptions) -> Aftermath:
    """Print one document, in which a repair that failed or was broken off has its error."""
    more = {"lost_blocks": summary.lost_blocks, "lost_events": summary.lost_events}
    proof = {"summary": sentence_of(summary), **_plain(summary), **more}
    after = Aftermath()
    try:
        _act(summary, options, after)
    except KeyboardInterrupt:
        broken = {"error": "it was broken off", "hint": "reconcile again once the jobs have ended", "jobs": after.jobs}
        is_broken = options.repairing is not None and after.repaired is None
        print_json({**proof, "repair": broken if is_broken else after.repaired, "told": False})
        raise
    became: dict[str, Any] = {"repair": after.repaired, "told": after.told}
    for name, error in after.failed.items():
        jobs = {"jobs": after.jobs} if name == "repair" else {}
        became[name] = {"error": str(error), "hint": error.hint, **jobs}
    print_json({**proof, **became})
    return after


def _act(summary: Summary, options: ReconcileOptions, after: Aftermath) -> None:
    """Repair, and then tell, when asked: that one fails does not keep the other from being done."""
    try:
        after.repaired = _repaired(summary, options.repairing, after.jobs)
    except BusError as error:
        after.failed["repair"] = error
    try:
        after.told = _tell(summary, options, after)
    except BusError as error:
        after.failed["told"] = error


def _tell(summary: Summary, options: ReconcileOptions, after: Aftermath) -> bool:
    """Tell the bus what is still missing, and return whether it was told: never of what nobody could judge."""
    if options.telling is None or summary.verdict == "unheard":
        return False
    missing = summary.missing if _still_missing(summary, after) else []
    plan = options.plan
    found = (summary.with_store, missing, summary.contradicted)
    tell_proof(options.telling, Proven(summary.checked, plan.since, plan.before, *found))
    return True


def _still_missing(summary: Summary, after: Aftermath) -> bool:
    return bool(summary.missing) and not (after.repaired is not None and after.repaired.is_whole)


def _repaired(summary: Summary, repairing: Repairing | None, jobs: list[str]) -> Repaired | None:
    return repair(summary.missing, repairing, jobs) if repairing is not None and summary.missing else None


def _plain(summary: Summary) -> dict[str, Any]:
    return {name: getattr(summary, name) for name in summary.__struct_fields__ if name != "bars"}


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
