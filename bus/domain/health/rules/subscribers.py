"""Alarms of subscribers: those that are down, that are gone, or whose deliveries are given up."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from bus.domain.delivery.reasons import reason_of
from bus.domain.health.alarm import Alarm, Severity
from bus.domain.health.facts import Facts, OpenBreaker
from bus.domain.health.rulebook import Rulebook
from bus.domain.subscription import PAUSED_BY_410
from bus.localized_text import N_, localized

_OPENED: Final = {
    "silent": N_("the subscriber {name} of {destination} does not answer; its breaker is open on {nodes}"),
    "failing": N_("the subscriber {name} of {destination} fails with {status}; its breaker is open on {nodes}"),
}
_REPAIR: Final = {
    "silent": N_("see whether it runs, and send it a sample once it is back; what it missed is delivered then"),
    "failing": N_("look at its failures, and send it a sample once it is repaired; what it missed is delivered then"),
}


def breakers(facts: Facts) -> Iterator[Alarm]:
    """Yield the subscribers that are only probed."""
    found: dict[tuple[str, str], list[OpenBreaker]] = {}
    for breaker in facts.breakers:
        found.setdefault((breaker.destination, breaker.subscription), []).append(breaker)
    for (destination, name), those in found.items():
        answered = max(those, key=lambda breaker: breaker.figures.probe_at).figures.answered
        nodes = ", ".join(sorted({breaker.node for breaker in those}))
        manner, status = manner_of(answered), answered or 0
        what = localized(_OPENED[manner], name=name, destination=destination, nodes=nodes, status=status)
        step = localized(_REPAIR[manner])
        since = min(breaker.figures.since for breaker in those)
        yield Alarm(
            "breaker-open", Severity.WARNING, what, step, _subscription(destination, name), since, destination, name
        )


def manner_of(answered: int | None) -> str:
    """Return how a subscriber fails, by the status of its last answer: it is silent or failing."""
    return "silent" if answered is None else "failing"


def gone(facts: Facts) -> Iterator[Alarm]:
    """Yield the subscribers that answered 410 (gone)."""
    for found in facts.subscriptions:
        if found.paused and found.paused_reason == PAUSED_BY_410:
            what = localized(
                "{name} of {destination} is paused: {reason}; its messages wait",
                name=found.name,
                destination=found.destination,
                reason=reason_of(PAUSED_BY_410),
            )
            step = localized("give it another URL and resume it, or remove it")
            yield Alarm("subscriber-gone", Severity.WARNING, what, step, _subscription(*found.key), None, *found.key)


def dead(facts: Facts, book: Rulebook) -> Iterator[Alarm]:
    """Yield the subscriptions of which deliveries were given up."""
    for (destination, name), count in (facts.dead or {}).items():
        if count and book.is_over("dead", count, own=None, was=False):
            what = localized(
                "{count} deliveries to {name} of {destination} died within the last hour: they are not tried again",
                count=count,
                name=name,
                destination=destination,
            )
            step = localized(
                "see what they have in common (failures): repair the subscriber and resend, or edit what it refuses"
            )
            yield Alarm("dead", Severity.WARNING, what, step, _subscription(destination, name), None, destination, name)


def _subscription(destination: str, name: str) -> str:
    return f"destinations/{destination}/subscriptions/{name}"
