"""Deliveries that are not finished: found for the compensator, and ended when their subscription is removed."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Final

from bus.domain.delivery.canceling import canceled, canceled_row
from bus.domain.delivery.delivery import Compensation, Outcome, Status
from bus.domain.message import Message
from bus.domain.tracing.trace import Trace, received_at, waits_unseen
from bus.ports.store import Ended
from bus.stores.sqlite.compensations import BEGINNING, Compensations, LaneKey
from bus.stores.sqlite.keys import SMALLEST, Label, time_key
from bus.stores.sqlite.partitions import trace_sql
from bus.stores.sqlite.reading import CommittedReader

_CHUNK: Final = 256
_PATIENCE: Final = 1.0
_CLOCK_SKEW: Final = 600_000  # receivers refuse ids that are further ahead of their clock
Write = Callable[[Sequence[Message | Outcome]], Awaitable[None]]


class OpenDeliveries:
    """Walks the index of deliveries of one subscription, in chunks in the reader's thread."""

    def __init__(self, reading: CommittedReader, compensations: Compensations, write: Write) -> None:
        self._reading = reading
        self._compensations = compensations
        self._write = write

    async def unsettled(self, lane: LaneKey, before: int, limit: int) -> list[Message]:
        """Return whole messages whose delivery is pending, and that were received and to deliver before a time (ms).

        The oldest ids come first. Only pending deliveries of this subscription are read, and those for at most
        a second; then fewer are returned than there are.
        """
        deadline = time.monotonic() + _PATIENCE
        messages: list[Message] = []
        async for traces in self._chunks(lane, Status.PENDING, time_key(before + _CLOCK_SKEW)):
            for trace in traces:
                if not waits_unseen(trace, lane[1]):
                    continue
                if trace.message is not None and trace.message.ready_at < before and len(messages) < limit:
                    message = await self._reading.message(trace.id)
                    messages += [message] if message is not None else []
            if len(messages) >= limit or time.monotonic() > deadline:
                break
        return messages

    async def cancel(self, lane: LaneKey, now: int, ended: Ended) -> int:
        """End the open deliveries of messages received until now (ms) as ``canceled``, delete their rows; how many."""
        count = await self._cancel_rows(lane, now, ended)
        for status in trace_sql.OPEN:
            async for traces in self._chunks(lane, status, time_key(now + _CLOCK_SKEW)):
                # A delivery whose message has not arrived is open because of a row, with which it was decided above.
                old = [trace for trace in traces if trace.message is not None and trace.message.received_at <= now]
                outcomes = [canceled(trace, lane[1], now) for trace in old]
                await self._write(outcomes)
                ended(outcomes)
                count += len(outcomes)
        return count

    async def _cancel_rows(self, lane: LaneKey, now: int, ended: Ended) -> int:
        """Delete the rows, and end their deliveries, which may not be in the traces yet."""
        count = 0
        deleted = True
        while deleted:  # again, since a row that is leased or given back meanwhile changes its place
            deleted = False
            async for rows in self._rows(lane):
                traced = [(row, await self._reading.trace(row.message_id)) for row in rows]
                old = [(row, trace) for row, trace in traced if received_at(trace, row.message) <= now]
                outcomes = [outcome for row, trace in old if (outcome := canceled_row(row, trace, now)) is not None]
                await self._write(outcomes)
                ended(outcomes)
                await self._compensations.finish([row for row, _ in old])
                count += len(outcomes)
                deleted = deleted or bool(old)
        return count

    async def _rows(self, lane: LaneKey) -> AsyncIterator[list[Compensation]]:
        rows, place = await self._compensations.rows_of(lane, BEGINNING, _CHUNK)
        while rows:
            yield rows
            rows, place = await self._compensations.rows_of(lane, place, _CHUNK)

    async def _chunks(self, lane: LaneKey, status: Status, below: bytes) -> AsyncIterator[list[Trace]]:
        for label in reversed(self._reading.newest_first()):
            after = SMALLEST
            while found := await self._chunk(label, lane, status, after, below):
                yield [trace for _, trace in found]
                after = found[-1][0]

    async def _chunk(
        self, label: Label, lane: LaneKey, status: Status, after: bytes, below: bytes
    ) -> list[tuple[bytes, Trace]]:
        return await self._reading.run(lambda searcher: searcher.in_state(label, lane, status, (after, below), _CHUNK))
