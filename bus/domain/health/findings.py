"""Findings that the pipeline reported: series outside of their norms, deliveries that a proof misses."""

from __future__ import annotations

import enum
from typing import Final, NamedTuple

import msgspec

from bus.domain.times import HOUR

MOST_TOLD: Final = 500
"""Of more only the number is kept."""
NORMS_LAST: Final = 3 * HOUR
"""For how long (ms) a deviation from a norm counts, unless it is reported again."""


class Metric(enum.StrEnum):
    """Quantity of a norm: messages an hour, p95 in milliseconds, share of attempts that failed."""

    VOLUME = "volume"
    LATENCY = "latency"
    FAILURE = "failure"


class Deviation(msgspec.Struct, frozen=True, kw_only=True):
    """A metric of a destination, or of a subscription, that is outside of its norm.

    Attributes
    ----------
    subscription
        Empty for what the destination accepted.
    since
        When the last hour began that was out, in milliseconds; ``value`` is that hour's.
    low, high
        The limits of that hour; None for no limit.
    """

    destination: str
    subscription: str
    metric: Metric
    since: int
    value: float
    norm: float
    low: float | None = None
    high: float | None = None

    @property
    def is_low(self) -> bool:
        """Whether fewer messages came than usual; nothing is too quick, or fails too seldom."""
        return self.metric is Metric.VOLUME and self.low is not None and self.value < self.low


class Deviations(msgspec.Struct, frozen=True, kw_only=True):
    """All deviations from norms; of ``count`` the first are among the ``items``.

    ``until`` (ms) is the end of the last hour that was judged; ``told_at`` (ms) when ``by`` reported it.
    """

    until: int = 0
    told_at: int = 0
    by: str = ""
    count: int = 0
    items: tuple[Deviation, ...] = ()

    @property
    def left_out(self) -> int:
        """How many are not among the items."""
        return self.count - len(self.items)


class Shortfall(msgspec.Struct, frozen=True, kw_only=True):
    """Findings of a proof for a subscription; without one, messages that no receiver accepted, or that the store lost.

    Attributes
    ----------
    missing
        Deliveries of which nothing is known.
    contradicted
        Deliveries of which events show an end that the store does not have.
    since, until
        The first and the last minute (ms) of the ids of their messages.
    """

    destination: str
    subscription: str
    missing: int
    contradicted: int
    since: int
    until: int

    @property
    def lane(self) -> tuple[str, str]:
        """The destination and the subscription."""
        return self.destination, self.subscription


class Proof(msgspec.Struct, frozen=True, kw_only=True):
    """Findings of a proof; of all that is ``missing`` or ``contradicted`` most is among the ``items``.

    ``since`` and ``before`` (ms) are the range of messages that it covers, None for all that there are; ``checked``
    (ms) is when it was made, ``told_at`` when ``by`` reported it. ``with_store`` is whether the store was a witness.
    """

    checked: int = 0
    since: int | None = None
    before: int | None = None
    with_store: bool = False
    told_at: int = 0
    by: str = ""
    missing: int = 0
    contradicted: int = 0
    items: tuple[Shortfall, ...] = ()

    @property
    def left_out(self) -> tuple[int, int]:
        """How many that are missing, and that are contradicted, are not among the items."""
        missing, contradicted = sum(one.missing for one in self.items), sum(one.contradicted for one in self.items)
        return self.missing - missing, self.contradicted - contradicted

    def after(self, earlier: Proof) -> Proof:
        """Return it with the findings of an earlier proof that it does not replace.

        Those are the ones outside its range, and without the store as a witness all that were found with it.
        """
        is_weaker = earlier.with_store and not self.with_store
        left = {one.lane: one for one in earlier.items if is_weaker or not self._covers(one)}
        joined = {one.lane: _joined(one, left.get(one.lane)) for one in self.items}
        worst = sorted((left | joined).values(), key=lambda one: (-one.missing, -one.contradicted, one.lane))
        missing, contradicted = self.left_out
        return msgspec.structs.replace(
            self,
            with_store=self.with_store or (earlier.with_store and bool(left)),
            missing=missing + sum(one.missing for one in worst),
            contradicted=contradicted + sum(one.contradicted for one in worst),
            items=tuple(worst[:MOST_TOLD]),
        )

    def _covers(self, one: Shortfall) -> bool:
        return (self.since is None or self.since <= one.since) and (self.before is None or one.until < self.before)


def _joined(one: Shortfall, earlier: Shortfall | None) -> Shortfall:
    """Return the lower bound for a subscription from two proofs, whose findings may overlap by an unknown amount."""
    if earlier is None:
        return one
    return msgspec.structs.replace(
        one,
        missing=max(one.missing, earlier.missing),
        contradicted=max(one.contradicted, earlier.contradicted),
        since=min(one.since, earlier.since),
        until=max(one.until, earlier.until),
    )


class Findings(NamedTuple):
    """The last reported findings."""

    norms: Deviations = Deviations()
    proof: Proof = Proof()
