"""Migrations as the API shows them."""

from __future__ import annotations

import math
from typing import Any

from bus.domain.routing.evidence import IdleObservation
from bus.domain.routing.migration import Migration
from bus.domain.routing.needs import StepEvidence, waits_for
from bus.domain.routing.steps import RULES, Step
from bus.domain.times import format_time
from bus.localized_text import AnyText, localized, localized_text_of
from lookup.migrating.migrator import MigrationState
from lookup.migrating.planning import Plan

Shown = dict[str, Any]


def shown(migration: Migration, known: MigrationState | None, now: int) -> Shown:
    """Return a migration: where it is and since when, what it waits for, and what is seen of both clusters."""
    last = migration.history[-1]
    return {
        "id": migration.id,
        "topic": migration.topic,
        "from": migration.source,
        "to": migration.target,
        "kind": migration.kind,
        "partitions": migration.partitions or None,
        "interval": migration.interval,
        "step": migration.step,
        "since": format_time(last.at),
        "next": migration.rule.then,
        "paused": migration.paused,
        "ended": migration.has_ended,
        "in_file": migration.is_settled,
        "by": migration.by,
        "began_at": format_time(migration.began_at),
        "produce": migration.route.produce,
        "consume": migration.route.consume,
        "steps": [one["step"] for one in _steps(migration)],
        "waits": [str(one) for one in _waits(migration, known)],
        "waits_text": [localized_text_of(one) for one in _waits(migration, known)],
        "trouble": str(known.trouble) if known is not None else "",
        "risk": migration.rule.risk,
        "can_roll_back": migration.rule.back is not None,
        "producers_stopped": not migration.route.produce,
        "producers_stopped_ms": migration.paused_for(now),
        "evidence": _evidence(known.seen) if known is not None else None,
        "history": [{"step": one.step, "at": format_time(one.at), "by": one.by} for one in migration.history],
    }


def shown_plan(plan: Plan) -> Shown:
    """Return a plan: its steps with the routes that they put in force, what is made first, and what is missing."""
    migration = plan.migration
    return {
        "topic": migration.topic,
        "from": migration.source,
        "to": migration.target,
        "kind": migration.kind,
        "partitions": migration.partitions or None,
        "interval": migration.interval,
        "steps": _steps(migration),
        "makes": [str(change.said) for change in plan.makes],
        "missing": _texts(plan.missing),
    }


def _waits(migration: Migration, known: MigrationState | None) -> list[AnyText]:
    if migration.has_ended:
        return []
    if known is None:
        return [localized("nothing was looked at yet")]
    return waits_for(migration, known.seen)


def _steps(migration: Migration) -> list[Shown]:
    found, step = [], Step.PREPARE
    rules = RULES[migration.kind]
    while True:
        at = migration.at(step)
        found.append({"step": step, "produce": at.produce, "consume": at.consume, "risk": rules[step].risk})
        following = rules[step].then
        if following is None:
            return found
        step = following


def _evidence(seen: StepEvidence) -> Shown:
    return {"source": _side(seen.source), "target": _side(seen.target), "in_force_for": _seconds(seen.in_force_for)}


def _side(timed: IdleObservation) -> Shown:
    sight = timed.sight
    channels = [channel for part in sight.parts for channel in part.channels]
    return {
        "cluster": sight.cluster,
        "exists": sight.exists,
        "partitions": sight.partitions or None,
        "depth": sum(part.unrouted for part in sight.parts) + sum(channel.depth for channel in channels),
        "in_flight": sum(channel.in_flight for channel in channels),
        "deferred": sum(channel.deferred for channel in channels),
        "written": sum(part.written for part in sight.parts),
        "producers": sight.producers,
        "consumers": sight.consumers,
        "channels": sorted(sight.channels),
        "unwritten_for": _seconds(timed.unwritten_for),
        "empty_for": _seconds(timed.drained_for),
        "unknown": _texts(sight.unknown),
    }


def _seconds(value: float) -> float | None:
    return round(value, 1) if math.isfinite(value) else None


def _texts(said: list[AnyText] | tuple[AnyText, ...]) -> list[str]:
    return [str(one) for one in said]
