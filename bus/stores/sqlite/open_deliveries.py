"""Deliveries that are not finished: found for the compensator, and ended when their subscription is removed."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Final

from bus.domain.delivery import Compensation, Outcome, Status
from bus.domain.message import Message
from bus.domain.trace import DeliveryTrace, Trace, is_finished, start_trace
from bus.stores.sqlite import partition_sql as sql
from bus.stores.sqlite.compensations import Compensations, LaneKey
from bus.stores.sqlite.keys import GREATEST, SMALLEST, time_key
from bus.stores.sqlite.reading import Reading
from bus.stores.sqlite.shelf import Label

REMOVED: Final = "subscription removed"
_CHUNK: Final = 256
_PATIENCE: Final = 1.0
_CLOCK_SKEW: Final = 600_000  # receivers refuse ids that are further ahead of their clock (semantics.md)
Write = Callable[[Sequence[Message | Outcome]], Awaitable[None]]


class OpenDeliveries:
    """Walks the index of deliveries of one subscription, in chunks in the reader's thread."""

    def __init__(self, reading: Reading, compensations: Compensations, write: Write) -> None:
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
                if trace.message is not None and _is_before(trace.message, before) and len(messages) < limit:
                    message = await self._reading.message(trace.id)
                    messages += [message] if message is not None else []
            if len(messages) >= limit or time.monotonic() > deadline:
                break
        return messages

    async def cancel(self, lane: LaneKey, now: int) -> int:
        """End all open deliveries as ``canceled``, and delete their rows; return how many."""
        canceled = await self._cancel_rows(lane, now)
        for status in sql.OPEN:
            async for traces in self._chunks(lane, status, GREATEST):
                await self._write([_canceled(trace, lane[1], now) for trace in traces])
                canceled += len(traces)
        return canceled

    async def _cancel_rows(self, lane: LaneKey, now: int) -> int:
        """Delete the rows, and end their deliveries; those documents may know nothing of them yet."""
        canceled = 0
        while rows := self._compensations.rows_of(lane, _CHUNK):
            outcomes = [await self._canceled_row(row, now) for row in rows if row.subscription]
            ended = [outcome for outcome in outcomes if outcome is not None]
            await self._write(ended)
            await self._compensations.finish(rows)
            canceled += len(ended)
        return canceled

    async def _canceled_row(self, row: Compensation, now: int) -> Outcome | None:
        trace = await self._reading.trace(row.message_id)
        if trace is None:
            trace = start_trace(row.message_id, row.destination, row.retention_days)
        if is_finished(trace, row.subscription, row.generation):
            return None
        delivery = DeliveryTrace(generation=row.generation, attempts_made=row.attempts)
        if known := trace.deliveries.get(row.subscription):
            delivery.url = known.url
        trace.deliveries[row.subscription] = delivery
        return _canceled(trace, row.subscription, now)

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


def _is_before(message: Message, time: int) -> bool:
    return max(message.received_at, message.deliver_at) < time


def _canceled(trace: Trace, subscription: str, now: int) -> Outcome:
    delivery = trace.deliveries[subscription]
    return Outcome(
        message_id=trace.id,
        destination=trace.destination,
        subscription=subscription,
        retention_days=trace.retention_days,
        url=delivery.url,
        status=Status.CANCELED,
        generation=delivery.generation,
        at=now,
        reason=REMOVED,
        attempts=delivery.attempts_made,
    )
