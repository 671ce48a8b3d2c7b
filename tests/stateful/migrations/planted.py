"""Bugs in the rules of migrations, each of which the simulation has to find."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from msgspec.structs import replace

from bus.domain.routing.evidence import TopicObservation
from bus.domain.routing.migration import CompletedStep, Migration
from bus.domain.routing.needs import StepEvidence, waits_for
from bus.domain.routing.rooms import Route
from bus.domain.routing.steps import Kind, Step
from tests.stateful.migrations.clusters import Cluster
from tests.stateful.migrations.simulation import Confirmation, Rules

_LONG: Final = 1e6


class WritersMayRemain(Rules):
    """Sends producers on while others may write to the cluster before."""

    def waits(self, migration: Migration, seen: StepEvidence) -> bool:
        blind = {
            name: timed._replace(sight=replace(timed.sight, producers=0), unwritten_for=_LONG)
            for name, timed in (("source", seen.source), ("target", seen.target))
        }
        return bool(waits_for(migration, seen._replace(**blind, in_force_for=_LONG)))  # type: ignore[arg-type]


class WaitingMayRemain(Rules):
    """Moves consumers while messages wait."""

    def waits(self, migration: Migration, seen: StepEvidence) -> bool:
        blind = {
            name: timed._replace(sight=replace(timed.sight, parts=()), drained_for=_LONG)
            for name, timed in (("source", seen.source), ("target", seen.target))
        }
        if migration.step in (Step.DRAINING_SOURCE, Step.DRAINING_TARGET, Step.PRODUCERS_ON_TARGET):
            seen = seen._replace(**blind)  # type: ignore[arg-type]
        return bool(waits_for(migration, seen))


class NobodyIsAsked(Rules):
    """Takes steps that not all proxies have in force."""

    def waits(self, migration: Migration, seen: StepEvidence) -> bool:
        return bool(waits_for(migration, seen._replace(unconfirmed=(), in_force_for=_LONG)))


class InFlightIsNothing(Rules):
    """Overlooks what consumers hold, and what they gave back with a delay."""

    def sight(self, cluster: Cluster) -> TopicObservation:
        found = cluster.sight()
        parts = tuple(
            replace(part, channels=tuple(replace(one, in_flight=0, deferred=0) for one in part.channels))
            for part in found.parts
        )
        return replace(found, parts=parts)


class SilenceIsEmpty(Rules):
    """Takes an nsqd that cannot be asked for one that has nothing."""

    def sight(self, cluster: Cluster) -> TopicObservation:
        return replace(cluster.sight(), unknown=())


class AnyLifeCounts(Rules):
    """Believes that what a proxy had in force once it has for ever."""

    def counts(self, said: Confirmation | None, life: int, migration: Migration) -> bool:  # noqa: ARG002
        return said is not None


class BothAreRead(Rules):
    """Has consumers read the target of an ordered topic before the source is empty."""

    def route(self, migration: Migration) -> Route:
        found = migration.route
        if migration.step is Step.DRAINING_SOURCE:
            return found._replace(consume=("s", "t"))
        return found


class BackAtOnce(Rules):
    """Rolls back without emptying the target."""

    def roll_back(self, migration: Migration, now: int) -> Migration:
        if migration.has_ended:
            return super().roll_back(migration, now)
        return replace(migration, history=(*migration.history, CompletedStep(Step.CANCELED, now)), paused=False)


BUGS: Final[dict[str, tuple[Callable[[], Rules], Kind, str]]] = {
    "writers of an ordered topic may remain": (WritersMayRemain, Kind.ORDERED, "left behind"),
    "writers of an unordered topic may remain": (WritersMayRemain, Kind.UNORDERED, "left behind"),
    "consumers of an ordered topic leave what waits": (WaitingMayRemain, Kind.ORDERED, "lost"),
    "consumers of an unordered topic leave what waits": (WaitingMayRemain, Kind.UNORDERED, "left behind"),
    "no proxy is asked for what it has in force": (NobodyIsAsked, Kind.ORDERED, "left behind"),
    "what is in flight or deferred is overlooked": (InFlightIsNothing, Kind.UNORDERED, "left behind"),
    "an nsqd that is silent counts as empty": (SilenceIsEmpty, Kind.UNORDERED, "left behind"),
    "what a proxy said in any life and turn counts": (AnyLifeCounts, Kind.ORDERED, "inverted"),
    "the target of an ordered topic is read too early": (BothAreRead, Kind.ORDERED, "inverted"),
    "an ordered topic is rolled back at once": (BackAtOnce, Kind.ORDERED, "inverted"),
    "an unordered topic is rolled back at once": (BackAtOnce, Kind.UNORDERED, "left behind"),
}
