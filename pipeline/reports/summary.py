"""The result of a run of ``reconcile`` as plain values: for the command line, for JSON and for the report."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Protocol

import msgspec

ACCEPT: Final = "accept"
PUBLISH: Final = "publish"
DELIVER: Final = "deliver"
HOPS: Final = {ACCEPT: "sent to accepted", PUBLISH: "accepted to published", DELIVER: "expected to settled"}
STATES: Final = ("open", "provisional", "final", "amended")
VERDICTS: Final = ("proven", "explained", "unsettled", "contradicted", "missing")
_INTAKE: Final = ("receiver", "producer")
_MOST_NAMED: Final = 3


class Finding(msgspec.Struct, frozen=True):
    """One delivery that is missing, or of which events and store contradict each other.

    Without a subscription it is a message: at the hop ``accept`` one that no receiver accepted, at the hop ``publish``
    one that the store lost.
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
        """The store's records, in words; a dash when it has none or was not asked."""
        if self.store_status is None:
            return "–"
        parts = [self.store_status, self.store_reason, f"since {self.store_at}" if self.store_at else ""]
        attempt = f"attempt {self.attempt_n}: {self.attempt_code or self.attempt_error}" if self.attempt_n else ""
        return ", ".join(filter(None, [*parts, attempt]))


class Gap(msgspec.Struct, frozen=True):
    """Blocks that an emitter closed and that never arrived, or events that it dropped, between two times.

    Without ``until`` it is the end of one that did not end in order: its acts after its last block are unknown.
    """

    emitter: str
    role: str
    node: str
    after: str | None
    until: str | None
    blocks: int = 0
    lost: int = 0

    @property
    def hides_messages(self) -> bool:
        """Whether messages may have been accepted meanwhile without an event."""
        return not self.role or any(role in _INTAKE for role in self.role.split("+"))

    @property
    def sentence(self) -> str:
        """The owner and the time, in words."""
        whose = f"{self.emitter} on {self.node or '–'}"
        if self.until is None:
            return f"{whose}, which did not end in order, from {self.after} on"
        return f"{whose} between {self.after or 'its start'} and {self.until}"


class Bar(msgspec.Struct, frozen=True):
    """The buckets of an hour (or of a minute) in each state, and the number of deliveries missing there."""

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
        ``missing``: deliveries or messages are, listed in ``missing``; ``contradicted``: nothing is missing, but those
        listed in ``contradicted`` ended by their events, and not in the store; ``unsettled``: nothing is missing as far
        as can be judged, and something is not over yet, or an emitter lost events of messages that it took in;
        ``explained``: all is accounted for, of some by the store alone; ``proven``: all is, by events;
        ``unheard``: nothing can be judged yet.
    watermark
        Up to when the events of all live emitters were read; None without any.
    hops
        Sums by hop: buckets by state and by verdict, and counts of deliveries.
    gaps
        The first 100 of each emitter, the earliest first.
    lost_blocks, lost_events
        How many blocks of events never arrived, and how many events emitters dropped, in all gaps.
    held
        Deliveries of strictly ordered destinations that wait; the bus can say whether a group of brokers lost them.
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
        """Number of missing messages that no receiver accepted."""
        return self.at(ACCEPT, "missing")

    @property
    def unkept(self) -> int:
        """Number of missing messages without a subscription that the store lost."""
        return self.at(PUBLISH, "missing")

    @property
    def blind_spots(self) -> list[Gap]:
        """The gaps in which messages may have been accepted without an event."""
        return [gap for gap in self.gaps if gap.hides_messages]

    def at(self, hop: str, name: str) -> int:
        """Return one of the sums of a hop."""
        return int(self.hops.get(hop, {}).get(name, 0))


def verdict_of(rows: Iterable[Mapping[str, Any]], gaps: Iterable[Gap]) -> str:
    """Return the verdict: that of the worst bucket that was old enough to be judged.

    At hops before the deliveries a bucket that differs is no news while events cover all that is in it.

    Parameters
    ----------
    rows
        Sums of buckets by ``hop``, ``state`` and ``verdict`` (``jobs.reconcile.totals``).
    gaps
        What emitters lost.
    """
    judged = [row for row in rows if row["state"] != "open"]
    verdicts = {row["verdict"] for row in judged}
    if not judged:
        return "unheard"
    for worst in ("missing", "contradicted"):
        if worst in verdicts:
            return worst
    if "unsettled" in verdicts or any(gap.hides_messages for gap in gaps):
        return "unsettled"
    explained = (row for row in judged if row["verdict"] == "explained")
    return "explained" if any(row["hop"] == DELIVER or row["event_lost"] for row in explained) else "proven"


def sentence_of(summary: Summary) -> str:
    """Return the verdict as one sentence."""
    if summary.verdict == "missing":
        lost = len(summary.missing) - summary.unaccepted - summary.unkept
        parts = [f"{lost} deliveries are missing"]
        if summary.unaccepted:
            parts.append(f"and {summary.unaccepted} messages that no receiver accepted")
        if summary.unkept:
            parts.append(f"and {summary.unkept} messages without a subscription that the store does not have")
        return ", ".join(parts) + (f"; {_against(summary)}" if len(summary.contradicted) else "")
    if summary.verdict == "contradicted":
        return _against(summary)
    if summary.verdict == "unheard":
        return "nothing can be judged yet: no bucket is old enough for all emitters to have been heard"
    return _accounted(summary)


def _against(summary: Summary) -> str:
    messages = summary.at(PUBLISH, "store_behind")
    deliveries = len(summary.contradicted) - messages
    parts = [f"events contain the end of {deliveries} deliveries, and the store contradicts them"]
    if messages:
        parts.append(f"of {messages} accepted messages the store has no more than outcomes")
    return "; ".join(parts if deliveries else parts[1:])


def _accounted(summary: Summary) -> str:
    states = summary.hops.get(DELIVER, {}).get("states", {})
    judged = sum(count for state, count in states.items() if state != "open")
    found = "nothing is known to be lost" if summary.verdict == "unsettled" else "zero lost"
    expected = summary.at(DELIVER, "expected")
    parts = [f"{found}: each of {expected} expected deliveries in {judged} judged buckets is accounted for"]
    if waiting := summary.at(DELIVER, "under_way") + summary.at(DELIVER, "held"):
        parts.append(f"{waiting} are on their way or held")
    if sent := summary.at(ACCEPT, "held"):
        parts.append(f"{sent} messages were sent, and no receiver accepted them yet")
    if alone := summary.at(DELIVER, "event_lost"):
        parts.append(f"{alone} have an end that is in the store alone")
    if unsaid := summary.at(PUBLISH, "event_lost"):
        parts.append(f"{unsaid} messages are in the store without an event of their acceptance")
    return "; ".join([*parts, *_blind(summary.blind_spots)])


def _blind(gaps: Sequence[Gap]) -> list[str]:
    if not gaps:
        return []
    named = ", ".join(gap.sentence for gap in gaps[:_MOST_NAMED])
    more = f" and {len(gaps) - _MOST_NAMED} more" if len(gaps) > _MOST_NAMED else ""
    return [
        f"not judged are messages of which these emitters lost the events, unless the store has them: {named}{more}"
    ]
