"""Decides from a history whether a run kept what the bus promises (reliability.md, "The checker").

Pure functions. What was sent is named by (key, seq), or by the message's id where a body has no number. Per
subscription, as multisets: lost = ok - delivered; unexpected = delivered but never attempted; duplicated = delivered -
attempts - unexpected; recovered = (delivered and attempted) - ok.
"""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple

from tests.harness.history import Event

Value = tuple[str, int | str]
Verdict = Literal["valid", "invalid", "unknown"]
# A delivery may be that long before a fault, in seconds, and still lose its outcome to it.
_UNRECORDED: Final = 5.0


class Span(NamedTuple):
    """A fault that may repeat deliveries, from its begin until ``after`` seconds past its end (times of the epoch)."""

    name: str
    begin: float
    end: float
    after: float = 0.0

    def repeats(self, first: float, second: float) -> bool:
        """Whether a message that was delivered at these times may have been repeated because of it."""
        return self.begin - _UNRECORDED <= first <= self.end + self.after and self.begin <= second


def cause_of(first: float, second: float, spans: Iterable[Span]) -> str:
    """Return the names of the faults that may have repeated a delivery; empty for none."""
    return " or ".join(sorted({span.name for span in spans if span.repeats(first, second)}))


@dataclass(frozen=True)
class Faults:
    """What happened to a run, as far as it allows duplicates (docs/guarantees.md).

    Attributes
    ----------
    crashes
        Kills of a process that posts or accepts.
    window
        Deliveries of one subscription in flight at a crash, at most.
    spans
        All faults in time; each duplicate must be the effect of one.
    """

    crashes: int = 0
    window: int = 0
    spans: Sequence[Span] = ()

    @property
    def duplicates_allowed(self) -> int:
        """The bound for each subscription."""
        return self.crashes * self.window


@dataclass
class Findings:
    """What the checker saw of one subscription; ``misordered`` is filled only for an ordered destination.

    ``causes`` has the duplicates by the faults that explain them, ``uncaused`` those that none explains.
    """

    delivered: int = 0
    lost: Counter[Value] = field(default_factory=Counter)
    unexpected: Counter[Value] = field(default_factory=Counter)
    duplicated: Counter[Value] = field(default_factory=Counter)
    recovered: Counter[Value] = field(default_factory=Counter)
    after_fail: Counter[Value] = field(default_factory=Counter)
    mismatched: Counter[Value] = field(default_factory=Counter)
    misordered: list[Value] = field(default_factory=list)
    causes: Counter[str] = field(default_factory=Counter)
    uncaused: Counter[Value] = field(default_factory=Counter)

    def counts(self) -> dict[str, int]:
        """Return the numbers alone."""
        kinds = ("lost", "unexpected", "duplicated", "uncaused", "recovered", "after_fail", "mismatched")
        found = {kind: getattr(self, kind).total() for kind in kinds}
        return {"delivered": self.delivered, **found, "misordered": len(self.misordered)}


@dataclass
class Judgement:
    """The outcome of a run.

    ``verdict`` is about lost and unexpected alone, as reliability.md has it; ``complaints`` names everything wrong.
    """

    verdict: Verdict
    drained: bool
    attempts: int
    acknowledged: int
    indeterminate: int
    duplicates_allowed: int
    subscriptions: dict[str, Findings]

    @property
    def complaints(self) -> list[str]:
        """Return a line for each broken promise; none for a run that passes."""
        found = [] if self.drained else ["the run was not drained"]
        for name, findings in self.subscriptions.items():
            counts = findings.counts()
            wrong = ("lost", "unexpected", "after_fail", "mismatched", "misordered", "uncaused")
            found += [f"{name}: {counts[kind]} {kind}: {_some(findings, kind)}" for kind in wrong if counts[kind]]
            if counts["duplicated"] > self.duplicates_allowed:
                found.append(f"{name}: {counts['duplicated']} duplicated, {self.duplicates_allowed} allowed")
        return found

    @property
    def passed(self) -> bool:
        """Whether every promise was kept, on a run that was drained."""
        return self.verdict == "valid" and not self.complaints

    def figures(self) -> dict[str, object]:
        """Return what to print or to put in a report."""
        return {
            "verdict": self.verdict,
            "attempts": self.attempts,
            "acknowledged": self.acknowledged,
            "indeterminate": self.indeterminate,
            "duplicates_allowed": self.duplicates_allowed,
            "subscriptions": {name: findings.counts() for name, findings in self.subscriptions.items()},
            "causes": {name: dict(findings.causes) for name, findings in self.subscriptions.items() if findings.causes},
        }


@dataclass
class Published:
    """What was tried: multisets of values, and the hashes of their bodies."""

    attempted: Counter[Value]
    ok: Counter[Value]
    failed: Counter[Value]
    hashes: dict[Value, set[str]]
    by_id: dict[str, Value]

    @property
    def indeterminate(self) -> int:
        """How many sends have neither an ok nor a fail."""
        return (self.attempted - self.ok - self.failed).total()


def check(
    history: Sequence[Event],
    *,
    subscriptions: Iterable[str],
    drained: bool,
    faults: Faults | None = None,
    ordering: str = "none",
) -> Judgement:
    """Judge a run.

    Parameters
    ----------
    subscriptions
        All that should have got every message; one that got none counts as well.
    drained
        Whether the run ended with nothing on its way; if not, nothing can be said to be lost.
    faults
        None for a run without a fault, which allows no duplicate.
    ordering
        Whose messages had to arrive in the order of their numbers: ``key`` each key's, ``strict`` each producer's.
    """
    published = _published(history)
    spans = faults.spans if faults else ()
    found = {name: _judge(published, _deliveries(history, name), ordering, spans) for name in subscriptions}
    return Judgement(
        verdict=_verdict(found.values(), drained=drained),
        drained=drained,
        attempts=published.attempted.total(),
        acknowledged=published.ok.total(),
        indeterminate=published.indeterminate,
        duplicates_allowed=(faults or Faults()).duplicates_allowed,
        subscriptions=found,
    )


def _verdict(found: Iterable[Findings], *, drained: bool) -> Verdict:
    findings = list(found)
    if any(one.unexpected for one in findings):
        return "invalid"
    if not drained:
        return "unknown"
    return "invalid" if any(one.lost for one in findings) else "valid"


def _published(history: Iterable[Event]) -> Published:
    found = Published(Counter(), Counter(), Counter(), {}, {})
    kinds = {"invoke": found.attempted, "ok": found.ok, "fail": found.failed}
    for event in history:
        if event.f != "publish":
            continue
        value = _value(event)
        if event.type in kinds:
            kinds[event.type][value] += 1
        found.hashes.setdefault(value, set()).add(event.sha256)
        if event.id:
            found.by_id[event.id] = value
    return found


def _deliveries(history: Iterable[Event], subscription: str) -> list[Event]:
    return [e for e in history if e.f == "deliver" and e.type == "ok" and e.subscription == subscription]


def _judge(published: Published, deliveries: list[Event], ordering: str, spans: Sequence[Span]) -> Findings:
    values = [_delivered_value(published, event) for event in deliveries]
    delivered = Counter(values)
    unexpected = Counter({value: n for value, n in delivered.items() if value not in published.attempted})
    attempted = published.attempted
    duplicated = delivered - attempted - unexpected
    causes, uncaused = _causes(values, deliveries, duplicated, spans)
    return Findings(
        delivered=delivered.total(),
        lost=published.ok - delivered,
        unexpected=unexpected,
        duplicated=duplicated,
        causes=causes,
        uncaused=uncaused,
        recovered=(delivered & attempted) - published.ok,
        after_fail=Counter({value: n for value, n in delivered.items() if value in published.failed}),
        mismatched=Counter(value for value, e in zip(values, deliveries, strict=True) if _differs(published, value, e)),
        misordered=_misordered(values, ordering) if ordering != "none" else [],
    )


def _causes(
    values: list[Value], deliveries: list[Event], duplicated: Counter[Value], spans: Sequence[Span]
) -> tuple[Counter[str], Counter[Value]]:
    times: defaultdict[Value, list[float]] = defaultdict(list)
    for value, event in zip(values, deliveries, strict=True):
        times[value].append(event.t)
    causes, uncaused = Counter[str](), Counter[Value]()
    for value, count in duplicated.items():
        for first, second in list(itertools.pairwise(sorted(times[value])))[-count:]:
            cause = cause_of(first, second, spans)
            if cause:
                causes[cause] += 1
            else:
                uncaused[value] += 1
    return causes, uncaused


def _delivered_value(published: Published, event: Event) -> Value:
    """Name a delivery; a body too damaged to have its number is known by the message's id."""
    if event.seq is not None:
        return _value(event)
    return published.by_id.get(event.id, _value(event))


def _differs(published: Published, value: Value, event: Event) -> bool:
    return value in published.hashes and event.sha256 not in published.hashes[value]


def _misordered(values: list[Value], ordering: str) -> list[Value]:
    """Return first deliveries that came before one of the same order with a smaller number."""
    highest: dict[str, int] = {}
    seen: set[Value] = set()
    wrong: list[Value] = []
    for value in values:
        key, seq = value
        if value in seen or not isinstance(seq, int):
            continue
        seen.add(value)
        order = key.partition(".")[0] if ordering == "strict" else key
        if seq < highest.get(order, seq):
            wrong.append((order, highest[order]))
        highest[order] = max(seq, highest.get(order, seq))
    return wrong


def _value(event: Event) -> Value:
    return (event.key, event.seq if event.seq is not None else event.id)


def _some(findings: Findings, kind: str) -> list[Value]:
    return sorted(getattr(findings, kind), key=str)[:5]
