"""Processes: missing roles, unreachable processes, parts that fail, orphaned queues."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from bus.domain.health.alarm import Alarm, Severity
from bus.domain.health.facts import Facts
from bus.localized_text import N_, localized

_NEEDED: Final = {
    "receiver": N_("no receiver is alive: new messages are refused; producers keep theirs in their spools"),
    "dispatcher": N_("no dispatcher is alive: nothing is delivered; what was accepted waits"),
    "compensator": N_("no compensator is alive: retries, resends and messages for later wait"),
}


def roles(facts: Facts) -> Iterator[Alarm]:
    """Yield the roles that no live process has."""
    for role in _NEEDED:
        if role not in facts.roles and not facts.is_blind:
            step = localized("start one: {command}", command=f"bus run {role}")
            yield Alarm(
                "role-missing",
                Severity.CRITICAL,
                localized(_NEEDED[role]),
                step,
                "processes",
                subject=role,
                cause=f"role:{role}",
            )


def unreachable(facts: Facts) -> Iterator[Alarm]:
    """Yield the unreachable processes; if no other process has a role of one, its cause is that missing role."""
    for one in facts.unreachable:
        missing = next((role for role in one.roles if role in _NEEDED and role not in facts.roles), None)
        what = localized(
            "{node} ({roles}) is unreachable; the queues on its disk have {count} records",
            node=one.node,
            roles=", ".join(one.roles),
            count=one.records,
        )
        step = localized(
            "start it again on the same data directory, or run a sweeper on its disk, which sends these records"
        )
        yield Alarm(
            "process-unreachable",
            Severity.CRITICAL if one.records else Severity.WARNING,
            what,
            step,
            "processes",
            since=one.last_seen_at or None,
            subject=one.owner,
            cause=f"role:{missing}" if missing else f"process:{one.owner}",
        )


def parts(facts: Facts) -> Iterator[Alarm]:
    """Yield the parts that processes report as unhealthy."""
    for part in facts.parts:
        # For spools the figures show more.
        if not part.name.startswith("spool "):
            what = localized(
                "{part} is not well on {node}: {trouble}", part=part.name, node=part.node, trouble=part.trouble
            )
            step = localized("see docs/operations.md; bus doctor tells of each part")
            yield Alarm(
                "part-down",
                Severity.CRITICAL,
                what,
                step,
                f"processes/{part.owner}",
                subject=f"{part.name}@{part.owner}",
                cause=f"part:{part.name}",
            )


def orphans(facts: Facts) -> Iterator[Alarm]:
    """Yield the hosts on which orphaned queues wait."""
    for node, count in facts.orphans.items():
        if count:
            what = localized("{count} local queues on {node} belong to processes that are gone", count=count, node=node)
            step = localized("the sweeper empties them once they are idle; one that stays says why in its log")
            yield Alarm("orphans", Severity.INFO, what, step, "orphans", subject=node)
