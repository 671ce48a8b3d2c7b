"""Deliveries that are not finished: found for the compensator, and ended when their subscription is removed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Final

from bus.domain.delivery.canceling import canceled, canceled_row
from bus.domain.delivery.delivery import Compensation, Outcome, Status
from bus.domain.identity import id_floor
from bus.domain.message import Message
from bus.domain.tracing.trace import Trace, received_at, waits_unseen
from bus.ports.clock import Clock
from bus.ports.store import Ended
from bus.stores.mongodb.compensations import Compensations, LaneKey
from bus.stores.mongodb.connection import Connection
from bus.stores.mongodb.indexes import OPEN, lane_entry
from bus.stores.mongodb.inserting import slices
from bus.stores.mongodb.names import Label, label_of, lane_name
from bus.stores.mongodb.partitions import Partitions
from bus.stores.mongodb.reading import CommittedReader, StoredTrace

_CHUNK: Final = 256
_FEW: Final = 16  # rows whose messages, of any size, are held at once
_PATIENCE: Final = 5.0
_CLOCK_SKEW: Final = 600_000  # receivers refuse ids that are further ahead of their clock
Write = Callable[[Sequence[Message | Outcome]], Awaitable[None]]


class OpenDeliveries:
    """Walks the index of deliveries of one subscription, in chunks."""

    def __init__(
        self,
        connection: Connection,
        partitions: Partitions,
        reading: CommittedReader,
        compensations: Compensations,
        write: Write,
        clock: Clock,
    ) -> None:
        self._connection = connection
        self._partitions = partitions
        self._reading = reading
        self._compensations = compensations
        self._write = write
        self._clock = clock

    async def unsettled(self, lane: LaneKey, before: int, limit: int) -> list[Message]:
        """Return whole messages whose delivery is pending, and that were received and to deliver before a time (ms).

        The oldest ids come first. Only pending deliveries of this subscription are read, and those for at most
        five seconds; then fewer are returned than there are.
        """
        deadline = self._clock.monotonic() + _PATIENCE
        messages: list[Message] = []
        async for label, found in self._chunks(lane, Status.PENDING, id_floor(max(0, before + _CLOCK_SKEW))):
            unseen = [one for one in found if waits_unseen(one.trace, lane[1])]
            wanted = [one for one in unseen if one.trace.message is not None and one.trace.message.ready_at < before]
            while wanted and (room := limit - len(messages)) > 0:
                messages += await self._reading.whole(label, wanted[:room])
                wanted = wanted[room:]
            if len(messages) >= limit or self._clock.monotonic() > deadline:
                break
        return messages

    async def cancel(self, lane: LaneKey, now: int, ended: Ended) -> int:
        """End the open deliveries of messages received until now (ms) as ``canceled``, delete their rows; how many."""
        count = await self._cancel_rows(lane, now, ended)
        for status in OPEN:
            async for _, found in self._chunks(lane, status, id_floor(max(0, now + _CLOCK_SKEW))):
                # A delivery whose message has not arrived is open because of a row, with which it was decided above.
                old = [one.trace for one in found if one.trace.message and one.trace.message.received_at <= now]
                outcomes = [canceled(trace, lane[1], now) for trace in old]
                await self._write(outcomes)
                ended(outcomes)
                count += len(outcomes)
        return count

    async def _cancel_rows(self, lane: LaneKey, now: int, ended: Ended) -> int:
        """Delete the rows, and end their deliveries, which may not be in the traces yet."""
        count = 0
        async for rows in self._compensations.rows_of(lane, _CHUNK):
            traced = await self._traced(rows)
            old = [(row, trace) for row, trace in traced if received_at(trace, row.message) <= now]
            outcomes = [outcome for row, trace in old if (outcome := canceled_row(row, trace, now)) is not None]
            await self._write(outcomes)
            ended(outcomes)
            await self._compensations.finish([row for row, _ in old])
            count += len(outcomes)
        return count

    async def _traced(self, rows: Sequence[Compensation]) -> list[tuple[Compensation, Trace | None]]:
        """Return rows with their traces; where a trace has no message, the row is read with the one it carries."""
        by_partition: defaultdict[Label, list[Compensation]] = defaultdict(list)
        for row in rows:
            by_partition[label_of(row.message_id, row.retention_days)].append(row)
        traced: list[tuple[Compensation, Trace | None]] = []
        for label, part in by_partition.items():
            traces = await self._reading.traces(label, [row.message_id for row in part])
            known = [row for row in part if (trace := traces.get(row.message_id)) and trace.message]
            traced += [(row, traces[row.message_id]) for row in known]
            for unknown in slices([row for row in part if row not in known], most=_FEW):
                whole = await self._compensations.whole(unknown)
                traced += [(row, traces.get(row.message_id)) for row in whole]
        return traced

    async def _chunks(
        self, lane: LaneKey, status: Status, below: str
    ) -> AsyncIterator[tuple[Label, list[StoredTrace]]]:
        for label in reversed(await self._partitions.newest_first()):
            after = ""
            while True:
                condition = {
                    "lanes": lane_entry(status, lane_name(*lane)),
                    "_id": {"$gt": after, "$lt": below},
                }
                forms = await self._connection.find(label.traces, condition, sort=[("_id", 1)], limit=_CHUNK)
                if not forms:
                    break
                yield label, self._reading.found(label, forms)
                after = forms[-1]["_id"]
