"""Migration of a topic from one cluster to another: the document, and its operations.

Nothing here reads a clock, a store or an nsqd. Which wait is over says ``bus.domain.routing.needs``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from bus.domain.routing.rooms import Route
from bus.domain.routing.steps import ENDED, RULES, Kind, Readers, Rule, Side, Step
from bus.errors import Conflict
from bus.localized_text import AnyText, localized

SHORTEST: Final = 0.5
LONGEST: Final = 3600.0
USUAL: Final = 90.0
"""Default for the longest lookup interval in seconds: a minute, and a third by which clients vary."""
MOST_PARTITIONS: Final = 255


class CompletedStep(msgspec.Struct, frozen=True):
    """A step that was taken.

    Attributes
    ----------
    at
        When, in milliseconds since the epoch.
    by
        User who took it by hand; empty when there was evidence.
    """

    step: Step
    at: int
    by: str = ""


class Migration(msgspec.Struct, frozen=True, kw_only=True):
    """One migration; each change is another one, with the same id.

    Attributes
    ----------
    source, target
        Clusters by name; the source is the one that was produced to.
    partitions
        Number in the target at the end, of an expansion in both clusters; 0 for stock NSQ.
    interval
        Seconds after which every client has looked up again.
    before
        The route when it began.
    history
        Its steps, the one of now last.
    paused
        Whether no step is taken but by hand.
    nodes
        By cluster ``HOST:HTTP_PORT`` of stock nsqds that ever had the topic: they are asked even when no nsqlookupd
        names them any more.
    is_settled
        Whether the configuration files give its last route themselves, so that it has no more effect.
    """

    id: str
    topic: str
    source: str
    target: str
    kind: Kind
    partitions: int
    interval: float
    before: Route
    by: str
    history: tuple[CompletedStep, ...]
    paused: bool = False
    nodes: Mapping[str, tuple[str, ...]] = {}
    is_settled: bool = False

    @property
    def step(self) -> Step:
        """The step of now."""
        return self.history[-1].step

    @property
    def turn(self) -> int:
        """Number of steps taken: proxies report by it which step they have in force."""
        return len(self.history)

    @property
    def began_at(self) -> int:
        """Start time (ms)."""
        return self.history[0].at

    @property
    def has_ended(self) -> bool:
        """Whether it takes no further step."""
        return self.step in ENDED

    @property
    def rule(self) -> Rule:
        """Definition of the present step."""
        return RULES[self.kind][self.step]

    @property
    def route(self) -> Route:
        """Present route of producers and consumers."""
        return self.at(self.step)

    def at(self, step: Step) -> Route:
        """Return where producers and consumers are sent at a step."""
        rule = RULES[self.kind][step]
        writers = () if rule.writers is None else (self.cluster(rule.writers),)
        return Route(writers, self._readers(rule.readers))

    def cluster(self, side: Side) -> str:
        """Return the name of a cluster."""
        return self.source if side is Side.SOURCE else self.target

    def paused_for(self, now: int) -> int:
        """Return for how long producers were, or are, stopped (ms)."""
        ends = [*(taken.at for taken in self.history[1:]), now]
        return sum(
            max(0, end - taken.at)
            for taken, end in zip(self.history, ends, strict=True)
            if RULES[self.kind][taken.step].writers is None
        )

    def _readers(self, readers: Readers) -> tuple[str, ...]:
        others = tuple(name for name in self.before.consume if name not in (self.source, self.target))
        if readers is Readers.BEFORE:
            return self.before.consume
        if readers is Readers.BOTH:
            return (self.source, *others, self.target)
        if readers is Readers.BOTH_BACK:
            return (self.target, *others, self.source)
        return (self.cluster(Side(readers.value)), *others)


def begin(
    topic: str,
    number: int,
    before: Route,
    target: str,
    *,
    kind: Kind,
    partitions: int,
    interval: float,
    by: str,
    now: int,
    nodes: Mapping[str, tuple[str, ...]],
) -> Migration:
    """Return a migration at its first step; ``number`` is that of the topic's migrations."""
    return Migration(
        id=f"{topic}-{number}",
        topic=topic,
        source=before.produce[0],
        target=target,
        kind=kind,
        partitions=partitions,
        interval=interval,
        before=before,
        by=by,
        history=(CompletedStep(Step.PREPARE, now, by),),
        nodes=nodes,
    )


def take(migration: Migration, now: int) -> Migration:
    """Return it with the next step taken, for which there is the evidence."""
    then = migration.rule.then
    return migration if then is None else _at(migration, then, now, "")


def advance(migration: Migration, step: str, now: int, by: str) -> Migration:
    """Return the migration with the next step taken by hand, without evidence.

    Parameters
    ----------
    step
        Its present step, as the person saw it: no step is skipped because another person was faster.

    Raises
    ------
    Conflict
        It is elsewhere, has ended, or is paused.
    """
    then = _following(migration)
    if migration.step != step:
        raise Conflict(
            localized("{id} is at {step}, not at {wanted}", id=migration.id, step=migration.step, wanted=repr(step)),
            hint=localized("look at it again before you decide: {command}", command=_status(migration)),
        )
    if migration.paused:
        raise Conflict(
            localized("{id} is paused; no step was taken", id=migration.id),
            hint=localized("resume it first: {command}", command=f"bus lookup resume {migration.id}"),
        )
    return _at(migration, then, now, by)


def rollback(migration: Migration, now: int, by: str) -> Migration:
    """Return it on its way back to the route of before.

    Raises
    ------
    Conflict
        It has ended, or is on its way back.
    """
    _following(migration)
    back = migration.rule.back
    if back is None:
        raise Conflict(
            localized(
                "{id} is at {step}, on its way back to {cluster}",
                id=migration.id,
                step=migration.step,
                cluster=migration.source,
            ),
            hint=localized("see what it waits for: {command}", command=_status(migration)),
        )
    return msgspec.structs.replace(_at(migration, back, now, by), paused=False)


def pause(migration: Migration, *, paused: bool) -> Migration:
    """Return it so that no step is taken, or so that they are again; raises ``Conflict`` for one that has ended."""
    _following(migration)
    return msgspec.structs.replace(migration, paused=paused)


def settle(migration: Migration) -> Migration:
    """Return one that has ended without effect, since the files give its route."""
    return msgspec.structs.replace(migration, is_settled=True)


def know(migration: Migration, cluster: str, nodes: set[str]) -> Migration:
    """Return it with nsqds that have the topic; the same when all were known."""
    known = migration.nodes.get(cluster, ())
    new = tuple(sorted(nodes.difference(known)))
    if not new:
        return migration
    return msgspec.structs.replace(migration, nodes={**migration.nodes, cluster: (*known, *new)})


def refuse_second(migration: Migration) -> Conflict:
    """Return why a topic is not moved again now."""
    return Conflict(
        localized(
            "{topic} is in the migration {id} to {cluster} already; nothing was begun",
            topic=migration.topic,
            id=migration.id,
            cluster=migration.target,
        ),
        hint=localized("see it with: {command}; it can be rolled back", command=_status(migration)),
    )


def _at(migration: Migration, step: Step, now: int, by: str) -> Migration:
    return msgspec.structs.replace(migration, history=(*migration.history, CompletedStep(step, now, by)))


def _following(migration: Migration) -> Step:
    """Return the step after that of now; raises ``Conflict`` for a migration that has ended."""
    then = migration.rule.then
    if then is None:
        raise Conflict(
            localized("{id} has ended: {step}; nothing was changed", id=migration.id, step=migration.step),
            hint=localized("move the topic back with: {command}", command=_return(migration)),
        )
    return then


def _return(migration: Migration) -> str:
    return f"bus lookup start {migration.topic} --to CLUSTER"


def _status(migration: Migration) -> AnyText:
    return f"bus lookup status {migration.id}"
