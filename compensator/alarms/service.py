"""Watching for alarms as a role of a process."""

from __future__ import annotations

import asyncio

from bus.bootstrap import Context, Introspection, RoleServices, open_health
from bus.cluster.alarm_documents import WATCHER, AlarmDocuments
from bus.domain.health.facts import Facts
from bus.observing.brokers import BrokerWatch
from bus.observing.cluster_status import ClusterStatus
from bus.observing.configured import channels_of, rulebook_of
from bus.observing.stores import StoreWatch
from bus.stores.rollups import RollupReader
from compensator.alarms.alarm_file import KeptWatch, WatchFile
from compensator.alarms.own_events import OwnEventSender
from compensator.alarms.sending import AppriseSending
from compensator.alarms.trials import Trials
from compensator.alarms.watcher import Watcher


class AlarmsService:
    """Watches the whole bus, and notifies people by channels of its own; none of that is sent over the bus.

    Raises
    ------
    ConfigurationError
        A channel, a rule or a management plugin of the settings cannot be used.
    """

    def __init__(self, context: Context, offered: RoleServices) -> None:
        settings, clock = context.settings, context.clock
        book, channels = rulebook_of(settings), channels_of(settings)
        sending = AppriseSending(channels)
        rollups = RollupReader(context.store, clock)
        observatory = ClusterStatus(context, Introspection(context, offered), rollups, book)
        documents, pages = AlarmDocuments(context.store), settings.public_url.rstrip("/")
        kept = KeptWatch(documents, WatchFile(settings.data))

        async def look() -> Facts:
            return (await observatory.look()).facts

        def receivers() -> list[str]:
            return [one.url for one in context.members.all if "receiver" in one.roles]

        def is_first() -> bool:
            mine = context.members.me.owner
            return all(mine <= other.owner for other in context.members.others if WATCHER in other.roles)

        own_events, noise = context.own_events, context.noise
        self._watcher = Watcher(look, kept, own_events, channels, sending, book, is_first, clock, noise, pages)
        self._own_events = OwnEventSender(own_events, receivers, settings.api_key, is_first, clock)
        self._trials = Trials(documents, channels, sending, lambda: self._watcher.is_telling, clock, pages)
        self._brokers = BrokerWatch(open_health(settings), is_first, clock)
        own = RoleServices(conditions={"alarms": lambda: self._watcher.trouble}, meters=(self._watcher.measure,))
        self._store = StoreWatch(context.store, is_first, clock)
        self.offers = own | self._brokers.offers | self._store.offers

    async def run(self, ready: asyncio.Event, stopping: asyncio.Event) -> None:
        """Watch until ``stopping``."""
        async with asyncio.TaskGroup() as group:
            works = (self._watcher, self._trials, self._own_events, self._brokers, self._store)
            watching = [group.create_task(work.run()) for work in works]
            ready.set()
            await stopping.wait()
            for task in watching:
                task.cancel()


ROLE = AlarmsService
