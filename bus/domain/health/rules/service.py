"""Rules for the service of subscribers: backlog, age, latency and failures."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Final

from bus.domain.durations import about
from bus.domain.health.alarm import Alarm, Severity
from bus.domain.health.facts import Backlog, DeliveryRates, Facts
from bus.domain.health.progress import Progress, Verdict
from bus.domain.health.rulebook import Rulebook
from bus.domain.subscription import Subscription
from bus.localized_text import N_, LocalizedText, listed, localized

_LEAST_ATTEMPTS: Final = 10
"""With fewer attempts a share has no meaning."""
_MOST_PARTS: Final = 3
_NOBODY: Final = Backlog(0, None)


def waiting(facts: Facts, book: Rulebook, active: Collection[str]) -> Iterator[Alarm]:
    """Yield the subscriptions for which too much waits, or for too long; paused ones wait as a person wanted it."""
    for one in facts.subscriptions if facts.waiting else ():
        found = facts.waiting.get(one.key)
        if found is None or one.paused:
            continue
        destination = facts.destinations.get(one.destination)
        if destination is None or not destination.paused:
            yield from filter(None, (_backlog(one, found, book, active), _age(one, found, facts.now, book, active)))


def progress(facts: Facts) -> Iterator[Alarm]:
    """Yield the subscriptions whose messages on a broker are not worked off, for another reason than a known one."""
    down = {(breaker.destination, breaker.subscription) for breaker in facts.breakers}
    for one in facts.subscriptions if facts.progress else ():
        found = facts.progress.get(one.key)
        if found is None or found.verdict is Verdict.WELL:
            continue
        destination = facts.destinations.get(one.destination)
        if not (one.paused or (destination is not None and destination.paused) or one.key in down):
            yield _stalled(one, found, facts.waiting.get(one.key, _NOBODY).records or 0)


def serving(facts: Facts, book: Rulebook, active: Collection[str]) -> Iterator[Alarm]:
    """Yield the subscriptions that are slow, that fail, or that have too few slots."""
    delivering = facts.delivering or {}
    for one in facts.subscriptions if delivering or facts.saturated else ():
        found = delivering.get(one.key)
        if found is not None:
            yield from filter(None, (_latency(one, found, book, active), _errors(one, found, book, active)))
        if one.key in facts.saturated:
            yield _saturated(one)


_PAUSED: Final = "paused"
_WHAT: Final = {
    Verdict.SLOW: N_("{name} of {destination} falls behind: {count} messages wait on the broker, more and more"),
    Verdict.STALLED: N_(
        "{name} of {destination} does not get on: {count} messages wait on the broker, and none is finished"
    ),
    Verdict.STOPPED: N_("nobody reads for {name} of {destination}: {count} messages wait on the broker"),
    _PAUSED: N_("somebody has paused {name} of {destination} on the broker: {count} messages wait there"),
}
_STEP: Final = {
    Verdict.SLOW: N_("see how fast it answers, and how many permits it has"),
    Verdict.STALLED: N_(
        "see what its dispatchers have in flight, and their logs; restart the one that does not get on"
    ),
    Verdict.STOPPED: N_("see whether a dispatcher is alive that reaches the broker, and its log"),
    _PAUSED: N_("resume it there; to pause it for a while, pause the subscription instead"),
}


def _stalled(one: Subscription, found: Progress, waiting: int) -> Alarm:
    manner = _PAUSED if found.is_paused else found.verdict
    what = localized(_WHAT[manner], name=one.name, destination=one.destination, count=waiting)
    if found.where:
        what = localized("{what} ({where})", what=what, where=listed(found.where, _MOST_PARTS))
    alarm = _alarm("stalled", one, what, localized(_STEP[manner]), found.since)
    return alarm._replace(severity=Severity.CRITICAL) if found.verdict is Verdict.STOPPED else alarm


def _backlog(one: Subscription, found: Backlog, book: Rulebook, active: Collection[str]) -> Alarm | None:
    records = found.records or 0
    if not book.is_over("backlog", records, own=one.alarms.backlog, was=_key("backlog", one) in active):
        return None
    what = localized(
        "{count} messages wait for {name} of {destination}", count=records, name=one.name, destination=one.destination
    )
    return _alarm("backlog", one, what, _SLOW, found.oldest)


def _age(one: Subscription, found: Backlog, now: int, book: Rulebook, active: Collection[str]) -> Alarm | None:
    if found.oldest is None or not found.oldest:  # 0: of any age, as far as is known
        return None
    age = now - found.oldest
    if not book.is_over("age", age, own=one.alarms.age, was=_key("age", one) in active):
        return None
    what = localized(
        "the oldest message that waits for {name} of {destination} does so for {age}",
        name=one.name,
        destination=one.destination,
        age=about(age),
    )
    return _alarm("age", one, what, _SLOW, found.oldest)


def _latency(one: Subscription, found: DeliveryRates, book: Rulebook, active: Collection[str]) -> Alarm | None:
    was = _key("latency", one) in active
    if found.p99 is None or not book.is_over("latency", found.p99, own=one.alarms.p99, was=was):
        return None
    what = localized(
        "deliveries to {name} of {destination} are late: p99 is {taken}",
        name=one.name,
        destination=one.destination,
        taken=about(round(found.p99)),
    )
    return _alarm("latency", one, what, _SLOW)


def _errors(one: Subscription, found: DeliveryRates, book: Rulebook, active: Collection[str]) -> Alarm | None:
    if found.attempts < _LEAST_ATTEMPTS:
        return None
    share = found.failed / found.attempts
    if not book.is_over("errors", share, own=one.alarms.error_rate, was=_key("errors", one) in active):
        return None
    what = localized(
        "{share} of the attempts at {name} of {destination} fail: {failed} of the last {attempts}",
        share=f"{share:.0%}",
        failed=found.failed,
        attempts=found.attempts,
        name=one.name,
        destination=one.destination,
    )
    step = localized("look at its failures: repair it, or edit and resend what it refuses; the rest is tried again")
    return _alarm("errors", one, what, step)


def _saturated(one: Subscription) -> Alarm:
    what = localized(
        "all {count} permits of {name} of {destination} are in use, and deliveries wait for one",
        count=one.max_concurrency,
        name=one.name,
        destination=one.destination,
    )
    step = localized("it answers too slowly for what comes: make it faster, or raise its max_concurrency")
    return _alarm("saturated", one, what, step)


_SLOW: Final = localized("see how fast it answers, whether it fails, and how many permits it has")


def _key(rule: str, one: Subscription) -> str:
    """Return the key of an alarm of a subscription, as `Alarm.key` does, before there is one."""
    return f"{rule}:{one.destination}/{one.name}"


def _alarm(rule: str, one: Subscription, what: LocalizedText, step: LocalizedText, since: int | None = None) -> Alarm:
    link = f"destinations/{one.destination}/subscriptions/{one.name}"
    return Alarm(rule, Severity.WARNING, what, step, link, since, *one.key)
