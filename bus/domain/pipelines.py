"""The state that a running pipeline (``bus pipeline serve``) reports, and the runs that people request.

The bus keeps and shows it, and judges none of it. Times are RFC 3339, as the API has them, unless in milliseconds.
"""

from __future__ import annotations

import enum
from typing import Final

import msgspec

MOST_RUNS: Final = 100
MOST_FOUND: Final = 250
"""Missing deliveries of a proof, and contradicted ones; of more only the number is reported."""
MOST_TEXT: Final = 2000
"""Characters of an error, and of its hint."""
MOST_NAME: Final = 200
"""Characters of any other text."""
MOST_GAPS: Final = 100
MOST_BARS: Final = 240
HEARD_MS: Final = 30_000
"""For how long a pipeline without a report is assumed to be alive."""


class Job(enum.StrEnum):
    """Job that a pipeline runs by its clock, or on request."""

    RECONCILE = "reconcile"
    JUDGE = "judge"
    COMPACT = "compact"
    BASELINE = "baseline"
    ARCHIVE = "archive"


class Verdict(enum.StrEnum):
    """State or result of a run: that of a proof or a judgement, ``nothing`` for no work, ``broken`` by a kill."""

    RUNNING = "running"
    PROVEN = "proven"
    EXPLAINED = "explained"
    UNSETTLED = "unsettled"
    MISSING = "missing"
    CONTRADICTED = "contradicted"
    UNHEARD = "unheard"
    WITHIN = "within"
    OUT = "out"
    DONE = "done"
    NOTHING = "nothing"
    FAILED = "failed"
    BROKEN = "broken"


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """One run of a job.

    Attributes
    ----------
    number
        Runs of a lake are counted from 1.
    by
        Who requested it; empty for the clock.
    wish
        The id of the request that it fulfils; empty for none.
    figures
        Figures of its work, by name.
    error, hint
        Why it failed, and what to do, in English.
    """

    number: int
    job: Job
    by: str = ""
    wish: str = ""
    began_at: str
    ended_at: str | None = None
    verdict: Verdict = Verdict.RUNNING
    figures: dict[str, int] = {}
    error: str = ""
    hint: str = ""


class ScheduledJob(msgspec.Struct, frozen=True, kw_only=True):
    """A job and when it runs: its cron expression, empty for never by itself, and the next time.

    ``waits`` is whether it runs as soon as the current run has ended; ``wish`` is the id of the request for that.
    """

    job: Job
    cron: str = ""
    next_at: str | None = None
    waits: bool = False
    wish: str = ""


class StreamState(msgspec.Struct, frozen=True, kw_only=True):
    """Progress of the rollup, since it was started.

    Attributes
    ----------
    committed_at
        When rollups were last published.
    freshness_p50, freshness_p95
        Of the last batch with good events, in seconds.
    lag
        Records of Kafka that were not read at the last batch; 0 for files.
    error, hint
        Why it stands still, and what to do, in English; it is started again by itself.
    """

    batches: int = 0
    events: int = 0
    committed_at: str | None = None
    freshness_p50: float | None = None
    freshness_p95: float | None = None
    lag: int = 0
    error: str = ""
    hint: str = ""


class RunRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A run that a person requested; there is one for each job at most."""

    id: str
    job: Job
    by: str
    at: str


class Pipeline(msgspec.Struct, frozen=True, kw_only=True):
    """The last reported status of a pipeline.

    Attributes
    ----------
    started_at
        When its process was started.
    timezone
        Of the cron expressions.
    runs
        The latest, those that began last first.
    """

    started_at: str
    lake: str
    timezone: str = "UTC"
    stream: StreamState = StreamState()
    jobs: tuple[ScheduledJob, ...] = ()
    runs: tuple[Run, ...] = ()

    def took(self, wish: RunRequest) -> bool:
        """Whether it fulfils a request, or did."""
        return any(wish.id == run.wish for run in self.runs) or any(wish.id == each.wish for each in self.jobs)


class PipelineReport(msgspec.Struct, frozen=True, kw_only=True):
    """Status of a pipeline, with the time (ms) and the process of the report."""

    at: int
    by: str
    pipeline: Pipeline

    def is_heard(self, now: int) -> bool:
        """Whether its last report is recent."""
        return now - self.at <= HEARD_MS


class Hop(msgspec.Struct, frozen=True, kw_only=True):
    """Sums of one hop of a proof: buckets by state and by verdict, and how many deliveries were expected."""

    hop: str
    buckets: int = 0
    expected: int = 0
    states: dict[str, int] = {}
    verdicts: dict[str, int] = {}


class MissingDelivery(msgspec.Struct, frozen=True, kw_only=True):
    """A delivery that is missing or contradicted; without a subscription a message.

    At the hop ``accept`` no receiver accepted the message, at ``publish`` the store lost it.

    ``last_event`` and ``stored`` are its state in the events and in the store, in English.
    """

    id: str
    destination: str
    subscription: str = ""
    hop: str = "deliver"
    finding: str
    state: str
    last_event: str = ""
    stored: str = ""


class Gap(msgspec.Struct, frozen=True, kw_only=True):
    """Blocks of an emitter that never came, and events that it dropped; ``after`` is None for since its start.

    ``until`` is None for the end of one that did not end in order.
    """

    emitter: str
    node: str
    after: str | None = None
    until: str | None = None
    blocks: int
    events: int


class Bar(msgspec.Struct, frozen=True, kw_only=True):
    """Number of buckets in each state of a time that began at ``start``, and the missing deliveries there."""

    start: str
    states: dict[str, int] = {}
    missing: int = 0


class ProofReport(msgspec.Struct, frozen=True, kw_only=True):
    """The last proof, for display.

    Attributes
    ----------
    run
        The number of the run that made it.
    watermark
        Up to when the events of all live emitters were received.
    since, before
        The range of messages that it covers.
    on_their_way
        Expected deliveries that are not over yet.
    missing, contradicted, unaccepted
        How many; the first of them are among ``found``. Unaccepted ones are missing as well.
    lost_blocks, lost_events
        In all gaps; ``gaps`` has the first.
    """

    run: int
    verdict: Verdict
    checked: str
    watermark: str | None = None
    since: str | None = None
    before: str | None = None
    with_store: bool = False
    emitters: int = 0
    on_their_way: int = 0
    missing: int = 0
    contradicted: int = 0
    unaccepted: int = 0
    lost_blocks: int = 0
    lost_events: int = 0
    hops: tuple[Hop, ...] = ()
    found: tuple[MissingDelivery, ...] = ()
    gaps: tuple[Gap, ...] = ()
    bars: tuple[Bar, ...] = ()
