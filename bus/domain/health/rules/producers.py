"""Alarms of producers: messages refused permanently or for now, and backlogs in their queues."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Final

from bus.domain.durations import about
from bus.domain.health.alarm import Alarm, Severity
from bus.domain.health.facts import Facts, ProducerQueue
from bus.domain.health.rulebook import VOLUME_WINDOW, Rulebook
from bus.domain.health.vitals import USED_KEY_RATE, USED_RATE, USED_SHARE, RejectedFigures, TurnedAwayFigures
from bus.domain.times import MINUTE
from bus.localized_text import N_, localized

_UNKNOWN: Final = 404
_TURNED_AWAY: Final = {
    USED_SHARE: N_("{count} messages to {destination} were refused for now: what waits fills its share of the spool"),
    USED_RATE: N_("{count} messages to {destination} were refused for now: more come than its rate allows"),
    USED_KEY_RATE: N_("{count} messages of {key} were refused for now: it sends more than its rate allows"),
}
SEND_AGAIN: Final = localized(
    "their producer keeps them, see bus spool ls where it runs; bus spool drain --rejected sends them again"
)
"""Hint for messages that were refused permanently."""
MAKE_ROOM: Final = {
    USED_SHARE: N_("producers send them again; see what it waits for: a pause, the store, a broker, a subscriber"),
    USED_RATE: N_("producers send them again; find who sends so many, or raise the rate of the destination"),
    USED_KEY_RATE: N_("producers send them again; find why it sends so many, or raise the rate of the key"),
}
"""Hint for messages that are refused for now."""


def rejected(facts: Facts) -> Iterator[Alarm]:
    """Yield the producers whose messages are refused permanently."""
    found: dict[tuple[str, str], list[RejectedFigures]] = {}
    for figures in facts.rejected:
        found.setdefault((figures.source, figures.destination), []).append(figures)
    for (source, destination), parts in found.items():
        what = localized(
            "{count} messages of {source} to {destination} were refused for good with {status}: {reason}",
            count=sum(figures.count for figures in parts),
            source=source or "-",
            destination=destination,
            status=parts[-1].status,
            reason=parts[-1].reason,
        )
        # One that is not there concerns the whole bus: who may see single destinations must not see it.
        place = None if parts[-1].status == _UNKNOWN else destination
        link = "destinations" if place is None else f"destinations/{place}"
        since = min(figures.since for figures in parts)
        subject = f"{source}>{destination}"
        # Of all that is sent to nowhere one: sources and codes are what anybody writes.
        cause = f"rejected:{place or ''}"
        yield Alarm("rejected", Severity.WARNING, what, SEND_AGAIN, link, since, place, subject=subject, cause=cause)


def turned_away(facts: Facts) -> Iterator[Alarm]:
    """Yield the destinations or keys whose messages are refused for now."""
    found: dict[tuple[str, str], list[TurnedAwayFigures]] = {}
    for figures in facts.turned_away:
        found.setdefault((figures.whose, figures.why), []).append(figures)
    for (whose, why), parts in found.items():
        count, since = sum(figures.count for figures in parts), min(figures.since for figures in parts)
        of_key = why == USED_KEY_RATE
        what = localized(_TURNED_AWAY[why], count=count, **{"key" if of_key else "destination": whose})
        link, place = ("keys", None) if of_key else (f"destinations/{whose}", whose)
        # A rate is refused as a person wants it; a spool that one destination fills may need a person.
        severity = Severity.WARNING if why == USED_SHARE else Severity.INFO
        step = localized(MAKE_ROOM[why])
        yield Alarm("turned-away", severity, what, step, link, since, place, subject=f"{why}@{whose}")


def queues(facts: Facts, book: Rulebook, active: Collection[str]) -> Iterator[Alarm]:
    """Yield the sources whose messages have waited for long in the queues of their producers."""
    # A sweeper's view has the place of the queue, and is newer than the report of its producer.
    seen = {one.figures.id: one for one in sorted(facts.producers, key=lambda one: bool(one.figures.path))}
    found: dict[str, list[ProducerQueue]] = {}
    for queue in seen.values():
        found.setdefault(queue.figures.source, []).append(queue)
    for source, those in found.items():
        was = f"producer-queue:{source}" in active
        late = [one for one in those if book.is_over("producer-queue", one.figures.oldest, own=None, was=was)]
        if late:
            yield _waiting(source, late)


def _waiting(source: str, late: Sequence[ProducerQueue]) -> Alarm:
    first = max(late, key=lambda one: one.figures.oldest)
    count, age = sum(one.figures.records for one in late), about(first.figures.oldest)
    what = localized(
        "{count} messages wait in the queues of {source}, the first of them for {age}",
        count=count,
        source=source,
        age=age,
    )
    if first.figures.path:
        what = localized("{what} ({where})", what=what, where=f"{first.host}:{first.figures.path}")
    step = localized(
        "see whether it reaches a receiver, and whether messages are refused for now: bus spool ls where it runs"
    )
    return Alarm("producer-queue", Severity.WARNING, what, step, "processes", None, subject=source)


def volumes(facts: Facts) -> Iterator[Alarm]:
    """Yield the destinations to which more, or fewer, messages come than a person expects."""
    for code, destination in facts.destinations.items():
        if facts.accepted is None:
            return
        count, minutes = facts.accepted.get(code, 0), VOLUME_WINDOW // MINUTE
        link = f"destinations/{code}"
        if destination.pv_min is not None and count < destination.pv_min:
            what = localized(
                "{count} messages to {destination} in {minutes} minutes, fewer than its pv_min of {limit}",
                count=count,
                destination=code,
                minutes=minutes,
                limit=destination.pv_min,
            )
            step = localized("see whether its producers run and reach a receiver: bus spool ls where they run")
            yield Alarm("volume-low", Severity.WARNING, what, step, link, None, code)
        elif destination.pv_max is not None and count > destination.pv_max:
            what = localized(
                "{count} messages to {destination} in {minutes} minutes, more than its pv_max of {limit}",
                count=count,
                destination=code,
                minutes=minutes,
                limit=destination.pv_max,
            )
            step = localized("see which of its producers sends so many: statistics by source; a rate bounds them")
            yield Alarm("volume-high", Severity.WARNING, what, step, link, None, code)
