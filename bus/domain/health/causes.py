"""Causes that several alarms have in common: one notification for each cause, for as long as it lasts."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from bus.domain.health.alarm import Alarm
from bus.domain.health.facts import Facts, Lane
from bus.domain.health.rules.disks import cause_of, is_full
from bus.domain.health.vitals import BrokerFigures
from bus.domain.subscription import Subscription

_STORE: Final = "store"
_OF_STORE: Final = frozenset({"configuration", "events", "order", "permits", "retention", "stuck"})
"""Parts that are unhealthy while the store is unreachable."""
_OF_ROLES: Final = {"dispatchers": "dispatcher"}
"""Parts that processes report as unhealthy while no process has a role."""
_WAITS: Final = frozenset({"age", "backlog", "latency", "saturated", "stalled"})
"""Rules of a subscription whose messages do not get to the dispatchers, or from there to the subscriber."""
_NORMS: Final = {"volume": ("volume-low", "backlog"), "latency": ("latency",), "failure": ("errors",)}
"""Rules that correspond to a deviation from a norm, by metric; of a destination only the first."""
_SPOOLS: Final = frozenset({"spool-age", "spool-full"})
_WITHOUT: Final = {
    "dispatcher": _WAITS | _SPOOLS,
    "receiver": frozenset({"producer-queue", "volume-low"}),
    "compensator": frozenset(),
}


class _CandidateCauses(NamedTuple):
    """Possible causes: parts that are unhealthy, roles without a process, hosts of subscribers that are down.

    ``full`` has the cause of the full disk of a process, by its owner; ``own`` are the causes of subscriptions that
    have a trouble of their own.
    """

    parts: Collection[str]
    missing: Collection[str]
    down: Collection[str]
    full: Mapping[str, str]
    subscriptions: Mapping[Lane, Subscription]
    own: Collection[str]


def with_causes(found: Sequence[Alarm], facts: Facts) -> list[Alarm]:
    """Return the alarms, each with its cause and its owner."""
    subscriptions = {one.key: one for one in facts.subscriptions}
    known = _CandidateCauses(
        parts={part.name for part in facts.parts}
        | {one.cluster for one in facts.brokers if _is_ill(one)}
        | _lasting(facts, "part:"),
        missing={alarm.subject for alarm in found if alarm.rule == "role-missing"} | _lasting(facts, "role:"),
        down=_lasting(facts, "host:")
        | {
            _host(subscriptions[lane])
            for breaker in facts.breakers
            if (lane := (breaker.destination, breaker.subscription)) in subscriptions
        },
        full={disk.owner: cause_of(disk) for disk in facts.disks if is_full(disk.figures)},
        subscriptions=subscriptions,
        own={_own(lane) for one in found if one.rule not in _APART for lane in filter(None, [_lane(one)])}
        | {cause for cause in facts.lasting if cause.startswith("subscription:")},
    )
    return [one._replace(cause=_cause(one, known, facts), owner=_owner(one, subscriptions, facts)) for one in found]


def _lasting(facts: Facts, kind: str) -> set[str]:
    return {cause.removeprefix(kind) for cause in facts.lasting if cause.startswith(kind)}


def _is_ill(broker: BrokerFigures) -> bool:
    """Whether a cluster's administration reports a condition that holds messages up."""
    alarms = any(node.partitions or node.memory_alarm or node.disk_alarm for node in broker.nodes)
    return alarms or broker.in_flow > 0


def _cause(alarm: Alarm, known: _CandidateCauses, facts: Facts) -> str:
    if alarm.rule == "part-down":
        name = alarm.cause.removeprefix("part:")
        return f"role:{_OF_ROLES[name]}" if name in _OF_ROLES else f"part:{_part(name, known.parts)}"
    if alarm.cause:
        return alarm.cause
    rules = _rules(alarm)
    for role in known.missing:
        if not _WITHOUT.get(role, frozenset()).isdisjoint(rules):
            return f"role:{role}"
    if alarm.rule in _SPOOLS:
        return _cause_of_spool(alarm, known)
    if (lane := _lane(alarm)) is not None:
        cause = _cause_of_lane(rules[-1], lane, known, facts)
        if alarm.rule != "norm" or cause != _own(lane) or cause in known.own:
            return cause
    return f"destination:{alarm.destination}" if alarm.destination is not None else alarm.key


def _rules(alarm: Alarm) -> tuple[str, ...]:
    """Return the rules that determine the cause of an alarm."""
    if alarm.rule != "norm":
        return (alarm.rule,)
    found = _NORMS.get(alarm.subject.partition("@")[0], ())
    return found if alarm.subscription else found[:1]


def _cause_of_spool(alarm: Alarm, known: _CandidateCauses) -> str:
    name, _, owner = alarm.subject.partition("@")
    if alarm.rule == "spool-full" and owner in known.full:
        return known.full[owner]
    return f"part:{_STORE}" if _STORE in known.parts else f"spool:{name}"


_OF_ITS_OWN: Final = frozenset({"dead", "subscriber-gone"})
"""Rules whose alarms a person must see although the same subscriber, or its host, has had another alarm for long."""
_APART: Final = frozenset({"norm", "proof", *_OF_ITS_OWN})
"""Rules whose alarms do not explain a deviation from a norm of a subscription."""


def _cause_of_lane(rule: str, lane: Lane, known: _CandidateCauses, facts: Facts) -> str:
    if rule in _OF_ITS_OWN:
        return f"{rule}:{'/'.join(lane)}"
    destination, subscription = facts.destinations.get(lane[0]), known.subscriptions.get(lane)
    if rule in _WAITS and destination is not None:
        carrying = sorted(part for part in known.parts if part.startswith(destination.transport))
        if carrying:
            return f"part:{_part(carrying[0], known.parts)}"
    if subscription is not None and (host := _host(subscription)) in known.down:
        return f"host:{host}"
    return _own(lane)


def _lane(alarm: Alarm) -> Lane | None:
    return (alarm.destination, alarm.subscription) if alarm.destination and alarm.subscription else None


def _own(lane: Lane) -> str:
    return f"subscription:{'/'.join(lane)}"


def _part(name: str, parts: Collection[str]) -> str:
    """Return the part that one depends on, if that is unhealthy too, or else itself."""
    if name in _OF_STORE and _STORE in parts:
        return _STORE
    first, _, rest = name.partition(" ")
    return first if rest and first in parts else name


def _host(subscription: Subscription) -> str:
    return urlsplit(subscription.url).netloc


def _owner(alarm: Alarm, subscriptions: Mapping[Lane, Subscription], facts: Facts) -> str:
    """Return the configured owner: the subscription's, or else the destination's."""
    of = (alarm.destination or "", alarm.subscription or "")
    if of in subscriptions and (owner := subscriptions[of].owner):
        return owner
    destination = facts.destinations.get(of[0])
    return destination.owner if destination is not None else ""
