"""Drops whole partitions: those that the pipeline archived, and those past their retention."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

from bus.domain.identity import id_floor
from bus.domain.times import DAY
from bus.domain.tracing.contents import Contents, Tally
from bus.domain.tracing.partition import PartitionLabel
from bus.errors import StoreError
from bus.stores.dropping import absent, changed, check_contents, unfinished
from bus.stores.mongodb.bodies import Bodies
from bus.stores.mongodb.connection import Connection, Form
from bus.stores.mongodb.forms import DamagedDocument
from bus.stores.mongodb.indexes import COMPENSATIONS, OPEN
from bus.stores.mongodb.inserting import MOST, slices
from bus.stores.mongodb.names import Label
from bus.stores.mongodb.partitions import Partitions
from bus.stores.mongodb.reading import CommittedReader, StoredTrace


class PartitionDrop:
    """Looks at all of a partition, then at the revisions of its documents, then drops it.

    A write between the second look and the drop goes with the partition. No delivery does: a writer makes the row of
    an unfinished delivery, which has the whole message, before it writes the trace.
    """

    def __init__(
        self, connection: Connection, partitions: Partitions, reading: CommittedReader, bodies: Bodies
    ) -> None:
        self._connection = connection
        self._partitions = partitions
        self._reading = reading
        self._bodies = bodies

    async def drop(self, partition: PartitionLabel, contents: Contents) -> None:
        """Drop a partition that has exactly these contents; raises as the port says."""
        label = Label(*partition)
        if label not in await self._partitions.newest_first():
            raise absent(label.name)
        tally = Tally()
        revisions: dict[str, str] = {}
        async for forms in self._pages(label):
            revisions |= {form["_id"]: form.get("revision", "") for form in forms}
            await self._add(tally, label, forms)
        check_contents(label.name, tally, contents)
        if await self._has_rows(label):
            raise unfinished(label.name)
        async for forms in self._pages(label, ("revision",)):
            for form in forms:
                if revisions.pop(form["_id"], None) != form.get("revision", ""):
                    raise changed(label.name)
        if revisions:
            raise changed(label.name)
        await self._partitions.drop(label)

    async def _pages(self, label: Label, fields: Sequence[str] | None = None) -> AsyncIterator[list[Form]]:
        after = ""
        while forms := await self._connection.find(
            label.traces, {"_id": {"$gt": after}}, fields=fields, sort=[("_id", 1)], limit=MOST
        ):
            yield forms
            after = forms[-1]["_id"]

    async def _add(self, tally: Tally, label: Label, forms: Sequence[Form]) -> None:
        found = self._reading.found(label, forms)
        if len(found) != len(forms):
            raise StoreError(
                f"partition {label.name} has documents that this bus cannot read; nothing was dropped",
                hint="the log names them: restore or delete them, then archive it again",
            )
        for piece in slices(found, _size):
            bodies = await self._bodies.get(label, [one.body for one in piece])
            for one, body in zip(piece, bodies, strict=True):
                if isinstance(body, DamagedDocument):
                    raise StoreError(f"{body}; nothing was dropped", hint="restore it from a backup")
                tally.add(one.trace, body)

    async def _has_rows(self, label: Label) -> bool:
        """Whether something of the partition is still to be done, whatever its trace says."""
        start, end = id_floor(label.day * DAY), id_floor((label.day + 1) * DAY)
        of_partition = {"_id": {"$gte": start, "$lt": end}, "retention_days": label.retention_days}
        return bool(await self._connection.find(COMPENSATIONS, of_partition, fields=["_id"], limit=1))


def _size(found: StoredTrace) -> int:
    return found.body.size


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
