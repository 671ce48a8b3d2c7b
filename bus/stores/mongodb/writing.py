"""The hot path: one gathering of messages and outcomes becomes a few bulks per partition."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Final, NamedTuple

from bus.domain.delivery.delivery import Compensation, Outcome, compensation_of
from bus.domain.message import Message
from bus.domain.tracing.trace import finished_generation, is_overtaken
from bus.errors import StoreUnavailable
from bus.localized_text import localized
from bus.ports.store import DocumentWrite
from bus.stores.mongodb.bodies import Bodies
from bus.stores.mongodb.compensations import Compensations, Ending
from bus.stores.mongodb.connection import Connection
from bus.stores.mongodb.damaged import DamagedDocuments
from bus.stores.mongodb.documents import Documents
from bus.stores.mongodb.merging import Merge, Write
from bus.stores.mongodb.names import Label, label_of
from bus.stores.mongodb.partitions import Partitions

_MOST_ROUNDS: Final = 100
_MOST_TURNS: Final = 10


class Call(NamedTuple):
    """The writes of one caller."""

    writes: Sequence[Write]
    documents: Sequence[DocumentWrite]


class TraceWriter:
    """Writes gatherings, one at a time."""

    def __init__(
        self,
        connection: Connection,
        partitions: Partitions,
        bodies: Bodies,
        compensations: Compensations,
        damaged: DamagedDocuments,
        documents: Documents,
    ) -> None:
        self._connection = connection
        self._partitions = partitions
        self._bodies = bodies
        self._compensations = compensations
        self._damaged = damaged
        self._documents = documents

    async def commit(self, calls: list[Call]) -> list[None]:
        """Make the writes of several callers durable.

        A server that went away in between may have come back without the first of them, so all are written again.
        """
        for _ in range(_MOST_TURNS):
            losses = self._connection.losses
            await self._write(calls)
            if losses == self._connection.losses:
                return [None] * len(calls)
        raise StoreUnavailable(
            localized(
                "connections to MongoDB ended {count} times in a row; the writes stay in the spool", count=_MOST_TURNS
            ),
            hint=localized("look at the server's log, and at what is between it and this process"),
        )

    async def _write(self, calls: list[Call]) -> None:
        """Write bodies and documents, then unfinished work, then the traces."""
        merges = self._split(calls)
        for merge in merges:
            await self._partitions.prepare(merge.label)
            await self._bodies.put(merge.label, merge.bodies)
        await self._documents.put_all([document for call in calls for document in call.documents])
        made: set[tuple[str, str]] = set()
        for _ in range(_MOST_ROUNDS):
            merges_left = [merge for merge in merges if not merge.done]
            if not merges_left:
                break
            await self._round(merges_left, made)
        else:
            raise StoreUnavailable(
                localized(
                    "others changed the same traces {count} times in a row; the rest stays in the spool",
                    count=_MOST_ROUNDS,
                ),
                hint=localized("this passes by itself; look for a process that writes the same messages continuously"),
            )
        for merge in merges:
            await merge.confirm()
        for merge in merges:
            merge.check()

    async def _round(self, merges: Sequence[Merge], made: set[tuple[str, str]]) -> None:
        for merge in merges:
            await merge.read()
            await self._partitions.note(merge.label, merge.lanes)
        await self._compensate(merges, made)
        for merge in merges:
            await merge.write()

    async def _compensate(self, merges: Sequence[Merge], made: set[tuple[str, str]]) -> None:
        """Make the rows of unfinished deliveries, and delete those of finished ones; durable when it returns.

        An outcome that repeats after its delivery was finished makes no row. One that another process finishes at
        the same time may find a row that was made just then: its trace is therefore written even where it did not
        change, so that one of the two sees the other in the next round, where the row goes again.
        """
        rows: list[Compensation] = []
        endings: list[Ending] = []
        for merge in merges:
            for outcome in merge.outcomes:
                held = merge.held[outcome.message_id]
                name = (outcome.message_id, outcome.subscription)
                row = compensation_of(outcome)
                if row is None:
                    if (ended := finished_generation(outcome)) >= 0:
                        endings.append((*name, ended))
                elif not is_overtaken(held.trace, outcome):
                    rows.append(row)
                    held.touched = True
                    made.add(name)
                elif name in made:
                    endings.append((*name, outcome.generation))
        await self._compensations.change(rows, endings)

    def _split(self, calls: list[Call]) -> list[Merge]:
        writes: defaultdict[Label, list[Message | Outcome]] = defaultdict(list)
        for call in calls:
            for write in call.writes:
                message_id = write.id if isinstance(write, Message) else write.message_id
                writes[label_of(message_id, write.retention_days)].append(write)
        return [Merge(self._connection, self._damaged, label, part) for label, part in writes.items()]
