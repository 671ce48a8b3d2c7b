"""Alarms of local queues: full ones, damaged ones, and files that are not the bus's."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Final

from bus.domain.durations import about
from bus.domain.health.alarm import Alarm, Severity
from bus.domain.health.facts import Facts, Queue
from bus.domain.health.rulebook import Rulebook
from bus.localized_text import LocalizedText, localized

_QUARANTINE: Final = "quarantine"


def queues(facts: Facts, book: Rulebook, active: Collection[str]) -> Iterator[Alarm]:
    """Yield the alarms of local queues."""
    for queue in facts.queues:
        found = (_filling(queue, book, active), _old(queue, facts.now, book, active), _damaged(queue), _foreign(queue))
        yield from filter(None, found)


def _alarm(
    rule: str, queue: Queue, severity: Severity, what: LocalizedText, step: LocalizedText, since: int | None
) -> Alarm:
    subject = f"{queue.name}@{queue.owner}"
    return Alarm(rule, severity, what, step, f"processes/{queue.owner}", since, subject=subject)


def _filling(queue: Queue, book: Rulebook, active: Collection[str]) -> Alarm | None:
    figures, where = queue.figures, {"name": queue.name, "node": queue.node}
    step = localized("find what its consumers wait for (store, broker, subscriber), or raise spool_limit")
    if figures.used >= 1:
        what = localized("spool {name} of {node} is full: new records are refused; nothing stored is lost", **where)
        return _alarm("spool-full", queue, Severity.CRITICAL, what, step, figures.oldest)
    used = f"{figures.used:.0%}"
    what = localized("spool {name} of {node} is {used} full; nothing stored is lost", used=used, **where)
    found = _alarm("spool-full", queue, Severity.WARNING, what, step, figures.oldest)
    return found if book.is_over("spool-full", figures.used, own=None, was=found.key in active) else None


def _old(queue: Queue, now: int, book: Rulebook, active: Collection[str]) -> Alarm | None:
    if queue.figures.oldest is None or queue.name == _QUARANTINE:
        return None
    age = now - queue.figures.oldest
    what = localized(
        "the oldest record of spool {name} of {node} waits for {age}; nothing stored is lost",
        name=queue.name,
        node=queue.node,
        age=about(age),
    )
    step = localized("find what its consumers wait for: the store, a broker, a subscriber, a rate")
    found = _alarm("spool-age", queue, Severity.WARNING, what, step, queue.figures.oldest)
    return found if book.is_over("spool-age", age, own=None, was=found.key in active) else None


def _damaged(queue: Queue) -> Alarm | None:
    if not queue.figures.damaged:
        return None
    what = localized(
        "{count} damaged records of spool {name} of {node} were set aside",
        count=queue.figures.damaged,
        name=queue.name,
        node=queue.node,
    )
    step = localized("see docs/operations.md, Damaged files")
    return _alarm("spool-damaged", queue, Severity.WARNING, what, step, None)


def _foreign(queue: Queue) -> Alarm | None:
    if queue.name != _QUARANTINE or not queue.figures.records:
        return None
    what = localized(
        "{count} records on the brokers are not messages of the bus; {node} has set them aside",
        count=queue.figures.records,
        node=queue.node,
    )
    step = localized("find who else writes there; look at them with bus spool show")
    return _alarm("quarantine", queue, Severity.WARNING, what, step, queue.figures.oldest)
