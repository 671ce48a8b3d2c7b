"""A pipeline that stays, as the API shows it."""

from __future__ import annotations

from admin.models.responses.base import View
from bus.domain.pipelines import Pipeline, ProofReport, RunRequest


class WishesView(View, kw_only=True):
    """What people want of a pipeline and it has not taken yet."""

    wishes: list[RunRequest]


class PipelineView(View, kw_only=True):
    """A pipeline as it told of itself last, and what people want of it; null where none ever told.

    ``heard`` is whether it told of itself in the last half minute.
    """

    told_at: str | None
    by: str
    heard: bool
    pipeline: Pipeline | None
    wishes: list[RunRequest]


class ProofReportView(View, kw_only=True):
    """The last proof; null where there is none."""

    proof: ProofReport | None
