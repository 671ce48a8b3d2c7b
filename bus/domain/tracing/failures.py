"""Deliveries that fail in the same way, counted together."""

from __future__ import annotations

import re
from typing import NamedTuple

import msgspec

from bus.domain.delivery.delivery import Status
from bus.domain.delivery.intervention import BY_A_PERSON
from bus.domain.delivery.retry import is_permanent
from bus.domain.tracing.signature import FAILING, UNKNOWN
from bus.domain.tracing.trace import Trace, failure_of
from bus.localized_text import LocalizedText, localized


class FailureGroup(msgspec.Struct):
    """Deliveries of one subscription that fail with one signature.

    Attributes
    ----------
    counts
        How many by state.
    first_at, last_at
        When the first and the last of them came to fail as they do now (ms); of one that is retried its last attempt.
    sample
        The newest message.
    """

    destination: str
    subscription: str
    signature: str
    counts: dict[Status, int]
    first_at: int
    last_at: int
    sample: str

    @property
    def count(self) -> int:
        """Number of deliveries."""
        return sum(self.counts.values())

    def add(self, other: FailureGroup) -> None:
        """Add the counts of another group of the same subscription and signature."""
        for status, count in other.counts.items():
            self.counts[status] = self.counts.get(status, 0) + count
        self.first_at = min(self.first_at, other.first_at)
        self.last_at = max(self.last_at, other.last_at)
        self.sample = max(self.sample, other.sample)


class Failures(NamedTuple):
    """Groups, the largest first, and how many smaller ones are left out.

    ``since`` is None when the whole range was looked at; else only messages made at that time (ms) or later were.
    """

    groups: list[FailureGroup]
    left_out: int
    since: int | None = None


def advice_on(signature: str) -> LocalizedText:
    """Return the hint: a subscriber that refuses needs another step than one that fails or is unreachable."""
    if signature == UNKNOWN:
        return localized("open the example to see what happened")
    if signature == BY_A_PERSON:
        return localized("people set these aside: resend them, out of order, once what was wrong is repaired")
    answered = re.fullmatch(r"HTTP (\d{3})", signature)
    if answered is None:
        return localized("there was no answer: see whether it runs and can be reached, then resend")
    if is_permanent(int(answered[1])):
        return localized("it refuses messages as they are, whenever they come: repair it, or edit and resend them")
    return localized("it answered and failed: repair it; what is retried comes by itself, resend the rest")


class FailureCount:
    """Merges groups of the same subscription and signature that were found one after the other."""

    def __init__(self) -> None:
        self._groups: dict[tuple[str, str, str], FailureGroup] = {}

    def add(self, group: FailureGroup) -> None:
        """Add a group, which the caller must not use any more."""
        key = (group.destination, group.subscription, group.signature)
        known = self._groups.setdefault(key, group)
        if known is not group:
            known.add(group)

    def largest(self, limit: int, since: int | None = None) -> Failures:
        """Return the ``limit`` largest groups."""
        groups = sorted(self._groups.values(), key=_size)
        return Failures(groups[:limit], max(0, len(groups) - limit), since)


def failures_in(trace: Trace) -> list[FailureGroup]:
    """Return a group for each delivery of a message that fails."""
    return [
        FailureGroup(
            trace.destination,
            name,
            failure_of(delivery) or "",
            {delivery.status: 1},
            delivery.at,
            delivery.at,
            trace.id,
        )
        for name, delivery in trace.deliveries.items()
        if delivery.status in FAILING
    ]


def _size(group: FailureGroup) -> tuple[int, str, str, str]:
    return (-group.count, group.destination, group.subscription, group.signature)
