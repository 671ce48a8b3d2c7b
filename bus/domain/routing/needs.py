"""The conditions of a migration's step, and a sentence about those that are not met."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from bus.domain.routing.evidence import IdleObservation, TopicObservation
from bus.domain.routing.migration import Migration
from bus.domain.routing.steps import Need, Side
from bus.localized_text import AnyText, joined, listed, localized

MARGIN: Final = 2.0
"""Seconds beyond the lookup interval: answers that were on their way, and a proxy that has just begun."""
CALM: Final = 1.5
"""Seconds for which nothing waits, since a message may be on its way between two counters."""
_CONNECTED: Final = 2
"""Factor of the time for which nothing may be written while producers are connected."""
_MOST_NAMED: Final = 10


class StepEvidence(NamedTuple):
    """Evidence when a step is to be taken.

    Attributes
    ----------
    unconfirmed
        Why it is not certain that every proxy has the step in force; empty when all have confirmed it.
    in_force_for
        For how many seconds they have all had it.
    """

    source: IdleObservation
    target: IdleObservation
    unconfirmed: tuple[AnyText, ...] = ()
    in_force_for: float = 0.0

    def of(self, side: Side) -> IdleObservation:
        """Return the evidence of a cluster."""
        return self.source if side is Side.SOURCE else self.target


def waits_for(migration: Migration, seen: StepEvidence) -> list[AnyText]:
    """Return the unmet conditions of the next step; none when it may be taken, or when there is no next step."""
    rule = migration.rule
    if rule.then is None:
        return []
    missing = [*seen.unconfirmed]
    if rule.waits_interval and not seen.unconfirmed:
        left = migration.interval + MARGIN - seen.in_force_for
        if left > 0:
            missing.append(localized("clients look up again within {seconds} s", seconds=f"{left:.0f}"))
    found = [_NEEDS[need](migration, seen, side) for need, side in rule.needs]
    return [*missing, *{str(said): said for said in found if said}.values()]


def lacks(migration: Migration, seen: StepEvidence, side: Side) -> AnyText:
    """Return the parts of the other one's topic that a cluster lacks; empty when it is prepared."""
    own, other = seen.of(side).sight, seen.of(side.other).sight
    if not own.is_whole or not other.is_whole:
        return joined((*own.unknown, *other.unknown))
    if not own.exists:
        return localized("{cluster} has no topic {topic}", cluster=own.cluster, topic=migration.topic)
    return _differs(migration, own, other) or _lacks_channels(migration, own, other)


def _differs(migration: Migration, own: TopicObservation, other: TopicObservation) -> AnyText:
    if own.partitions != migration.partitions:
        return localized(
            "{topic} has {count} partitions on {cluster}, not {wanted}",
            topic=migration.topic,
            count=own.partitions,
            cluster=own.cluster,
            wanted=migration.partitions,
        )
    if own.meta is not None and other.meta is not None and own.is_ordered != other.is_ordered:
        return localized("{topic} is ordered in one cluster, and not in the other", topic=migration.topic)
    return ""


def _lacks_channels(migration: Migration, own: TopicObservation, other: TopicObservation) -> AnyText:
    missing = sorted(own.lacking(other.channels))
    if missing:
        return localized("{cluster} lacks channels: {names}", cluster=own.cluster, names=listed(missing, _MOST_NAMED))
    if not own.channels and own.meta is not None:
        return localized(
            "{topic} has no channel, so that {cluster} refuses writes", topic=migration.topic, cluster=own.cluster
        )
    return ""


def _prepared(migration: Migration, seen: StepEvidence, side: Side) -> AnyText:
    return lacks(migration, seen, side)


def _empty(_: Migration, seen: StepEvidence, side: Side) -> AnyText:
    sight, _unwritten, drained_for = seen.of(side)
    if not sight.is_whole:
        return joined(sight.unknown)
    if sight.waiting:
        return localized("{count} messages wait on {cluster}", count=sight.waiting, cluster=sight.cluster)
    if drained_for < CALM:
        return localized("{cluster} must be empty for a moment", cluster=sight.cluster)
    return ""


def _unwritten(migration: Migration, seen: StepEvidence, side: Side) -> AnyText:
    sight, unwritten_for, _drained = seen.of(side)
    if not sight.is_whole:
        return joined(sight.unknown)
    # Some clients keep connections without end, though they look up again and write elsewhere.
    left = (migration.interval + MARGIN) * (_CONNECTED if sight.producers else 1) - unwritten_for
    if left <= 0:
        return ""
    if sight.producers:
        return localized(
            "nobody may write to {cluster} for another {seconds} s; {count} producers are connected",
            cluster=sight.cluster,
            seconds=f"{left:.0f}",
            count=sight.producers,
        )
    return localized(
        "nobody may write to {cluster} for another {seconds} s", cluster=sight.cluster, seconds=f"{left:.0f}"
    )


def _consumed(_: Migration, seen: StepEvidence, side: Side) -> AnyText:
    own, other = seen.of(side).sight, seen.of(side.other).sight
    if not own.is_whole or not other.is_whole:
        return joined((*own.unknown, *other.unknown))
    missing = sorted(other.consumed - own.consumed)
    if missing:
        return localized(
            "nobody consumes on {cluster} yet: {names}", cluster=own.cluster, names=listed(missing, _MOST_NAMED)
        )
    return ""


def _unconsumed(_: Migration, seen: StepEvidence, side: Side) -> AnyText:
    sight = seen.of(side).sight
    if not sight.is_whole:
        return joined(sight.unknown)
    if sight.consumers:
        return localized("{count} consumers are connected to {cluster}", count=sight.consumers, cluster=sight.cluster)
    return ""


_NEEDS: Final[dict[Need, Callable[[Migration, StepEvidence, Side], AnyText]]] = {
    Need.PREPARED: _prepared,
    Need.EMPTY: _empty,
    Need.CONSUMED: _consumed,
    Need.UNCONSUMED: _unconsumed,
    Need.UNWRITTEN: _unwritten,
}
