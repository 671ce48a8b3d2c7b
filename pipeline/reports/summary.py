"""The result of a run of ``reconcile`` as plain values: for the command line, for JSON and for the report."""

from __future__ import annotations

from collections.abc import Iterator, Sized
from typing import Any, Final, Protocol

import msgspec

ACCEPT: Final = "accept"
HOPS: Final = {ACCEPT: "sent to accepted", "publish": "accepted to published", "deliver": "expected to settled"}
STATES: Final = ("open", "provisional", "final", "amended")
VERDICTS: Final = ("proven", "explained", "unsettled", "contradicted", "missing")


class Finding(msgspec.Struct, frozen=True):
    """One delivery that is missing, or of which events and store contradict each other.

    Without a subscription it is a message that no receiver accepted.
    Times as RFC 3339, None where there is none. ``last_*`` is the last event, ``attempt_*`` the last stored attempt.
    """

    id: str
    destination: str
    subscription: str
    hop: str
    minute: str
    state: str
    last_at: str | None = None
    last_stage: str | None = None
    last_status: str | None = None
    last_attempt: int | None = None
    last_code: int | None = None
    last_reason: str | None = None
    last_transport: str | None = None
    last_node: str | None = None
    store_status: str | None = None
    store_at: str | None = None
    store_reason: str | None = None
    store_due_at: str | None = None
    attempt_id: str | None = None
    attempt_n: int | None = None
    attempt_at: str | None = None
    attempt_code: int | None = None
    attempt_error: str | None = None
    finding: str = "missing"

    @property
    def last_word(self) -> str:
        """The last event in words."""
        if self.last_stage is None:
            return "no event tells of it"
        parts = [self.last_stage, self.last_status, self.last_transport, self.last_reason]
        return " ".join([*filter(None, parts), f"at {self.last_at}"])

    @property
    def stored(self) -> str:
        """What the store has, in words; a dash when it has nothing or was not asked."""
        if self.store_status is None:
            return "–"
        parts = [self.store_status, self.store_reason, f"since {self.store_at}" if self.store_at else ""]
        attempt = f"attempt {self.attempt_n}: {self.attempt_code or self.attempt_error}" if self.attempt_n else ""
        return ", ".join(filter(None, [*parts, attempt]))


class Gap(msgspec.Struct, frozen=True):
    """Blocks that an emitter closed and that never arrived, or events that it dropped, between two times."""

    emitter: str
    node: str
    after: str | None
    until: str
    blocks: int
    lost: int


class Bar(msgspec.Struct, frozen=True):
    """How many buckets of an hour (or of a minute) are in each state, and how many deliveries are missing there."""

    start: str
    states: dict[str, int]
    missing: int


class Findings(Protocol):
    """Findings by destination, subscription and id, each time read anew: after an outage there are millions."""

    def __len__(self) -> int:
        """Return how many there are."""

    def __iter__(self) -> Iterator[Finding]:
        """Give them one by one."""


class Summary(msgspec.Struct, frozen=True):
    """The result of a run.

    Attributes
    ----------
    verdict
        ``proven``: nothing is missing; ``missing``: deliveries are, listed in ``missing``; ``contradicted``: nothing is
        missing, but for those listed in ``contradicted`` events tell of an end that the store does not have;
        ``unheard``: nothing can be judged yet.
    watermark
        Up to when all live emitters were heard; None when none was.
    hops
        Sums by hop: buckets by state and by verdict, and counts of deliveries.
    gaps
        The first 100 of each emitter, the earliest first.
    lost_blocks, lost_events
        How many blocks of events never arrived, and how many events emitters dropped, in all gaps.
    held
        Deliveries of strictly ordered destinations that wait: only the bus knows whether a group of brokers lost them.
    """

    verdict: str
    checked: str
    watermark: str | None
    with_store: bool
    emitters: int
    news: int
    hops: dict[str, dict[str, Any]]
    gaps: list[Gap]
    lost_blocks: int
    lost_events: int
    missing: Findings
    contradicted: Findings
    bars: list[Bar]
    held: Findings = ()

    @property
    def unaccepted(self) -> int:
        """How many of the missing are messages that no receiver accepted."""
        return int(self.hops.get(ACCEPT, {}).get("missing", 0))


def verdict_of(missing: Sized, contradicted: Sized, *, judged: bool) -> str:
    """Return the verdict; ``judged`` says whether any bucket was old enough."""
    if len(missing):
        return "missing"
    if len(contradicted):
        return "contradicted"
    return "proven" if judged else "unheard"


def sentence_of(summary: Summary) -> str:
    """Return the verdict as one sentence."""
    against = f"events tell of the end of {len(summary.contradicted)} deliveries, and the store contradicts them"
    if summary.verdict == "missing":
        rest = summary.unaccepted
        lost = len(summary.missing) - rest
        more = f", and {rest} messages that no receiver accepted" if rest else ""
        return f"{lost} deliveries are missing{more}" + (f"; {against}" if len(summary.contradicted) else "")
    if summary.verdict == "contradicted":
        return against
    if summary.verdict == "unheard":
        return "nothing can be judged yet: no bucket is old enough for all emitters to have been heard"
    return _accounted(summary)


def _accounted(summary: Summary) -> str:
    deliver = summary.hops.get("deliver", {})
    judged = sum(count for state, count in deliver.get("states", {}).items() if state != "open")
    expected, unsettled = deliver.get("expected", 0), deliver.get("under_way", 0) + deliver.get("held", 0)
    more = f"; {unsettled} are on their way or held" if unsettled else ""
    return f"zero lost: each of {expected} expected deliveries in {judged} judged buckets is accounted for{more}"
