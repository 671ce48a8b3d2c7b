"""The store: servers that are down or behind, an oplog that is too short, a log that does not come into its file."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Final

from bus.domain.durations import about
from bus.domain.health.alarm import Alarm, Severity
from bus.domain.health.facts import Facts
from bus.domain.health.rulebook import Rulebook
from bus.domain.health.vitals import ReplicaFigures, StoreFigures
from bus.domain.sizes import format_size
from bus.domain.times import MINUTE
from bus.localized_text import LocalizedText, localized

_WELL: Final = frozenset({"PRIMARY", "SECONDARY", "ARBITER"})
_FULL: Final = 0.9
"""Share in use below which the reach of an oplog is not known yet: it still grows."""
_LONG: Final = 10 * MINUTE
_STORE: Final = "store"


def store(facts: Facts, book: Rulebook, active: Collection[str]) -> Iterator[Alarm]:
    """Yield the alarms of the store, as far as it reports its state."""
    found = facts.store
    if found is None:
        return
    has_primary = any(one.state == "PRIMARY" for one in found.members)
    for one in found.members:
        yield from _member(one, book, active, has_primary=has_primary)
    yield from _oplog(found, book, active)
    yield from _log(found, book, active)


def _member(one: ReplicaFigures, book: Rulebook, active: Collection[str], *, has_primary: bool) -> Iterator[Alarm]:
    was = f"store-replica:{one.name}" in active
    if one.state not in _WELL:
        what = localized("{name} of the store's replica set is {state}", name=one.name, state=one.state)
        step = localized("start it, or see its log; without a majority the store takes no writes")
        severity = Severity.WARNING if has_primary else Severity.CRITICAL
        yield _alarm("store-replica", severity, one.name, what, step)
    elif book.is_over("store-replica", one.behind, own=None, was=was):
        time = about(one.behind)
        what = localized("{name} of the store's replica set is {time} behind the primary", name=one.name, time=time)
        step = localized("see its disk and its network; writes wait for a majority")
        yield _alarm("store-replica", Severity.WARNING, one.name, what, step)


def _oplog(found: StoreFigures, book: Rulebook, active: Collection[str]) -> Iterator[Alarm]:
    was = f"store-oplog:{_STORE}" in active
    is_short = found.oplog is not None and book.is_short("store-oplog", found.oplog, was=was)
    if found.oplog is not None and is_short and found.oplog_used >= _FULL:
        what = localized(
            "the store's oplog goes back {time}: a member that is away for longer has to copy everything anew",
            time=about(found.oplog),
        )
        step = localized("make it larger: replSetResizeOplog, or minRetentionHours")
        yield _alarm("store-oplog", Severity.WARNING, _STORE, what, step)


def _log(found: StoreFigures, book: Rulebook, active: Collection[str]) -> Iterator[Alarm]:
    was = f"store-checkpoint:{_STORE}" in active
    if found.unfolded >= _LONG and book.is_over("store-checkpoint", found.log, own=None, was=was):
        what = localized(
            "a write-ahead log of the store has {size}, and nothing of it came into its file for {time}",
            size=format_size(found.log),
            time=about(found.unfolded),
        )
        step = localized("somebody reads the store for very long: see who has its files open, and end that")
        yield _alarm("store-checkpoint", Severity.WARNING, _STORE, what, step)


def _alarm(rule: str, severity: Severity, subject: str, what: LocalizedText, step: LocalizedText) -> Alarm:
    return Alarm(rule, severity, what, step, "health", None, subject=subject, cause=f"part:{_STORE}")
