"""Judges a row by what was sent, what its subscribers recorded and what the traces say; pure functions."""

from __future__ import annotations

import hashlib
import itertools
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from tests.acceptance.attack.traces import Answers, lie_of
from tests.acceptance.combinations.entries import Answer, Draft
from tests.harness.records import Call

PATIENCE: Final = 2.0
"""Seconds, on a machine that has a core for each process that wants one."""


class Sent(NamedTuple):
    """A draft, when it was accepted (seconds since the epoch), and by which answer."""

    draft: Draft
    at: float
    answer: Answer


class Window(NamedTuple):
    """Seconds since the epoch between which a fault or a person's act explains that nothing arrives."""

    begin: float
    end: float


@dataclass
class Expected:
    """What a subscriber gets.

    Attributes
    ----------
    since
        Of messages that were accepted later than this.
    bound
        Requests in flight at most, None where the subscriber does not know when they end.
    final
        States besides ``delivered`` that end a delivery.
    skips
        The end of the biz ids that its filter leaves out.
    resent
        Biz ids that a person had delivered once more.
    windows
        Which explain pauses of this subscriber alone.
    is_prompt
        Whether each message arrives at once, and not only one after the other.
    is_signed
        Whether each call has a signature.
    retry_wait
        Seconds after which it has a failed message again; nothing else may be left to deliver meanwhile.
    """

    path: str = ""
    since: float = 0.0
    bound: int | None = None
    final: frozenset[str] = frozenset()
    skips: str = ""
    resent: frozenset[str] = frozenset()
    windows: list[Window] = field(default_factory=list)
    is_prompt: bool = True
    is_signed: bool = False
    retry_wait: float = 0.0


@dataclass
class Seen:
    """All that is known of a row at its end.

    Attributes
    ----------
    traces
        The deliveries of each message by its id, as the admin API has them, and its biz id.
    windows
        Which explain pauses of all subscribers.
    repeats
        How many more deliveries than messages there may be for each subscriber.
    patience
        Seconds for which something may be blocked beyond what is explained.
    """

    sent: Sequence[Sent]
    calls: Sequence[Call]
    traces: Mapping[str, tuple[str, Sequence[Mapping[str, Any]]]]
    windows: Sequence[Window]
    repeats: int
    keeps_order: bool
    patience: float = PATIENCE


class Verdict(NamedTuple):
    """Counts of a row, and a line for each broken promise."""

    accepted: int = 0
    lost: int = 0
    unexpected: int = 0
    duplicates: int = 0
    blocked: int = 0
    false_traces: int = 0
    complaints: tuple[str, ...] = ()


def judge(seen: Seen, expected: Iterable[Expected]) -> Verdict:
    """Judge a row."""
    verdict = Verdict(accepted=len(_accepted(seen)))
    for one in expected:
        verdict = _add(verdict, _judge(seen, one))
    lies = list(_lies(seen))
    return _add(verdict, Verdict(false_traces=len(lies), complaints=tuple(lies)))


def _add(one: Verdict, other: Verdict) -> Verdict:
    return Verdict(*(left + right for left, right in zip(one, other, strict=True)))


def _judge(seen: Seen, expected: Expected) -> Verdict:
    calls = [call for call in seen.calls if call.path == expected.path]
    taken = [call for call in calls if 200 <= call.status < 300]
    delivered = Counter(call.biz_id for call in taken)
    drafts = {one.draft.biz_id: one.draft for one in seen.sent}
    wanted = {biz: one for biz, one in _accepted(seen).items() if one.at > expected.since}
    final = _final(seen, expected)
    lost = [biz for biz in wanted if biz not in delivered and biz not in final]
    unexpected = [biz for biz in delivered if biz not in drafts or _is_skipped(biz, expected)]
    extra = {biz: count - 1 - (biz in expected.resent) for biz, count in delivered.items()}
    duplicates = {biz: count for biz, count in extra.items() if count > 0}
    complaints = [
        *_some("not delivered and not final", lost),
        *_some("unexpected", unexpected),
        *_some("resent and not delivered again", [biz for biz, count in extra.items() if count < 0]),
        *_some("with other bytes", [call.biz_id for call in taken if not _is_same(call, drafts.get(call.biz_id))]),
        *_some(
            "without a valid signature", [call.biz_id for call in calls if expected.is_signed and not call.signature]
        ),
        *(_some("repeated", sorted(duplicates)) if sum(duplicates.values()) > seen.repeats else ()),
        *(_some("out of order", _misordered(taken, drafts)) if seen.keeps_order else ()),
    ]
    most = max((call.in_flight for call in calls), default=0)
    if expected.bound is not None and most > expected.bound:
        complaints.append(f"{most} requests in flight, {expected.bound} allowed")
    late = list(_blocked(seen, expected, wanted, calls))
    return Verdict(
        lost=len(lost),
        unexpected=len(unexpected),
        duplicates=sum(duplicates.values()),
        blocked=len(late),
        complaints=tuple(f"{expected.path}: {text}" for text in [*complaints, *late]),
    )


def _accepted(seen: Seen) -> dict[str, Sent]:
    """Return what was accepted, by its biz id, as of the first time."""
    found: dict[str, Sent] = {}
    for one in seen.sent:
        if one.answer == "accepted":
            found.setdefault(one.draft.biz_id, one)
    return found


def _final(seen: Seen, expected: Expected) -> set[str]:
    """Return the biz ids of which the trace says why they are not delivered."""
    name = expected.path.rpartition("/")[2]
    found = set()
    for biz, deliveries in seen.traces.values():
        states = {one["status"] for one in deliveries if one["subscription"] == name}
        if states & expected.final or (states == {"skipped"} and _is_skipped(biz, expected)):
            found.add(biz)
    return found


def _is_skipped(biz: str, expected: Expected) -> bool:
    return bool(expected.skips) and biz.endswith(expected.skips)


def _is_same(call: Call, draft: Draft | None) -> bool:
    return draft is not None and call.sha256 == hashlib.sha256(draft.body).hexdigest()


def _misordered(taken: Sequence[Call], drafts: Mapping[str, Draft]) -> list[str]:
    """Return what was delivered for the first time after a later message of its key."""
    latest: defaultdict[str, int] = defaultdict(lambda: -1)
    known: set[str] = set()
    found = []
    for call in taken:
        draft = drafts.get(call.biz_id)
        if draft is None or draft.biz_id in known:
            continue
        known.add(draft.biz_id)
        if draft.seq < latest[draft.key]:
            found.append(draft.biz_id)
        latest[draft.key] = max(latest[draft.key], draft.seq)
    return found


def _blocked(seen: Seen, expected: Expected, wanted: Mapping[str, Sent], calls: Sequence[Call]) -> Iterator[str]:
    """Say of what no delivery came for longer than is explained: of a message, or of the whole subscriber."""
    windows = [*seen.windows, *expected.windows]
    arrivals: dict[str, float] = {}
    for call in calls:
        if 200 <= call.status < 300:
            arrivals.setdefault(call.biz_id, call.t)
    waits = sorted((one.at, arrivals[biz], biz) for biz, one in wanted.items() if biz in arrivals)
    if expected.is_prompt:
        late = [biz for begin, end, biz in waits if _unexplained(begin, end, windows) > seen.patience]
        yield from _some(f"blocked for more than {seen.patience:.1f} s", late)
        return
    progress = sorted(call.t for call in calls)
    patience = seen.patience + expected.retry_wait
    for begin, end, biz in waits:
        moments = [begin, *(at for at in progress if begin < at < end), end]
        pauses = itertools.pairwise(moments)
        if any(_unexplained(before, after, windows) > patience for before, after in pauses):
            yield f"stood still for more than {patience:.1f} s before {biz}"
            return


def _unexplained(begin: float, end: float, windows: Iterable[Window]) -> float:
    """Return the seconds of a wait that are in no window."""
    left = begin
    total = 0.0
    for window in sorted(windows):
        total += max(0.0, min(window.begin, end) - left)
        left = max(left, window.end)
    return total + max(0.0, end - left)


def _lies(seen: Seen) -> Iterator[str]:
    given: defaultdict[tuple[str, str], Answers] = defaultdict(Answers)
    lost: defaultdict[tuple[str, str], Answers] = defaultdict(Answers)
    for call in seen.calls:
        to = (call.id, call.path.rpartition("/")[2])
        given[to][call.status] += 1
        if call.status < 300 and any(window.begin - PATIENCE <= call.t <= window.end for window in seen.windows):
            lost[to][call.status] += 1
    for message_id, (biz, deliveries) in seen.traces.items():
        for delivery in deliveries:
            # What was answered to a process that was killed, nobody knows, and a person may cancel it.
            to = (message_id, delivery["subscription"])
            answers = given[to] - lost[to] if delivery["status"] == "canceled" else given[to]
            if lie := lie_of(dict(delivery), answers):
                yield f"the trace of {biz} for {delivery['subscription']}: {lie}"


def _some(what: str, biz_ids: Sequence[str]) -> list[str]:
    return [f"{len(biz_ids)} {what}: {', '.join(biz_ids[:4])}"] if biz_ids else []
