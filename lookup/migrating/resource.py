"""``/api/v1/lookup/migrations``: begun, watched and steered by people."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

import msgspec

from bus.domain.routing.migration import Migration, advance, pause, rollback
from bus.domain.routing.steps import Kind
from bus.ports.clock import Clock
from lookup.api import ApiAnswer, Change, read_as
from lookup.migrating.migrations import Migrations
from lookup.migrating.migrator import Migrator
from lookup.migrating.planning import MigrationPlanner, MigrationRequest
from lookup.migrating.showing import shown, shown_plan

_ALL: Final = "/migrations"
_ONE: Final = re.compile(r"/migrations/([^/]{1,200})")
_ACTION: Final = re.compile(r"/migrations/([^/]{1,200})/(advance|pause|resume|rollback)")
_OK: Final = 200
_CREATED: Final = 201


class _MigrationBody(msgspec.Struct, forbid_unknown_fields=True):
    topic: str
    to: str
    kind: Kind | None = None
    partitions: int | None = None
    interval: float | None = None
    dry_run: bool = False


class _Step(msgspec.Struct, forbid_unknown_fields=True):
    step: str = ""


class _EmptyBody(msgspec.Struct, forbid_unknown_fields=True):
    pass


class MigrationsResource:
    """Migrations may be begun or only planned, advanced, paused, resumed and rolled back."""

    def __init__(self, migrations: Migrations, migrator: Migrator, planning: MigrationPlanner, clock: Clock) -> None:
        self._migrations = migrations
        self._migrator = migrator
        self._planning = planning
        self._clock = clock
        self._actions: dict[str, Callable[[Migration, bytes, str], Migration]] = {
            "advance": lambda one, body, by: advance(one, read_as(body, _Step).step or one.step, clock.now(), by),
            "pause": lambda one, _, __: pause(one, paused=True),
            "resume": lambda one, _, __: pause(one, paused=False),
            "rollback": lambda one, _, by: rollback(one, clock.now(), by),
        }

    def look(self, path: str) -> ApiAnswer | None:
        """Return all of them, or one."""
        if path == _ALL:
            return ApiAnswer(_OK, {"items": [self._shown(one) for one in self._migrations.all], "next": None})
        found = _ONE.fullmatch(path)
        return ApiAnswer(_OK, self._shown(self._migrations.get(found[1]))) if found is not None else None

    def change(self, path: str, body: bytes, by: str) -> Change | None:
        """Return what begins or steers one."""
        if path == _ALL:
            return lambda: self._begin(body, by)
        found = _ACTION.fullmatch(path)
        return (lambda: self._steer(found[1], found[2], body, by)) if found is not None else None

    async def _begin(self, body: bytes, by: str) -> ApiAnswer:
        asked = read_as(body, _MigrationBody)
        wanted = MigrationRequest(asked.topic, asked.to, asked.kind, asked.partitions, asked.interval)
        plan = await self._planning.plan(wanted, by)
        if asked.dry_run:
            return ApiAnswer(_OK, shown_plan(plan))
        await self._migrations.start(plan.migration)
        return ApiAnswer(_CREATED, self._shown(plan.migration))

    async def _steer(self, migration_id: str, action: str, body: bytes, by: str) -> ApiAnswer:
        before = self._migrations.get(migration_id)
        if action != "advance":
            read_as(body, _EmptyBody)
        after = self._actions[action](before, body, by)
        await self._migrations.replace(before, after)
        return ApiAnswer(_OK, self._shown(after))

    def _shown(self, migration: Migration) -> dict[str, Any]:
        return shown(migration, self._migrator.known(migration.id), self._clock.now())
