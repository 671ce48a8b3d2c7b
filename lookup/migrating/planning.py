"""The plan of a migration: checked and shown before it begins."""

from __future__ import annotations

import asyncio
import math
from typing import Final, NamedTuple

from bus.domain.routing.evidence import IdleObservation, TopicObservation
from bus.domain.routing.migration import LONGEST, MOST_PARTITIONS, SHORTEST, USUAL, Migration, begin
from bus.domain.routing.needs import StepEvidence, waits_for
from bus.domain.routing.rooms import Route
from bus.domain.routing.steps import Kind
from bus.errors import InvalidMessage, TransportUnavailable
from bus.localized_text import AnyText, joined, localized
from bus.ports.clock import Clock
from lookup.migrating.evidence import Evidence
from lookup.migrating.migrations import Migrations
from lookup.migrating.migrator import know_nodes
from lookup.migrating.preparation import Change, Preparation
from lookup.nsqlookupd import LookupUnavailable
from lookup.routing import Routing

_DEFAULT_PARTITIONS: Final = 2


class MigrationRequest(NamedTuple):
    """What a person asks for; None leaves it to the topic as it is."""

    topic: str
    to: str
    kind: Kind | None = None
    partitions: int | None = None
    interval: float | None = None


class Plan(NamedTuple):
    """A migration that was not begun, what is made for it first, and what is missing before producers may move."""

    migration: Migration
    makes: list[Change]
    missing: list[AnyText]


class MigrationPlanner:
    """Checks what is asked for against the file in force and both clusters."""

    def __init__(
        self, migrations: Migrations, routing: Routing, evidence: Evidence, preparation: Preparation, clock: Clock
    ) -> None:
        self._migrations = migrations
        self._routing = routing
        self._evidence = evidence
        self._preparation = preparation
        self._clock = clock

    async def plan(self, wanted: MigrationRequest, by: str) -> Plan:
        """Return what would be done.

        Raises
        ------
        InvalidMessage
            It cannot be meant: the text says why, ``field`` which part of it.
        Conflict
            The topic is in a migration.
        TransportUnavailable
            The source does not report the topic now.
        """
        before = self._route(wanted)
        number = self._migrations.next_number(wanted.topic)
        source, target = await asyncio.gather(
            *(self._look(name, wanted.topic) for name in (before.produce[0], wanted.to))
        )
        _check_source(wanted.topic, source)
        if target.is_fork is None:
            raise TransportUnavailable(
                localized("no response from {name}; nothing was started", name=wanted.to),
                hint=localized("start its nsqlookupds first: the topic depends on their version"),
            )
        kind = _kind(wanted, source, target)
        migration = begin(
            wanted.topic,
            number,
            before,
            wanted.to,
            kind=kind,
            partitions=_partitions(wanted, kind, source, target),
            interval=_interval(wanted),
            by=by,
            now=self._clock.now(),
            nodes={},
        )
        seen = StepEvidence(
            IdleObservation(source, math.inf, math.inf),
            IdleObservation(target, math.inf, math.inf),
            in_force_for=math.inf,
        )
        makes, trouble = await self._makes(migration, source, target)
        missing = waits_for(migration, seen)
        return Plan(know_nodes(migration, seen), makes, [*missing, *([trouble] if trouble else [])])

    def _route(self, wanted: MigrationRequest) -> Route:
        """Return the topic's route, from which it can be moved to the cluster that is named."""
        before = self._routing.usual(wanted.topic)
        if before is None or not before.produce:
            raise _invalid("topic", localized("{topic} has no route in the file of this proxy", topic=wanted.topic))
        source = before.produce[0]
        if wanted.to not in self._routing.clusters:
            known = ", ".join(self._routing.clusters)
            raise _invalid(
                "to", localized("{name} is no cluster; there are: {known}", name=repr(wanted.to), known=known)
            )
        if wanted.to == source:
            raise _invalid("to", localized("{topic} is produced to {name} already", topic=wanted.topic, name=source))
        if source not in before.consume:
            raise _invalid(
                "topic",
                localized(
                    "{topic} is produced to {name}, and not consumed from there", topic=wanted.topic, name=source
                ),
            )
        return before

    async def _look(self, name: str, topic: str) -> TopicObservation:
        return await self._evidence.look(self._routing.clusters.get(name), name, topic)

    async def _makes(
        self, migration: Migration, source: TopicObservation, target: TopicObservation
    ) -> tuple[list[Change], AnyText]:
        """Return what is made on the target first, and why nothing can be."""
        cluster = self._routing.clusters[migration.target]
        if not target.is_whole:
            return [], ""
        try:
            return await self._preparation.plan(cluster, migration.topic, migration.partitions, target, source), ""
        except LookupUnavailable as error:
            return [], error.said


def _check_source(topic: str, source: TopicObservation) -> None:
    if not source.is_whole:
        raise TransportUnavailable(
            localized(
                "the description of the topic by {name} is incomplete: {why}; nothing was started",
                name=source.cluster,
                why=joined(source.unknown),
            ),
            hint=localized("bring its nsqds back first: what waits there could not be seen to be delivered"),
        )
    if not source.exists:
        raise _invalid("topic", localized("{name} has no topic {topic}", name=source.cluster, topic=topic))


def _kind(wanted: MigrationRequest, source: TopicObservation, target: TopicObservation) -> Kind:
    kind = wanted.kind or (Kind.ORDERED if source.is_ordered else Kind.UNORDERED)
    if kind is Kind.UNORDERED and source.is_ordered:
        raise _invalid("kind", localized("{topic} is ordered: unordered would break its order", topic=wanted.topic))
    if kind is Kind.EXPANSION and not source.is_fork:
        raise _invalid("kind", localized("stock NSQ has no partitions: {name} has no need of it", name=source.cluster))
    if not target.is_fork and (kind is Kind.EXPANSION or source.is_ordered):
        raise _invalid("to", localized("{name} is stock NSQ, without order and partitions", name=wanted.to))
    return kind


def _partitions(wanted: MigrationRequest, kind: Kind, source: TopicObservation, target: TopicObservation) -> int:
    if kind is not Kind.EXPANSION:
        if target.is_fork and not source.is_fork:
            return _on_the_fork(wanted.partitions, target.partitions)
        if wanted.partitions is not None:
            raise _invalid(
                "partitions", localized("only an expansion, or a move from stock NSQ to the fork, sets the partitions")
            )
        return source.partitions if target.is_fork else 0
    if wanted.partitions is None or not source.partitions < wanted.partitions <= MOST_PARTITIONS:
        raise _invalid(
            "partitions",
            localized(
                "an expansion needs a number of partitions above {count}, at most {most}",
                count=source.partitions,
                most=MOST_PARTITIONS,
            ),
        )
    return wanted.partitions


def _on_the_fork(partitions: int | None, present: int) -> int:
    """Return how many partitions a topic of stock NSQ has on a cluster of the fork, which may have it already."""
    if partitions is None:
        return present or _DEFAULT_PARTITIONS
    if not max(1, present) <= partitions <= MOST_PARTITIONS:
        raise _invalid(
            "partitions",
            localized("the topic has {least} to {most} partitions there", least=max(1, present), most=MOST_PARTITIONS),
        )
    return partitions


def _interval(wanted: MigrationRequest) -> float:
    interval = USUAL if wanted.interval is None else wanted.interval
    if not SHORTEST <= interval <= LONGEST:
        raise _invalid(
            "interval",
            localized("it is from {shortest} to {longest} seconds", shortest=f"{SHORTEST:g}", longest=f"{LONGEST:g}"),
        )
    return interval


def _invalid(field: str, why: AnyText) -> InvalidMessage:
    return InvalidMessage(
        localized("nothing was begun: {why}", why=why),
        hint=localized("see the clusters and topics of the file in BUS_LOOKUP_CONFIG, and docs/lookup.md"),
        field=field,
    )
