"""Findings of the pipeline, as the API returns them."""

from __future__ import annotations

import msgspec

from admin.models.responses.findings import DeviationView, FindingsView, NormsView, ProofView, ShortfallView
from bus.domain.health.findings import Deviations, Findings, Proof
from bus.domain.times import format_time


def findings_view(found: Findings) -> FindingsView:
    """Return all reported findings."""
    return FindingsView(
        norms=norms_view(found.norms) if found.norms.told_at else None,
        proof=proof_view(found.proof) if found.proof.told_at else None,
    )


def norms_view(told: Deviations) -> NormsView:
    """Return the metrics outside of their norms."""
    return NormsView(
        until=format_time(told.until),
        told_at=format_time(told.told_at),
        by=told.by,
        count=told.count,
        items=[DeviationView(**{**msgspec.structs.asdict(one), "since": format_time(one.since)}) for one in told.items],
    )


def proof_view(told: Proof) -> ProofView:
    """Return what proofs found."""
    return ProofView(
        checked=format_time(told.checked),
        since=format_time(told.since) if told.since is not None else None,
        before=format_time(told.before) if told.before is not None else None,
        with_store=told.with_store,
        told_at=format_time(told.told_at),
        by=told.by,
        missing=told.missing,
        contradicted=told.contradicted,
        items=[
            ShortfallView(
                destination=one.destination,
                subscription=one.subscription,
                missing=one.missing,
                contradicted=one.contradicted,
                since=format_time(one.since),
                until=format_time(one.until),
            )
            for one in told.items
        ],
    )
