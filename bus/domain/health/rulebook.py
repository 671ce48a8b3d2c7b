"""The rules of alarms: how long a condition lasts before an alarm, how long it is gone before the end, limits."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

import msgspec

from bus.domain.health.alarm import Alarm, Severity
from bus.domain.times import DAY, HOUR, MINUTE, SECOND
from bus.localized_text import N_

VOLUME_WINDOW: Final = 10 * MINUTE
"""Time (ms) over which ``pv_min`` and ``pv_max`` count messages."""
TIMES: Final = frozenset(
    {"age", "certificate", "latency", "producer-queue", "spool-age", "store-oplog", "store-replica"}
)
"""Rules whose limit is a time."""
HYSTERESIS: Final = 0.8
"""A value over its limit counts until it is below this share of it; one short of it, until the limit is."""


class Rule(NamedTuple):
    """One rule.

    Attributes
    ----------
    says
        Its meaning, for lists of rules.
    hold
        Milliseconds for which it must have been found before a notification.
    clear
        Milliseconds for which it must be gone before it is over.
    limit
        From where on, or for what must be left up to where; None for a rule without one. Ages and times in
        milliseconds.
    """

    says: str
    hold: int
    clear: int = MINUTE
    limit: float | None = None


# What others follow from comes first.
RULES: Final[Mapping[str, Rule]] = {
    "role-missing": Rule(N_("no process has a role that the bus needs"), 30 * SECOND),
    "broker-partition": Rule(N_("nodes of a cluster of brokers do not see each other"), 0),
    "broker-node": Rule(N_("a node of a cluster of brokers is down"), MINUTE),
    "broker-memory": Rule(N_("a broker takes no messages, for want of memory"), 30 * SECOND),
    "broker-disk": Rule(N_("a broker takes no messages, for want of room on its disk"), 30 * SECOND),
    "broker-flow": Rule(N_("a broker slows connections down"), 2 * MINUTE, 2 * MINUTE),
    "store-replica": Rule(N_("a server of the store is down, or far behind"), MINUTE, limit=MINUTE),
    "store-oplog": Rule(N_("the store's oplog covers a short time"), 10 * MINUTE, limit=DAY),
    "store-checkpoint": Rule(N_("a log of the embedded store grows"), 5 * MINUTE, limit=256 * 2**20),
    "process-unreachable": Rule(N_("a process is unreachable"), MINUTE),
    "part-down": Rule(N_("a part of a process is not well: a broker, the store, a disk"), 30 * SECOND),
    "disk": Rule(N_("a disk is nearly full, or will be within a day"), 30 * SECOND, limit=0.15),
    "spool-full": Rule(N_("a local queue is nearly full"), 30 * SECOND, limit=0.8),
    "spool-age": Rule(N_("a record waits in a local queue"), MINUTE, limit=15 * MINUTE),
    "spool-damaged": Rule(N_("damaged records were set aside"), 0),
    "quarantine": Rule(N_("records on the brokers are not messages of the bus"), 0),
    "failed-over": Rule(N_("a receiver publishes to another cluster than the primary one"), 30 * SECOND),
    "chosen-cluster": Rule(N_("a receiver publishes to another cluster, as chosen by hand"), HOUR),
    "orphans": Rule(N_("queues of processes that are gone wait"), 15 * MINUTE),
    "certificate": Rule(N_("the certificate of a subscriber ends soon"), MINUTE, limit=14 * DAY),
    "breaker-open": Rule(N_("a subscriber fails so much that it is only probed"), 2 * MINUTE, 2 * MINUTE),
    "subscriber-gone": Rule(N_("a subscriber answered 410 Gone"), 0),
    "stalled": Rule(N_("what waits on a broker for a subscriber is not worked off"), MINUTE, 2 * MINUTE),
    "dead": Rule(N_("deliveries are given up"), 0, 5 * MINUTE, limit=1),
    "backlog": Rule(N_("messages wait for a subscriber"), 5 * MINUTE, limit=10_000),
    "age": Rule(N_("the oldest message that waits for a subscriber is old"), 5 * MINUTE, limit=15 * MINUTE),
    "latency": Rule(N_("a subscriber is slow: p99 from accepted to delivered"), 5 * MINUTE, 5 * MINUTE),
    "errors": Rule(N_("attempts at a subscriber fail"), 5 * MINUTE, 5 * MINUTE, limit=0.5),
    "saturated": Rule(N_("all permits of a subscriber are in use, and deliveries wait"), 15 * MINUTE, 5 * MINUTE),
    "rejected": Rule(N_("messages are refused for good"), 0, 5 * MINUTE),
    "turned-away": Rule(N_("messages are refused for now"), MINUTE, 5 * MINUTE),
    "producer-queue": Rule(N_("messages wait in a producer's queue"), 2 * MINUTE, limit=15 * MINUTE),
    "volume-low": Rule(N_("fewer messages come than usual"), 0, 0),
    "volume-high": Rule(N_("more messages come than usual"), 0, 0),
    "norm": Rule(N_("the pipeline finds a volume, latency or failures outside of what is usual at that hour"), 0, 0),
    "proof": Rule(N_("a proof of the pipeline misses deliveries, or its witnesses contradict each other"), 0, 0),
}


class Change(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Changes of a rule in an installation; None for no change.

    ``severity`` replaces that of its alarms, ``off`` sends no notification of them.
    """

    hold: int | None = None
    clear: int | None = None
    limit: float | None = None
    severity: Severity | None = None
    off: bool = False


_AS_IT_IS: Final = Change()
_OF_ANOTHER_VERSION: Final = Rule("", 0)


class Rulebook:
    """All rules, as they are in force in an installation."""

    def __init__(self, changes: Mapping[str, Change] = {}) -> None:
        self._rules = {name: _changed(rule, changes.get(name)) for name, rule in RULES.items()}
        self._changes = changes

    def __getitem__(self, name: str) -> Rule:
        """Return a rule by name; for one of another version, a rule that is over a minute after its condition."""
        return self._rules.get(name, _OF_ANOTHER_VERSION)

    def change(self, name: str) -> Change:
        """Return the changes of a rule in this installation."""
        return self._changes.get(name, _AS_IT_IS)

    def applied(self, found: Iterable[Alarm]) -> Iterator[Alarm]:
        """Yield the alarms with the severity of this installation, without those that it has switched off."""
        for one in found:
            change = self.change(one.rule)
            if not change.off:
                yield one._replace(severity=change.severity) if change.severity is not None else one

    def is_over(self, rule: str, value: float, *, own: float | None, was: bool) -> bool:
        """Whether a value is at or over a limit: its own, or else the rule's; once it was, until it is well below."""
        limit = own if own is not None else self._rules[rule].limit
        return limit is not None and value >= limit * (HYSTERESIS if was else 1)

    def is_short(self, rule: str, left: float, *, was: bool) -> bool:
        """Whether less is left than a rule's limit; once it was, until it is well above."""
        limit = self._rules[rule].limit
        return limit is not None and left < limit / (HYSTERESIS if was else 1)


def _changed(rule: Rule, change: Change | None) -> Rule:
    if change is None:
        return rule
    given = {name: value for name in ("hold", "clear", "limit") if (value := getattr(change, name)) is not None}
    return rule._replace(**given)
