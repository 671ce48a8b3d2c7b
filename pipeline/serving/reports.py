"""A proof as the bus shows it to people."""

from __future__ import annotations

from itertools import chain, islice
from typing import Any

from bus.domain.pipelines import (
    MOST_BARS,
    MOST_FOUND,
    MOST_GAPS,
    MOST_NAME,
    Bar,
    Gap,
    Hop,
    MissingDelivery,
    ProofReport,
    Verdict,
)
from bus.domain.times import format_time
from pipeline.jobs.reconcile import Plan
from pipeline.reports import summary as proofs
from pipeline.reports.summary import Findings, Summary


def report_of(summary: Summary, plan: Plan, run: int) -> ProofReport:
    """Return the report of a proof: all sums, and the first findings."""
    return ProofReport(
        run=run,
        verdict=Verdict(summary.verdict),
        checked=summary.checked,
        watermark=summary.watermark,
        since=_text(plan.since),
        before=_text(plan.before),
        with_store=summary.with_store,
        emitters=summary.emitters,
        on_their_way=figures_of(summary)["on_their_way"],
        missing=len(summary.missing),
        contradicted=len(summary.contradicted),
        unaccepted=summary.unaccepted,
        lost_blocks=summary.lost_blocks,
        lost_events=summary.lost_events,
        hops=tuple(_hop(name, summary.hops[name]) for name in proofs.HOPS),
        found=tuple(chain(_first(summary.missing), _first(summary.contradicted))),
        gaps=tuple(_gap(each) for each in summary.gaps[:MOST_GAPS]),
        bars=tuple(map(_bar, summary.bars[-MOST_BARS:])),
    )


def figures_of(summary: Summary) -> dict[str, int]:
    """Return the sums of a proof that a list of runs shows."""
    deliver = summary.hops.get("deliver", {})
    return {
        "expected": deliver.get("expected", 0),
        "on_their_way": deliver.get("under_way", 0) + deliver.get("held", 0),
        "missing": len(summary.missing),
        "contradicted": len(summary.contradicted),
    }


def _first(found: Findings) -> list[MissingDelivery]:
    return [_found(each) for each in islice(found, MOST_FOUND)] if len(found) else []


def _found(each: proofs.Finding) -> MissingDelivery:
    return MissingDelivery(
        id=each.id,
        destination=each.destination,
        subscription=each.subscription,
        hop=each.hop,
        finding=each.finding,
        state=each.state,
        last_event=each.last_word[:MOST_NAME] if each.last_stage else "",
        stored=each.stored[:MOST_NAME] if each.store_status else "",
    )


def _gap(each: proofs.Gap) -> Gap:
    return Gap(
        emitter=each.emitter[:MOST_NAME],
        node=each.node[:MOST_NAME],
        after=each.after,
        until=each.until,
        blocks=each.blocks,
        events=each.lost,
    )


def _bar(each: proofs.Bar) -> Bar:
    return Bar(start=each.start, states=each.states, missing=each.missing)


def _hop(name: str, hop: dict[str, Any]) -> Hop:
    return Hop(
        hop=name,
        buckets=hop.get("buckets", 0),
        expected=hop.get("expected", 0),
        states=hop["states"],
        verdicts=hop["verdicts"],
    )


def _text(time: Any) -> str | None:
    return format_time(round(time.timestamp() * 1000)) if time is not None else None
