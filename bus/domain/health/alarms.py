"""Alarms from facts about the bus, the worst first, grouped by cause."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Final

from bus.domain.health.alarm import Alarm
from bus.domain.health.causes import with_causes
from bus.domain.health.facts import Backlog, Facts
from bus.domain.health.rulebook import Rulebook
from bus.domain.health.rules import (
    brokers,
    certificates,
    disks,
    findings,
    processes,
    producers,
    service,
    spools,
    stores,
    subscribers,
)

_AS_SHIPPED: Final = Rulebook()
_NOTHING: Final = Backlog(0, None)
_FROM_STORE: Final[Mapping[str, Callable[[Facts], object]]] = {
    "dead": lambda facts: facts.dead,
    "latency": lambda facts: facts.delivering,
    "errors": lambda facts: facts.delivering,
    "store-replica": lambda facts: facts.store,
    "store-oplog": lambda facts: facts.store,
    "store-checkpoint": lambda facts: facts.store,
    "volume-low": lambda facts: facts.accepted,
    "volume-high": lambda facts: facts.accepted,
    "norm": lambda facts: facts.findings,
    "proof": lambda facts: facts.findings,
}


def alarms(facts: Facts, book: Rulebook = _AS_SHIPPED, active: Collection[str] = ()) -> list[Alarm]:
    """Return the alarms, the worst first, and among equals the oldest first.

    ``active`` are the keys of those that have been found already: what is over a limit is so until well below.
    """
    found = [
        *processes.roles(facts),
        *brokers.clusters(facts),
        *stores.store(facts, book, active),
        *processes.unreachable(facts),
        *processes.parts(facts),
        *processes.orphans(facts),
        *disks.disks(facts, book, active),
        *spools.queues(facts, book, active),
        *certificates.certificates(facts, book, active),
        *subscribers.breakers(facts),
        *subscribers.gone(facts),
        *service.progress(facts),
        *subscribers.dead(facts, book),
        *service.waiting(facts, book, active),
        *service.serving(facts, book, active),
        *brokers.publishing(facts),
        *producers.rejected(facts),
        *producers.turned_away(facts),
        *producers.queues(facts, book, active),
        *producers.volumes(facts),
        *findings.norms(facts),
        *findings.proof(facts),
    ]
    known = book.applied(with_causes(found, facts))
    return sorted(known, key=lambda one: (one.severity.rank, one.since is None, one.since or 0, str(one.what)))


def is_known(facts: Facts, key: str) -> bool:
    """Whether the facts can show that an alarm is over; one without facts stays as it was."""
    if facts.is_blind:
        return False
    rule, _, subject = key.partition(":")
    if rule in _FROM_STORE:
        return _FROM_STORE[rule](facts) is not None
    code, _, name = subject.partition("/")
    return rule not in {"age", "backlog"} or facts.waiting.get((code, name), _NOTHING).records is not None
