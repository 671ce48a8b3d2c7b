"""The lookup proxy as a role of a process."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from bus.bootstrap import VERSION, Context, Offers
from bus.cluster.lookup_calls import LOOKUP
from bus.cluster.peer_app import PeerApp
from bus.errors import ConfigurationError
from bus.security.audit_log import AuditLog
from bus.sentences import Said, joined, sentence
from bus.telemetry import metrics
from lookup.app import LookupApp
from lookup.endpoint import LookupEndpoint
from lookup.evidence import Evidence
from lookup.lookups import Lookups
from lookup.migrations import Migrations
from lookup.migrations_app import PREFIX, MigrationsApp
from lookup.migrator import Migrator
from lookup.nsqlookupd import NsqlookupdClient
from lookup.planning import Planning
from lookup.preparation import Preparation
from lookup.routing import Routing


class LookupService:
    """Answers nsqlookupd's HTTP API for the clusters of several rooms.

    Raises
    ------
    ConfigurationError
        There is no configuration of rooms, or it cannot be used.
    """

    def __init__(self, context: Context, _: Offers) -> None:
        path = context.settings.lookup_config
        if path is None:
            raise ConfigurationError(
                sentence("the lookup proxy needs to know the rooms"),
                hint=sentence("write their clusters to a file, and name it in BUS_LOOKUP_CONFIG; see docs/lookup.md"),
            )
        self._client = NsqlookupdClient(context.owner)
        self._routing = Routing(path, self._client, context.clock, context.noise)
        self._lookups = Lookups(self._routing.route, lambda: self._routing.clusters, context.clock)
        app = LookupApp(context.owner, VERSION, self._routing, self._lookups)
        evidence, preparation = Evidence(self._client), Preparation(self._client)
        migrations = Migrations(context.store, context.settings.data)
        members = context.members
        self._migrator = Migrator(
            migrations, self._routing, evidence, preparation, lambda: members.all, lambda: members.me, context.clock
        )
        planning = Planning(migrations, self._routing, evidence, preparation, context.clock)
        audit = AuditLog(context.store, context.clock)
        steering = MigrationsApp(migrations, self._migrator, planning, context.keyring, audit, context.clock)
        self.offers = Offers(
            routes={"": app, PREFIX: steering, LOOKUP: PeerApp(context.peer_key, {LOOKUP: steering.call})},
            endpoint=LookupEndpoint(self._lookups),
            conditions={"lookup": self._clusters_trouble, "lookup configuration": lambda: self._routing.trouble},
            meters=(self._measure,),
        )

    async def run(self, ready: asyncio.Event, stopping: asyncio.Event) -> None:
        """Answer until ``stopping``."""
        try:
            async with asyncio.TaskGroup() as group:
                await self._migrator.begin()
                working = [group.create_task(work.run()) for work in (self._routing, self._lookups, self._migrator)]
                ready.set()
                await stopping.wait()
                for task in working:
                    task.cancel()
        finally:
            await self._client.close()

    def _clusters_trouble(self) -> Said:
        return joined(
            sentence("cluster {name}: {trouble}", name=name, trouble=cluster.trouble)
            for name, cluster in self._routing.clusters.items()
            if cluster.trouble
        )

    def _measure(self) -> Callable[[], None]:
        states = {name: cluster.is_up for name, cluster in self._routing.clusters.items()}

        def fill() -> None:
            metrics.LOOKUP_CLUSTER_UP.clear()
            for name, is_up in states.items():
                metrics.LOOKUP_CLUSTER_UP.labels(name).set(is_up)

        return fill


ROLE = LookupService
