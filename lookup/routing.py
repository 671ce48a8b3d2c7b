"""The present route of each topic, and the clusters that routes name."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from bus.async_helpers import lasting
from bus.domain.routing.failover import Failover, diverted
from bus.domain.routing.rooms import LARGEST, Route, read_rooms
from bus.errors import ConfigurationError
from bus.localized_text import AnyText, localized, text_of_error
from bus.ports.clock import Clock
from lookup.cluster import Cluster
from lookup.nsqlookupd import NsqlookupdClient

_log = logging.getLogger(__name__)
_LOOK_EVERY: Final = 1.0


class Routing:
    """Follows the configuration file; one that cannot be used leaves what is in force.

    Parameters
    ----------
    path
        Of the file.

    Attributes
    ----------
    rooms
        The configuration in force.
    trouble
        Why the file as it is now is not in force; empty when it is.
    overrides
        Routes by topic that are in force in the place of the file's: those of migrations.
    failovers
        Those that change the route of every topic that is produced to a lost site.

    Raises
    ------
    ConfigurationError
        The file cannot be read, or cannot be meant.
    """

    def __init__(self, path: Path, client: NsqlookupdClient, clock: Clock, noise: Callable[[], float]) -> None:
        self._path = path
        self._client = client
        self._clock = clock
        self._noise = noise
        self._content = _read(path)
        self.rooms = read_rooms(self._content)
        self.trouble: AnyText = ""
        self.overrides: Mapping[str, Route] = {}
        self.failovers: Sequence[Failover] = ()
        self._clusters: dict[str, Cluster] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._take_clusters()

    @property
    def clusters(self) -> Mapping[str, Cluster]:
        """All clusters by name, in the order of the file."""
        return self._clusters

    def route(self, topic: str) -> Route | None:
        """Return the route of a topic; None when it has none."""
        found = self.usual(topic)
        return diverted(found, self.failovers) if found is not None and self.failovers else found

    def usual(self, topic: str) -> Route | None:
        """Return the route of a topic as it is while no site is lost."""
        return self.overrides.get(topic) or self.rooms.route(topic)

    async def run(self) -> None:
        """Follow the file, and keep an eye on each cluster, until cancelled."""
        async with asyncio.TaskGroup() as group:
            self._watch_clusters(group)
            while True:
                await self._clock.sleep(_LOOK_EVERY)
                if await self._follow():
                    self._watch_clusters(group)

    async def _follow(self) -> bool:
        """Whether another configuration is in force now."""
        try:
            content = await asyncio.to_thread(_read, self._path)
            if content == self._content:
                return False
            self._content = content
            rooms = read_rooms(content)
        except ConfigurationError as error:
            self._refuse(error)
            return False
        except Exception as error:  # noqa: BLE001 - a defect in reading it takes nothing from what is in force
            _log.exception("the lookup configuration %s cannot be read", self._path)
            self.trouble = str(error)
            return False
        self.trouble = ""
        self.rooms = rooms
        self._take_clusters()
        _log.info("the lookup configuration %s is in force as it is now", self._path)
        return True

    def _refuse(self, error: ConfigurationError) -> None:
        if isinstance(error.__cause__, OSError):
            self._content = b""  # what comes after it is looked at, also when it is what was there before
        if str(self.trouble) != str(error):
            _log.error("%s; what was in force before stays so", error)
        self.trouble = text_of_error(error)

    def _take_clusters(self) -> None:
        """Make those that are new or have other addresses, and leave the others as they are."""
        before = self._clusters
        self._clusters = {
            name: before[name]
            if name in before and before[name].addresses == addresses
            else Cluster(name, addresses, self._client, self._clock, self._noise)
            for name, addresses in self.rooms.clusters.items()
        }

    def _watch_clusters(self, group: asyncio.TaskGroup) -> None:
        for task in self._tasks.values():
            task.cancel()
        self._tasks = {
            name: group.create_task(lasting(f"watching cluster {name}", cluster.run, self._clock.sleep))
            for name, cluster in self._clusters.items()
        }


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(LARGEST + 1)
    except OSError as error:
        raise ConfigurationError(
            localized("cannot read the lookup configuration {path}: {why}", path=str(path), why=error.strerror or ""),
            hint=localized("check BUS_LOOKUP_CONFIG; see docs/lookup.md for an example"),
        ) from error
