"""Rules for findings of the pipeline: series outside of their norms, deliveries that a proof misses."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from bus.domain.durations import about
from bus.domain.health.alarm import Alarm, Severity
from bus.domain.health.facts import Facts, Lane
from bus.domain.health.findings import NORMS_LAST, Deviation, Metric, Proof, Shortfall
from bus.localized_text import N_, LocalizedText, localized

CAUSE: Final = "proof"
"""Of all that a proof found."""
_MISSING: Final = Severity.CRITICAL
_CONTRADICTED: Final = Severity.WARNING
_FEW_CAME: Final = ("", Metric.VOLUME, True)
_MANY_CAME: Final = ("", Metric.VOLUME, False)
_FEW_DELIVERED: Final = ("subscription", Metric.VOLUME, True)
_MANY_DELIVERED: Final = ("subscription", Metric.VOLUME, False)
_LATE: Final = ("subscription", Metric.LATENCY, False)
_FAILING: Final = ("subscription", Metric.FAILURE, False)
_WHAT: Final = {
    _FEW_CAME: N_("{value} messages came to {destination} in an hour in which {norm} are usual, and {limit} the least"),
    _MANY_CAME: N_("{value} messages came to {destination} in an hour in which {norm} are usual, and {limit} the most"),
    _FEW_DELIVERED: N_(
        "{value} messages were delivered to {name} of {destination} in an hour: {norm} are usual, {limit} the least"
    ),
    _MANY_DELIVERED: N_(
        "{value} messages were delivered to {name} of {destination} in an hour: {norm} are usual, {limit} the most"
    ),
    _LATE: N_(
        "deliveries to {name} of {destination} are late: hourly p95 is {value}; {norm} is usual, {limit} the most"
    ),
    _FAILING: N_("{value} of an hour's attempts at {name} of {destination} failed; {norm} is usual, {limit} the most"),
}
_SLOW: Final = N_("see how fast it answers, whether it fails, and how many permits it has")
_SENDING: Final = N_("see which of its producers sends so many: statistics by source; a rate bounds them")
_STEP: Final = {
    _FEW_CAME: N_("see whether its producers run and reach a receiver: bus spool ls where they run"),
    _MANY_CAME: _SENDING,
    _FEW_DELIVERED: _SLOW,
    _MANY_DELIVERED: _SENDING,
    _LATE: _SLOW,
    _FAILING: N_("look at its failures, and send it a sample once it is repaired; what failed is tried again"),
}


def norms(facts: Facts) -> Iterator[Alarm]:
    """Yield the deviations from norms in two of the last three hours that the pipeline judged.

    A deviation that was not reported again for three hours is over. A paused subscription gets no messages, as a person
    wanted it.
    """
    found = facts.findings.norms if facts.findings is not None else None
    if found is None or facts.now - found.told_at >= NORMS_LAST:
        return
    taking = set(_taking(facts))
    for one in found.items:
        if (one.destination, one.subscription) in taking and _manner(one) in _WHAT:
            yield _deviation(one)
    if found.left_out:
        what = localized("{count} more metrics are outside of their norms", count=found.left_out)
        step = localized("bus pipeline judge lists all of them")
        yield Alarm("norm", Severity.WARNING, what, step, "destinations", subject="more")


def _taking(facts: Facts) -> Iterator[Lane]:
    """Yield all destinations, without a subscription, and the subscriptions that are not paused."""
    yield from ((code, "") for code in facts.destinations)
    for one in facts.subscriptions:
        destination = facts.destinations.get(one.destination)
        if destination is not None and not destination.paused and not one.paused:
            yield one.key


def _deviation(one: Deviation) -> Alarm:
    manner = _manner(one)
    limit = one.low if one.is_low else one.high
    figures = {"value": one.value, "norm": one.norm, "limit": one.norm if limit is None else limit}
    what = localized(
        _WHAT[manner],
        destination=one.destination,
        name=one.subscription,
        **{name: _figure(one.metric, figure) for name, figure in figures.items()},
    )
    step = localized("{step}; bus pipeline judge lists all that is out", step=localized(_STEP[manner]))
    return _alarm("norm", one.metric, one, what, step)


def _manner(one: Deviation) -> tuple[str, Metric, bool]:
    return "subscription" if one.subscription else "", one.metric, one.is_low


def _figure(metric: Metric, value: float) -> str:
    if metric is Metric.LATENCY:
        return about(round(value))
    return f"{value:.1%}" if metric is Metric.FAILURE else f"{value:.0f}"


def proof(facts: Facts) -> Iterator[Alarm]:
    """Yield the deliveries that the last proof misses, or of which witnesses contradict each other."""
    found = facts.findings.proof if facts.findings is not None else Proof()
    for one in found.items:
        if one.missing:
            yield _missing(one)
        if one.contradicted:
            yield _contradicted(one)
    missing, contradicted = found.left_out
    if missing:
        what = localized("a proof misses {count} more deliveries", count=missing)
        yield Alarm("proof", _MISSING, what, _REPAIR, "destinations", subject="missing@more", cause=CAUSE)
    if contradicted:
        what = localized(
            "of {count} more deliveries events tell an end that the store does not have", count=contradicted
        )
        yield Alarm("proof", _CONTRADICTED, what, _AGAIN, "destinations", subject="contradicted@more", cause=CAUSE)


def _missing(one: Shortfall) -> Alarm:
    if not one.subscription:
        what = localized(
            "{count} messages to {destination} are missing: no receiver accepted them, or the store lost them",
            count=one.missing,
            destination=one.destination,
        )
        step = localized(
            "bus pipeline reconcile --lake LAKE --store STORE lists them; what no receiver accepted is with its "
            "producers: bus spool ls where they run, and bus spool drain"
        )
        return _alarm("proof", "missing", one, what, step)._replace(severity=_MISSING, cause=CAUSE)
    what = localized(
        "a proof misses {count} deliveries to {name} of {destination}: nothing tells what became of them",
        count=one.missing,
        name=one.subscription,
        destination=one.destination,
    )
    return _alarm("proof", "missing", one, what, _REPAIR)._replace(severity=_MISSING, cause=CAUSE)


def _contradicted(one: Shortfall) -> Alarm:
    if not one.subscription:
        what = localized(
            "of {count} accepted messages to {destination} the store has no more than outcomes",
            count=one.contradicted,
            destination=one.destination,
        )
        return _alarm("proof", "contradicted", one, what, _AGAIN)._replace(cause=CAUSE)
    what = localized(
        "of {count} deliveries to {name} of {destination} events tell an end that the store does not have",
        count=one.contradicted,
        name=one.subscription,
        destination=one.destination,
    )
    return _alarm("proof", "contradicted", one, what, _AGAIN)._replace(cause=CAUSE)


_REPAIR: Final = localized(
    "bus pipeline reconcile --lake LAKE --store STORE --repair --tell lists them, and has the bus deliver what it has"
)
_AGAIN: Final = localized(
    "see whether the store was restored, or lost writes: bus pipeline reconcile --lake LAKE --store STORE lists them"
)


def _alarm(rule: str, kind: str, one: Deviation | Shortfall, what: LocalizedText, step: LocalizedText) -> Alarm:
    place, link = one.destination, f"destinations/{one.destination}"
    if one.subscription:
        place, link = f"{place}/{one.subscription}", f"{link}/subscriptions/{one.subscription}"
    lane = (one.destination, one.subscription or None)
    return Alarm(rule, Severity.WARNING, what, step, link, one.since, *lane, subject=f"{kind}@{place}")
