"""Responses with the findings of the pipeline."""

from __future__ import annotations

from admin.models.responses.base import View


class DeviationView(View, kw_only=True):
    """A metric that was outside of its norm in the hour that began at ``since``; null for no limit."""

    destination: str
    subscription: str
    metric: str
    since: str
    value: float
    norm: float
    low: float | None
    high: float | None


class NormsView(View, kw_only=True):
    """The first of ``count`` metrics outside of their norms up to ``until``; who reported them, and when.

    After three hours without a new report they are treated as over.
    """

    until: str
    told_at: str
    by: str
    count: int
    items: list[DeviationView]


class ShortfallView(View, kw_only=True):
    """Counts of missing and contradicted deliveries of a subscription; ``since`` and ``until`` are of their ids."""

    destination: str
    subscription: str
    missing: int
    contradicted: int
    since: str
    until: str


class ProofView(View, kw_only=True):
    """Findings of proofs: of the last one for its range, and of earlier ones for messages outside of that range."""

    checked: str
    since: str | None
    before: str | None
    with_store: bool
    told_at: str
    by: str
    missing: int
    contradicted: int
    items: list[ShortfallView]


class FindingsView(View, kw_only=True):
    """The last reported findings; null for those that were never reported."""

    norms: NormsView | None
    proof: ProofView | None
