"""The partitions: which there are, their indexes, and which subscriptions they have deliveries of."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from bus.ports.clock import Clock
from bus.stores.mongodb.connection import Connection
from bus.stores.mongodb.indexes import LANES, PREPARED, TRACES
from bus.stores.mongodb.inserting import insert_new
from bus.stores.mongodb.names import Label, label_of_bodies, label_of_traces, lane_of

_FRESH: Final = 1.0  # seconds for which a list of the partitions is good


class Partitions:
    """Finds partitions by listing the database's collections; two per partition, traces and bodies."""

    def __init__(self, connection: Connection, clock: Clock) -> None:
        self._connection = connection
        self._clock = clock
        self._listed: set[Label] = set()
        self._listed_at = float("-inf")
        self._losses = 0
        self._prepared: dict[Label, float] = {}
        self._lanes: dict[Label, set[str]] = {}

    async def newest_first(self) -> list[Label]:
        """Return all partitions, the newest day first; one that another process made is seen within a second."""
        if self._clock.monotonic() - self._listed_at > _FRESH:
            self._listed = {label for name in await self._collections("traces_") if (label := label_of_traces(name))}
            self._listed_at = self._clock.monotonic()
        return sorted(self._listed, reverse=True)

    async def of_day(self, day: int) -> list[Label]:
        """Return the partitions of a day."""
        return [label for label in await self.newest_first() if label.day == day]

    async def prepare(self, label: Label) -> None:
        """Make a partition with its indexes, unless this was done recently and no connection was lost since then."""
        if self._losses != self._connection.losses:
            self._losses = self._connection.losses
            self._prepared.clear()
        now = self._clock.monotonic()
        if now - self._prepared.get(label, float("-inf")) <= PREPARED:
            return
        traces = self._connection[label.traces]
        await self._connection.exchange(f"make the indexes of {label.traces}", lambda: traces.create_indexes(TRACES))
        self._prepared[label] = now
        self._listed.add(label)
        self._lanes.pop(label, None)

    async def note(self, label: Label, lanes: Iterable[str]) -> None:
        """Keep a list of the subscriptions (``lane_name``) that a partition has deliveries of."""
        known = self._lanes.setdefault(label, set())
        new = {lane for lane in lanes if lane not in known}
        if new:
            forms = [{"_id": f"{label.name} {lane}", "partition": label.name, "lane": lane} for lane in sorted(new)]
            await insert_new(self._connection, LANES, forms)
            known |= new

    async def subscribed(self) -> set[tuple[str, str]]:
        """Return every (destination, subscription) that a partition has a delivery of."""
        forms = await self._connection.find(LANES, {}, fields=["lane"])
        return {lane_of(form["lane"]) for form in forms if isinstance(form.get("lane"), str)}

    async def drop(self, label: Label) -> None:
        """Remove a partition; the list of its subscriptions first, so that a crash between leaves no list behind."""
        self._prepared.pop(label, None)
        self._lanes.pop(label, None)
        lanes = self._connection[LANES]
        await self._connection.exchange(
            f"forget the subscriptions of {label.name}", lambda: lanes.delete_many({"partition": label.name})
        )
        for name in (label.traces, label.bodies):
            await self._drop(name)
        self._listed.discard(label)

    async def drop_orphans(self, before_day: int) -> None:
        """Remove the bodies of partitions whose drop was cut off, where their day was long ago."""
        present = set(await self.newest_first())
        for name in await self._collections("bodies_"):
            label = label_of_bodies(name)
            if label is not None and label not in present and label.day + label.retention_days < before_day:
                await self._drop(name)

    async def _drop(self, name: str) -> None:
        await self._connection.exchange(f"drop {name}", self._connection[name].drop)

    async def _collections(self, prefix: str) -> list[str]:
        database, named = self._connection.database, {"name": {"$regex": f"^{prefix}"}}
        return await self._connection.exchange(
            "list the collections", lambda: database.list_collection_names(filter=named)
        )
