"""The present state of a subscription, in one word with its reason."""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from bus.domain.delivery.reasons import reason_of
from bus.domain.health.facts import Backlog, DeliveryRates, Facts, Lane, OpenBreaker
from bus.domain.health.rules.subscribers import manner_of
from bus.domain.subscription import Subscription
from bus.localized_text import N_, AnyText, localized

_FAILING: Final = 0.1
"""The share of failed attempts from which on it fails; a smaller one is shown beside its healthy state."""
_NOTHING: Final = Backlog(0, None)
_NO_ATTEMPTS: Final = DeliveryRates(0, 0, None)


class State(enum.StrEnum):
    """The word, the worst first."""

    BREAKER_OPEN = "breaker_open"  # it fails so much that it is only probed
    FAILING = "failing"
    SATURATED = "saturated"  # all slots are in use, and deliveries wait for one
    PAUSED = "paused"
    HELD_BY_RATE = "held_by_rate"
    HEALTHY = "healthy"
    QUIET = "quiet"  # nothing was attempted in the last minutes

    @property
    def rank(self) -> int:
        """0 for the worst."""
        return _RANKS[self]


_RANKS: Final = {state: rank for rank, state in enumerate(State)}


class Condition(NamedTuple):
    """Health of a subscription.

    Attributes
    ----------
    why
        The reason, empty for none.
    since, probe_at
        Of an open breaker, when (ms) it has not been closed since, and when the next probe is; else None.
    waiting
        Backlog on its transports.
    retrying, dead
        Deliveries that wait for their next attempt, and that died within the last hour; None where that is not known.
    attempts, failed
        Of the last minutes.
    """

    destination: str
    subscription: str
    state: State
    why: AnyText = ""
    since: int | None = None
    probe_at: int | None = None
    waiting: Backlog = _NOTHING
    retrying: int | None = None
    dead: int | None = None
    attempts: int = 0
    failed: int = 0


def conditions(facts: Facts, retrying: Mapping[Lane, int] | None) -> Iterator[Condition]:
    """Yield the condition of every subscription; ``retrying`` counts by subscription, None for not known."""
    breakers: dict[Lane, list[OpenBreaker]] = {}
    for one in facts.breakers:
        breakers.setdefault((one.destination, one.subscription), []).append(one)
    for subscription in facts.subscriptions:
        key = subscription.key
        found = facts.delivering.get(key, _NO_ATTEMPTS) if facts.delivering is not None else _NO_ATTEMPTS
        known = Condition(
            *key,
            State.HEALTHY if found.attempts else State.QUIET,
            waiting=facts.waiting.get(key, _NOTHING),
            retrying=retrying.get(key, 0) if retrying is not None else None,
            dead=facts.dead.get(key, 0) if facts.dead is not None else None,
            attempts=found.attempts,
            failed=found.failed,
        )
        paused = _paused(known, subscription, facts)
        yield paused or _open(known, breakers.get(key, ())) or _held(known, subscription, facts)


def _paused(known: Condition, subscription: Subscription, facts: Facts) -> Condition | None:
    destination = facts.destinations.get(subscription.destination)
    if subscription.paused:
        return known._replace(state=State.PAUSED, why=reason_of(subscription.paused_reason))
    if destination is not None and destination.paused:
        return known._replace(state=State.PAUSED, why=localized("its destination is paused"))
    return None


def _held(known: Condition, subscription: Subscription, facts: Facts) -> Condition:
    if known.failed and known.failed >= _FAILING * known.attempts:
        share = f"{known.failed / known.attempts:.0%}"
        why = localized("{share} of {count} attempts of the last minutes failed", share=share, count=known.attempts)
        return known._replace(state=State.FAILING, why=why)
    if subscription.key in facts.saturated:
        why = localized("all {count} permits are in use, and deliveries wait", count=subscription.max_concurrency)
        return known._replace(state=State.SATURATED, why=why)
    if subscription.key in facts.held_by_rate and subscription.rate is not None:
        why = localized("deliveries wait for its rate, {rate} a second", rate=f"{subscription.rate:g}")
        return known._replace(state=State.HELD_BY_RATE, why=why)
    return known


_OPENED: Final = {
    "silent": N_("it does not answer, and is only probed"),
    "failing": N_("it fails with {status}, and is only probed"),
}


def _open(known: Condition, breakers: Sequence[OpenBreaker]) -> Condition | None:
    if not breakers:
        return None
    last = max(breakers, key=lambda one: one.figures.probe_at).figures
    return known._replace(
        state=State.BREAKER_OPEN,
        why=localized(_OPENED[manner_of(last.answered)], status=last.answered or 0),
        since=min(one.figures.since for one in breakers),
        probe_at=min(one.figures.probe_at for one in breakers),
    )
