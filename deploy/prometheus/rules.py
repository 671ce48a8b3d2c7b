"""The rules of alarms as rules of Prometheus, from the same table as those that the bus tells people of itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from bus.domain.health.rulebook import RULES
from bus.domain.times import SECOND

_RUNBOOK: Final = "docs/alarms.md"


class Query(NamedTuple):
    """How a rule is found in metrics.

    Attributes
    ----------
    expression
        With ``{limit}`` where the rule's limit stands.
    summary
        With labels of the expression.
    unit
        By what a limit is divided: metrics are in seconds.
    """

    expression: str
    severity: str
    summary: str
    unit: int = 1


_LANE: Final = "{{ $labels.destination }}/{{ $labels.subscription }}"
_PROCESS: Final = "{{ $labels.role }} {{ $labels.instance }}"
QUERIES: Final[Mapping[str, Query]] = {
    "role-missing": Query(
        " or ".join(f'absent(bus_role{{name="{role}"}})' for role in ("receiver", "dispatcher", "compensator")),
        "critical",
        "no {{ $labels.name }} is alive",
    ),
    "part-down": Query(
        "max by (part) (bus_degraded) > 0",
        "critical",
        "{{ $labels.part }} is not well: see /readyz of any process, or bus doctor",
    ),
    "spool-full": Query(
        "max by (role, instance, spool) (bus_spool_bytes / bus_spool_limit_bytes) >= {limit}",
        "warning",
        _PROCESS + ": {{ $labels.spool }} is {{ $value | humanizePercentage }} full",
    ),
    "spool-age": Query(
        "max by (role, instance, spool, consumer) (bus_spool_oldest_seconds) >= {limit}",
        "warning",
        _PROCESS + ": records in {{ $labels.spool }} wait for {{ $labels.consumer }}",
        unit=SECOND,
    ),
    "spool-damaged": Query(
        "max by (role, instance, spool) (bus_spool_damaged) > 0",
        "warning",
        _PROCESS + ": damaged records in {{ $labels.spool }} were set aside",
    ),
    "quarantine": Query(
        "sum by (transport) (increase(bus_quarantined_total[10m])) > 0",
        "warning",
        "on {{ $labels.transport }} there are records that are no messages of the bus",
    ),
    "breaker-open": Query(
        "max by (subscription) (bus_breaker_state) == 2",
        "warning",
        "{{ $labels.subscription }} gets no attempts but probes",
    ),
    "dead": Query(
        "sum by (destination, subscription) (increase(bus_deliveries_dead_total[1h])) >= {limit}",
        "warning",
        _LANE + ": deliveries are dead; bus failures groups them",
    ),
    # What several processes say of a broker is the same; what each has in its direct queue is its own.
    "backlog": Query(
        "sum by (destination, subscription) ("
        'max by (destination, subscription, transport) (bus_broker_backlog{{transport!="direct"}})'
        ' or sum by (destination, subscription, transport) (bus_broker_backlog{{transport="direct"}})) >= {limit}',
        "warning",
        _LANE + ": {{ $value }} messages wait",
    ),
    "errors": Query(
        "1 - (sum by (destination, subscription) "
        '(increase(bus_deliveries_total{{status="delivered"}}[5m]))'
        " / sum by (destination, subscription) (increase(bus_delivery_attempt_seconds_count[5m]))) >= {limit}"
        " and sum by (destination, subscription) (increase(bus_delivery_attempt_seconds_count[5m])) >= 10",
        "warning",
        _LANE + ": {{ $value | humanizePercentage }} of the attempts fail",
    ),
    "saturated": Query(
        "sum by (subscription) (bus_permits_in_use) >= sum by (subscription) (bus_permits_max) > 0",
        "warning",
        "{{ $labels.subscription }}: all permits are in use",
    ),
    "turned-away": Query(
        "sum by (destination, reason) (increase(bus_messages_turned_away_total[5m])) > 0",
        "warning",
        "{{ $labels.destination }}: messages are refused for now, {{ $labels.reason }}",
    ),
}
TOLD: Final = tuple(name for name in RULES if name not in QUERIES)
"""Rules that no other metric has: the bus tells of them itself, in ``bus_alarm``."""
_HOLD_TOLD: Final = "0s"
OWN: Final[Mapping[str, tuple[str, str, str, str]]] = {
    "PierIsWatchedFor": ("vector(1)", "0s", "none", "always: its silence is the alarm"),
    "PierProcessDoesNotAnswer": ('up{job="pier"} == 0', "2m", "critical", _PROCESS + " is not scraped"),
    "PierNobodyWatches": (
        'absent(bus_role{name="alarms"})',
        "2m",
        "warning",
        "no process has the role alarms: the bus tells nobody by itself",
    ),
    "PierChannelIsDeaf": (
        'sum by (channel) (increase(bus_alarm_notices_total{outcome="failed"}[15m])) > 2',
        "0s",
        "warning",
        "channel {{ $labels.channel }} does not take what it is told",
    ),
    "PierTraceEventsAreLost": (
        'sum by (why) (increase(bus_events_lost_total{why!="limit"}[10m])) > 0',
        "0s",
        "warning",
        "trace events are lost: {{ $labels.why }}",
    ),
    "PierEventLoopIsHeldUp": (
        (
            "sum by (role, instance) (increase(bus_loop_stall_seconds_count[5m]) - ignoring (le)"
            ' increase(bus_loop_stall_seconds_bucket{le="0.1"}[5m])) > 10'
        ),
        "10m",
        "warning",
        _PROCESS + " stands still for over 0.1 s again and again",
    ),
}
"""Of Prometheus alone: what a bus cannot say of itself."""


def name_of(rule: str) -> str:
    """Return the name of a rule's alert: ``PierSpoolFull``."""
    return "Pier" + "".join(word.capitalize() for word in rule.split("-"))


def document() -> dict[str, Any]:
    """Return what the file of rules has in it."""
    groups = {"bus": _found(), "told": _told(), "around": _around()}
    return {"groups": [{"name": f"pier-{name}", "rules": list(rules)} for name, rules in groups.items()]}


def _found() -> Iterator[dict[str, Any]]:
    for name, query in QUERIES.items():
        rule = RULES[name]
        limit = f"{rule.limit / query.unit:g}" if rule.limit is not None else ""
        expression = query.expression.format(limit=limit) if "{limit}" in query.expression else query.expression
        yield _rule(name_of(name), expression, f"{rule.hold // SECOND}s", query.severity, query.summary, name)


def _told() -> Iterator[dict[str, Any]]:
    for name in TOLD:
        expression = f'max by (rule, severity, destination, subscription) (bus_alarm{{rule="{name}"}}) > 0'
        summary = RULES[name].says + ": " + _LANE
        yield _rule(name_of(name), expression, _HOLD_TOLD, "{{ $labels.severity }}", summary, name)


def _around() -> Iterator[dict[str, Any]]:
    for name, (expression, hold, severity, summary) in OWN.items():
        yield _rule(name, expression, hold, severity, summary, "")


def _rule(name: str, expression: str, hold: str, severity: str, summary: str, rule: str) -> dict[str, Any]:
    annotations = {"summary": summary, **({"runbook": f"{_RUNBOOK}#{rule}"} if rule else {})}
    return {
        "alert": name,
        "expr": expression,
        "for": hold,
        "labels": {"severity": severity},
        "annotations": annotations,
    }
