"""The lookup proxy as a role of a process."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from bus.bootstrap import VERSION, Context, RoleServices
from bus.cluster.lookup_calls import LOOKUP
from bus.cluster.peer_app import PeerApp
from bus.errors import ConfigurationError
from bus.localized_text import AnyText, joined, localized
from bus.security.audit_log import AuditLog
from bus.security.clients import networks_of
from bus.stores.snapshot import Snapshot
from bus.telemetry import metrics
from lookup import failovers
from lookup.api import PREFIX, LookupApi
from lookup.app import LookupApp
from lookup.endpoint import LookupEndpoint
from lookup.failovers import Failovers
from lookup.failovers_api import FailoversResource
from lookup.lookups import Lookups
from lookup.migrating import migrations
from lookup.migrating.evidence import Evidence
from lookup.migrating.migrations import Migrations
from lookup.migrating.migrator import Migrator
from lookup.migrating.planning import MigrationPlanner
from lookup.migrating.preparation import Preparation
from lookup.migrating.resource import MigrationsResource
from lookup.nsqlookupd import NsqlookupdClient
from lookup.routing import Routing


class LookupService:
    """Answers nsqlookupd's HTTP API for the clusters of several sites.

    Raises
    ------
    ConfigurationError
        There is no configuration of sites, or it cannot be used.
    """

    def __init__(self, context: Context, _: RoleServices) -> None:
        path = context.settings.lookup_config
        if path is None:
            raise ConfigurationError(
                localized("the lookup proxy has no configuration of its sites"),
                hint=localized("write their clusters to a file, and name it in BUS_LOOKUP_CONFIG; see docs/lookup.md"),
            )
        self._client = NsqlookupdClient(context.owner, context.clock.monotonic)
        self._routing = Routing(path, self._client, context.clock, context.noise)
        self._lookups = Lookups(self._routing.route, lambda: self._routing.clusters, context.clock)
        app = LookupApp(context.owner, VERSION, self._routing, self._lookups, context.clock)
        api = self._api(context)
        self.offers = RoleServices(
            routes={"": app, PREFIX: api, LOOKUP: PeerApp(context.peer_key, {LOOKUP: api.call})},
            public=("",),
            endpoint=LookupEndpoint(self._lookups),
            conditions={"lookup": self._clusters_trouble, "lookup configuration": lambda: self._routing.trouble},
            meters=(self._measure,),
        )

    def _api(self, context: Context) -> LookupApi:
        """Return the API by which people move topics, and make what moves them."""
        data, clock, members = context.settings.data, context.clock, context.members
        kept = Snapshot(context.store, data, frozenset({migrations.COLLECTION, failovers.COLLECTION}), migrations.MARK)
        moving, lost = Migrations(context.store, kept, data), Failovers(kept, data)
        evidence, preparation = Evidence(self._client), Preparation(self._client)
        self._migrator = Migrator(moving, lost, self._routing, evidence, preparation, lambda: members.me, clock)
        planning = MigrationPlanner(moving, self._routing, evidence, preparation, clock)
        resources = (
            MigrationsResource(moving, self._migrator, planning, clock),
            FailoversResource(lost, self._routing, evidence, clock),
        )
        proxies = networks_of(context.settings.trusted_proxies)
        return LookupApi(resources, context.keyring, AuditLog(context.store, clock), proxies)

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

    def _clusters_trouble(self) -> AnyText:
        return joined(
            localized("cluster {name}: {trouble}", name=name, trouble=cluster.trouble)
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
