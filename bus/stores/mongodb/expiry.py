"""Partitions past their retention are dropped whole."""

from __future__ import annotations

from bus.domain.times import DAY
from bus.stores.mongodb.connection import Connection
from bus.stores.mongodb.indexes import OPEN
from bus.stores.mongodb.names import Label
from bus.stores.mongodb.partitions import Partitions


class Expiry:
    """Decides from the partitions' indexes.

    A write that reaches a partition in the moment between the decision and the drop goes with it. Only messages whose
    id is older than the retention can do that, which receivers refuse.
    """

    def __init__(self, connection: Connection, partitions: Partitions) -> None:
        self._connection = connection
        self._partitions = partitions

    async def expire(self, now: int) -> tuple[list[str], list[str]]:
        """Return the names of the partitions that were dropped, and of those that unfinished work keeps."""
        dropped: list[str] = []
        kept: list[str] = []
        for label in reversed(await self._partitions.newest_first()):
            if (label.day - 1 + label.retention_days) * DAY > now:
                continue
            if await self._received_since(label, now - label.retention_days * DAY):
                continue
            if await self._is_unfinished(label):
                kept.append(label.name)
            else:
                await self._partitions.drop(label)
                dropped.append(label.name)
        await self._partitions.drop_orphans(now // DAY)
        return dropped, kept

    async def _received_since(self, label: Label, time: int) -> bool:
        newer = {"received_at": {"$gte": time}}
        return bool(await self._connection.find(label.traces, newer, fields=["_id"], limit=1))

    async def _is_unfinished(self, label: Label) -> bool:
        for status in OPEN:
            open_ones = {"lanes": {"$regex": f"^{status}:"}}
            if await self._connection.find(label.traces, open_ones, fields=["_id"], limit=1):
                return True
        return False
