"""Request bodies of the status of a running pipeline, and of runs that people request."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from pydantic import Field, StrictBool, StrictFloat

from admin.models.base import Body, Code, Time, Whole
from admin.models.findings import Count, Name
from bus.domain.pipelines import (
    MOST_BARS,
    MOST_FOUND,
    MOST_GAPS,
    MOST_NAME,
    MOST_RUNS,
    MOST_TEXT,
    Job,
    Pipeline,
    ProofReport,
    Verdict,
)

Short = Annotated[str, Field(max_length=MOST_NAME)]
Long = Annotated[str, Field(max_length=MOST_TEXT)]
Seconds = Annotated[StrictFloat, Field(ge=0)]
Figures = Annotated[dict[Annotated[str, Field(pattern=r"^[a-z_]{1,40}$")], Count], Field(max_length=20)]


class RunBody(Body):
    """One run of a job: its number, who requested it, when, and how it ended."""

    number: Annotated[Whole, Field(ge=1, lt=2**53)]
    job: Job
    by: Short = ""
    wish: Short = ""
    began_at: Time
    ended_at: Time | None = None
    verdict: Verdict
    figures: Figures = Field(default_factory=dict)
    error: Long = ""
    hint: Long = ""


class ScheduledBody(Body):
    """A job, and when it runs."""

    job: Job
    cron: Short = ""
    next_at: Time | None = None
    waits: StrictBool = False
    wish: Short = ""


class StreamBody(Body):
    """The progress of the rollup."""

    batches: Count = 0
    events: Count = 0
    committed_at: Time | None = None
    freshness_p50: Seconds | None = None
    freshness_p95: Seconds | None = None
    lag: Count = 0
    error: Long = ""
    hint: Long = ""


class PipelineBody(Body):
    """The status of a pipeline, which replaces the one reported before."""

    started_at: Time
    lake: Annotated[str, Field(max_length=4096)]
    timezone: Short = "UTC"
    stream: StreamBody = StreamBody()
    jobs: list[ScheduledBody] = Field(default_factory=list, max_length=len(Job))
    runs: list[RunBody] = Field(default_factory=list, max_length=MOST_RUNS)

    def to_domain(self) -> Pipeline:
        """Return it for the store."""
        return msgspec.convert(self.model_dump(mode="json"), Pipeline)


class WishBody(Body):
    """A job that is to run now."""

    job: Job


class HopBody(Body):
    """Sums of one hop of a proof."""

    hop: Literal["accept", "publish", "deliver"]
    buckets: Count = 0
    expected: Count = 0
    states: Figures = Field(default_factory=dict)
    verdicts: Figures = Field(default_factory=dict)


class FoundBody(Body):
    """A delivery that is missing or contradicted; without a subscription a message, at the hop that lost it."""

    id: Annotated[str, Field(max_length=64)]
    destination: Code
    subscription: Name = ""
    hop: Annotated[str, Field(max_length=40)] = "deliver"
    finding: Annotated[str, Field(max_length=40)]
    state: Annotated[str, Field(max_length=40)]
    last_event: Short = ""
    stored: Short = ""


class GapBody(Body):
    """Events that an emitter could not report."""

    emitter: Short
    node: Short
    after: Time | None = None
    until: Time | None = None
    blocks: Count
    events: Count


class BarBody(Body):
    """Buckets of a time by their state, and the count that is missing there."""

    start: Time
    states: Figures = Field(default_factory=dict)
    missing: Count = 0


class ProofReportBody(Body):
    """A proof for the page: sums, the first findings, and buckets over time."""

    run: Annotated[Whole, Field(ge=1, lt=2**53)]
    verdict: Verdict
    checked: Time
    watermark: Time | None = None
    since: Time | None = None
    before: Time | None = None
    with_store: StrictBool = False
    emitters: Count = 0
    on_their_way: Count = 0
    missing: Count = 0
    contradicted: Count = 0
    unaccepted: Count = 0
    lost_blocks: Count = 0
    lost_events: Count = 0
    hops: list[HopBody] = Field(default_factory=list, max_length=3)
    found: list[FoundBody] = Field(default_factory=list, max_length=2 * MOST_FOUND)
    gaps: list[GapBody] = Field(default_factory=list, max_length=MOST_GAPS)
    bars: list[BarBody] = Field(default_factory=list, max_length=MOST_BARS)

    def to_domain(self) -> ProofReport:
        """Return it for the store."""
        return msgspec.convert(self.model_dump(mode="json"), ProofReport)
