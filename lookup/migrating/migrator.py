"""Moves topics: runs in every proxy, and the one that sees the evidence first takes the next step."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, NamedTuple

from bus.cluster.member import Member
from bus.domain.routing.evidence import IdleObservation, TopicObservation, Watch
from bus.domain.routing.migration import Migration, know, settle, take
from bus.domain.routing.needs import StepEvidence, lacks, waits_for
from bus.domain.routing.steps import Side
from bus.errors import Conflict, StoreError
from bus.localized_text import AnyText, localized
from bus.ports.clock import Clock
from lookup.failovers import Failovers
from lookup.migrating.evidence import Evidence
from lookup.migrating.migrations import Migrations, ProxyConfirmation, is_home, unconfirmed
from lookup.migrating.preparation import Preparation
from lookup.nsqlookupd import LookupUnavailable
from lookup.routing import Routing

_log = logging.getLogger(__name__)
EVERY: Final = 1.0


class MigrationState(NamedTuple):
    """What this process saw last of a migration, and why something could not be made; empty when all could."""

    seen: StepEvidence
    trouble: AnyText = ""


class _MigrationWatch:
    """What one process observes of one migration."""

    def __init__(self) -> None:
        self.watches = {side: Watch() for side in Side}
        self.turn = 0
        self.since: float | None = None
        self.trouble: AnyText = ""

    def in_force(self, turn: int, missing: Sequence[AnyText], now: float) -> float:
        """Return for how many seconds all proxies have had this turn in force."""
        if missing or turn != self.turn:
            self.turn, self.since = turn, None
        if missing:
            return 0.0
        if self.since is None:
            self.since = now
        return now - self.since


class Migrator:
    """Keeps the routes of migrations in force, and takes their steps.

    Parameters
    ----------
    me
        This process as its membership has it.
    """

    def __init__(
        self,
        migrations: Migrations,
        failovers: Failovers,
        routing: Routing,
        evidence: Evidence,
        preparation: Preparation,
        me: Callable[[], Member],
        clock: Clock,
    ) -> None:
        self._migrations = migrations
        self._failovers = failovers
        self._routing = routing
        self._evidence = evidence
        self._preparation = preparation
        self._me = me
        self._clock = clock
        self._watching: dict[str, _MigrationWatch] = {}
        self._known: dict[str, MigrationState] = {}
        self._apply()

    def _apply(self) -> None:
        """Put in force what is known."""
        self._routing.overrides = self._migrations.routes()
        self._routing.failovers = self._failovers.active

    def known(self, migration_id: str) -> MigrationState | None:
        """Return the last state seen of a migration in progress; None when none was seen yet."""
        return self._known.get(migration_id)

    async def run(self) -> None:
        """Follow and move, each every second, until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._repeat(self.follow))
            group.create_task(self._repeat(self.move))

    async def begin(self) -> None:
        """Put the store's data in force before any request is answered; if it is unreachable, the data on this disk."""
        try:
            await self.follow()
        except (StoreError, TimeoutError) as error:
            _log.warning("the routes of migrations are those that this process had last: %s", error)

    async def follow(self) -> None:
        """Put in force what the store has, and say so once it is on this disk as well."""
        await self._migrations.load()
        await self._failovers.load()
        self._apply()
        await self._migrations.confirm(self._me().owner, self._confirmed())

    async def move(self) -> None:
        """Check each migration in progress, and take its next step where there is the evidence for it."""
        going = [one for one in self._migrations.latest() if not one.is_settled]
        for gone in self._watching.keys() - {one.id for one in going if not one.has_ended}:
            del self._watching[gone]
            self._known.pop(gone, None)
        if not going:
            return
        said, at = await self._confirmations(), self._clock.monotonic()
        for found in await asyncio.gather(*(self._move(one, said, at) for one in going), return_exceptions=True):
            if isinstance(found, BaseException):
                raise found

    async def _confirmations(self) -> Mapping[str, ProxyConfirmation | None] | AnyText:
        """Return what all proxies say; or why that is not known."""
        try:
            return await self._migrations.confirmed()
        except StoreError as error:
            return localized("the store is away: {error}", error=str(error))

    async def _repeat(self, work: Callable[[], Awaitable[None]]) -> None:
        while True:
            try:
                await work()
            except (StoreError, TimeoutError) as error:
                _log.debug("migrations stay as they are: %s", error)
            except Exception:  # noqa: BLE001 - whatever it is, lookups continue, and the next look may do
                _log.exception("migrations could not be looked at; they stay as they are, and it is tried again")
            await self._clock.sleep(EVERY)

    def _confirmed(self) -> ProxyConfirmation:
        """Return the state that this process has in force, which it has loaded last."""
        turns, elsewhere, at_home = {}, set(), set()
        for one in self._migrations.latest():
            own = self._routing.rooms.route(one.topic)
            if one.has_ended and own == one.route:
                at_home.add(one.id)
            if one.turn == 1 and (self._migrations.usual(one) or own) != one.before:
                elsewhere.add(one.id)
            else:
                turns[one.id] = one.turn
        return ProxyConfirmation(self._me().started_at, turns, frozenset(elsewhere), frozenset(at_home))

    async def _move(
        self, migration: Migration, said: Mapping[str, ProxyConfirmation | None] | AnyText, at: float
    ) -> None:
        """Look at one migration, by what all proxies said at a moment (monotonic seconds)."""
        missing = unconfirmed(migration, said) if isinstance(said, Mapping) else [said]
        if migration.has_ended:
            if isinstance(said, Mapping) and is_home(migration, said):
                await self._replace(migration, settle(migration))
            return
        watching = self._watching.setdefault(migration.id, _MigrationWatch())
        source, target = await asyncio.gather(*(self._look(migration, watching.watches[side], side) for side in Side))
        seen = StepEvidence(source, target, tuple(missing), watching.in_force(migration.turn, missing, at))
        self._known[migration.id] = MigrationState(seen, watching.trouble)
        watching.trouble = await self._prepare(migration, seen)
        after = know_nodes(migration, seen)
        if not migration.paused and not waits_for(migration, seen):
            after = take(after, self._clock.now())
        if after != migration:
            await self._replace(migration, after)

    async def _look(self, migration: Migration, watch: Watch, side: Side) -> IdleObservation:
        began = self._clock.monotonic()
        return watch.note(await self._sight(migration, side), began, self._clock.monotonic())

    async def _sight(self, migration: Migration, side: Side) -> TopicObservation:
        name = migration.cluster(side)
        known = migration.nodes.get(name, ())
        return await self._evidence.look(self._routing.clusters.get(name), name, migration.topic, known)

    async def _prepare(self, migration: Migration, seen: StepEvidence) -> AnyText:
        """Make what a cluster lacks, and return why that does not go; empty when it does."""
        side = migration.rule.prepares
        if side is None or migration.paused or not lacks(migration, seen, side):
            return ""
        own, other = seen.of(side).sight, seen.of(side.other).sight
        cluster = self._routing.clusters.get(migration.cluster(side))
        if cluster is None or not own.is_whole or not other.is_whole:
            return ""
        try:
            changes = await self._preparation.plan(cluster, migration.topic, migration.partitions, own, other)
            return await self._preparation.make(cluster, changes)
        except LookupUnavailable as error:
            return error.said

    async def _replace(self, before: Migration, after: Migration) -> None:
        try:
            await self._migrations.replace(before, after)
        except Conflict:
            return  # another proxy was faster
        if after.step is not before.step:
            _log.info("%s is at %s now, after %s", after.id, after.step, before.step)


def know_nodes(migration: Migration, seen: StepEvidence) -> Migration:
    """Return it with the stock nsqds that have the topic."""
    for timed in (seen.source, seen.target):
        if timed.sight.meta is None:
            migration = know(migration, timed.sight.cluster, {part.place for part in timed.sight.parts})
    return migration
