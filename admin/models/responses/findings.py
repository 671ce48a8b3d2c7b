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
    """What is outside of its norms up to ``until``, the first of ``count``; who told it, and when.

    After three hours without news it is taken to be over.
    """

    until: str
    told_at: str
    by: str
    count: int
    items: list[DeviationView]


class ShortfallView(View, kw_only=True):
    """How many deliveries of a subscription are missing, or contradicted; ``since`` and ``until`` are of their ids."""

    destination: str
    subscription: str
    missing: int
    contradicted: int
    since: str
    until: str


class ProofView(View, kw_only=True):
    """What proofs found: the last one, of the range that it names, and those before it of what it does not cover."""

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
    """What was told last; null for what nobody told."""

    norms: NormsView | None
    proof: ProofView | None
