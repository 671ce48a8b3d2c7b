"""Retries without the store: while it is away, they are made from the dispatcher's own spool."""

from __future__ import annotations

import asyncio
import heapq
import logging
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from bus.domain.delivery.delivery import Delivery, Origin, Outcome, Status, decode_outcome
from bus.domain.message import decode_message
from bus.ports.clock import Clock
from bus.ports.spool import Record, Spool, decoded
from dispatcher.outcomes import FEED, RETRY, OutcomeLog

_log = logging.getLogger(__name__)
_LOOK: Final = 0.25
_BATCH: Final = 256
# Seconds after its due time for which a retry is left to the compensator, which has it if the store has the outcome.
_GRACE: Final = 1.0
# Entries of ``_due`` that may be obsolete before it is cleaned up, besides as many as are held.
_SPARE: Final = 64

_Key = tuple[str, str, str]
_Place = tuple[str, int]
_Due = tuple[float, int, _Key]  # due at (monotonic seconds), position of its record, key


class _Held(NamedTuple):
    record: Record
    outcome: Outcome
    is_suspect: bool


class Retrier:
    """Makes the next attempt of a delivery as long as the store lacks its outcome; then its compensation row does.

    Each unfinished outcome is held here, durable in the spool, and acked once the store has it. One that is due while
    the store still lacks it is handed to the dispatcher, and acked in the commit of that attempt's outcome; but not one
    that keeps an order, which stays in the worker. What an earlier life has left is suspect: the store may have had it,
    and another process may have finished it.

    Parameters
    ----------
    spool
        The dispatcher's; its lanes of unfinished outcomes have the consumer ``RETRY``.
    offer
        Hands a delivery to its worker and says whether it was taken.
    """

    def __init__(self, spool: Spool, outcomes: OutcomeLog, offer: Callable[[Delivery], bool], clock: Clock) -> None:
        self._spool = spool
        self._outcomes = outcomes
        self._offer = offer
        self._clock = clock
        self._held: dict[_Key, _Held] = {}
        self._due: list[_Due] = []
        self._keys: dict[_Place, _Key] = {}
        self._is_recovering = True
        outcomes.superseded = self._superseded

    def written(self, records: Sequence[Record]) -> None:
        """Ack outcomes that the store has; those that were not claimed here yet are acked once they are."""
        for record in records:
            key = self._keys.get(_place(record))
            if key is not None:
                self._release(key)

    def passed(self, delivery: Delivery) -> None:
        """Forget the held outcome of a delivery whose newer outcome is durable."""
        key = (delivery.message.destination, delivery.subscription, delivery.message.id)
        held = self._held.get(key)
        if held is not None and _stage(held.outcome) <= (delivery.generation, delivery.attempts):
            self._release(key)

    def _superseded(self, outcome: Outcome) -> Record | None:
        """Return the record that is held of an earlier outcome of the same delivery."""
        held = self._held.get(_key(outcome)) if self._held else None
        return held.record if held is not None and _stage(held.outcome) <= _stage(outcome) else None

    async def run(self) -> None:
        """Claim unfinished outcomes, and hand over those that are due, until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._claim())
            while True:
                await self._clock.sleep(_LOOK)
                self._hand_over_due()

    async def _claim(self) -> None:
        while True:
            if not self._spool.lanes(RETRY):
                self._is_recovering = False
                await self._spool.wait(RETRY)
            for lane in self._spool.lanes(RETRY):
                for record in await self._spool.claim(RETRY, _BATCH, lane):
                    self._hold(record)

    def _hold(self, record: Record) -> None:
        outcome = decoded(record, decode_outcome)
        if outcome is None:
            return
        key = _key(outcome)
        held = self._held.get(key)
        if self._spool.acked(FEED, record) or (held is not None and _stage(outcome) < _stage(held.outcome)):
            self._spool.ack(RETRY, [record])
            return
        if held is not None:
            self._release(key)
        self._held[key] = _Held(record, outcome, self._is_recovering)
        self._keys[_place(record)] = key
        if outcome.place:
            return  # its worker keeps it in its place, or reads its row
        heapq.heappush(self._due, (self._clock.monotonic() + self._wait(outcome) + _GRACE, record.position, key))

    def _wait(self, outcome: Outcome) -> float:
        """Return the seconds until an outcome is due; never more than its own wait, even if the clock was put back."""
        return max(0, min(outcome.due_at - self._clock.now(), outcome.due_at - outcome.at)) / 1000

    def _hand_over_due(self) -> None:
        now = self._clock.monotonic()
        later: list[_Due] = []
        while self._due and self._due[0][0] <= now:
            item = heapq.heappop(self._due)
            if self._is_held(item) and not self._start(self._held[item[2]]):
                later.append(item)
        for item in later:
            heapq.heappush(self._due, item)

    def _start(self, held: _Held) -> bool:
        """Hand a due delivery to its worker, unless a newer outcome is recorded; False to try again later."""
        if self._outcomes.recent.has_later(*_key(held.outcome), *_stage(held.outcome)):
            return True  # its newer outcome is on its way here, or to the store
        return self._offer(_delivery(held))

    def _release(self, key: _Key) -> None:
        record = self._held.pop(key).record
        del self._keys[_place(record)]
        self._spool.ack(RETRY, [record])
        if len(self._due) > 2 * len(self._held) + _SPARE:
            # Obsolete entries may be due only in hours, and there may be millions until then.
            self._due = [item for item in self._due if self._is_held(item)]
            heapq.heapify(self._due)

    def _is_held(self, item: _Due) -> bool:
        held = self._held.get(item[2])
        return held is not None and held.record.position == item[1]


def _key(outcome: Outcome) -> _Key:
    return (outcome.destination, outcome.subscription, outcome.message_id)


def _stage(outcome: Outcome) -> tuple[int, int]:
    return (outcome.generation, outcome.attempts)


def _place(record: Record) -> _Place:
    return (record.lane, record.position)


def _delivery(held: _Held) -> Delivery:
    outcome = held.outcome
    return Delivery(
        message=decode_message(outcome.message),
        subscription=outcome.subscription,
        generation=outcome.generation,
        attempts=outcome.attempts,
        tries=outcome.tries,
        since=outcome.since,
        by=Origin.RESEND if outcome.status is Status.RESEND else Origin.RETRY,
        handed_over=True,
        order_key=outcome.order_key,
        place=outcome.place,
        is_suspect=held.is_suspect,
    )
