"""A pipeline that stays, as the API shows it."""

from __future__ import annotations

from admin.models.responses.base import View
from bus.domain.pipelines import Pipeline, ProofReport, RunRequest


class WishesView(View, kw_only=True):
    """Requests for runs that the pipeline has not accepted yet."""

    wishes: list[RunRequest]


class PipelineView(View, kw_only=True):
    """The last reported status of a pipeline, and the runs that people request; null before the first report.

    ``heard`` is whether the last report is less than half a minute old.
    """

    told_at: str | None
    by: str
    heard: bool
    pipeline: Pipeline | None
    wishes: list[RunRequest]


class ProofReportView(View, kw_only=True):
    """The last proof; null where there is none."""

    proof: ProofReport | None
