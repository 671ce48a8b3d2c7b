"""Outcomes are durable before the transport's delivery is acked."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, Protocol

from bus.domain.delivery.delivery import Outcome, encode_outcome
from bus.domain.lanes import unfinished_lane
from bus.domain.message import Message
from bus.domain.tracing import events as events_of
from bus.errors import SpoolFull
from bus.ports.clock import Clock
from bus.ports.events import Events
from bus.ports.spool import NewRecord, Spool
from dispatcher.recent_outcomes import RecentOutcomes

_log = logging.getLogger(__name__)
RETRY: Final = "retry"
"""The consumer that holds unfinished outcomes until the store has them or their next attempt is recorded."""
_RETRY: Final = 0.2


class Recorded(Protocol):
    """Called back when the outcomes that it recorded are durable."""

    def recorded(self, tokens: Sequence[object]) -> None:
        """Ack the deliveries that these tokens identify."""
        ...


class _Pending(NamedTuple):
    record: NewRecord
    outcome: Outcome
    message: Message
    owner: Recorded
    token: object


class OutcomeLog:
    """Gathers outcomes of all subscriptions into shared commits of the dispatcher's spool.

    ``share_of`` says what part of the spool the outcomes of a destination may fill.
    """

    def __init__(
        self, spool: Spool, events: Events, clock: Clock, share_of: Callable[[str], float] = lambda _: 1.0
    ) -> None:
        self._spool = spool
        self._share_of = share_of
        self._events = events
        self._clock = clock
        self._pending: list[_Pending] = []
        self._wake = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()
        self._flushing = asyncio.Lock()
        self._unfinished: set[str] = set()
        self.recent = RecentOutcomes(clock)

    def record(self, outcome: Outcome, message: Message, owner: Recorded, token: object) -> None:
        """Take the outcome of a message's delivery; ``owner.recorded`` follows once it is durable."""
        record = NewRecord(self._lane(outcome), encode_outcome(outcome), outcome.at)
        self._pending.append(_Pending(record, outcome, message, owner, token))
        self.recent.add(outcome)
        self._wake.set()

    def _lane(self, outcome: Outcome) -> str:
        """Return the lane of an outcome; unfinished ones have a lane of their own, where ``RETRY`` holds them too."""
        if not outcome.message:
            return outcome.destination
        lane = unfinished_lane(outcome.destination, outcome.subscription)
        if lane not in self._unfinished:
            self._spool.attach(lane, RETRY)
            self._unfinished.add(lane)
        return lane

    @property
    def has_room(self) -> bool:
        """Whether the disk takes outcomes: nothing is POSTed that could not be recorded."""
        return self._room.is_set()

    def has_room_for(self, destination: str) -> bool:
        """Whether a destination's outcomes are within its share of the spool; else it gets no POSTs for now."""
        return self._spool.room(destination).moves(self._share_of(destination), 0)

    async def room(self) -> None:
        """Return when the disk takes outcomes again."""
        await self._room.wait()

    async def run(self) -> None:
        """Write until cancelled."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            await self._flush()

    async def drain(self) -> None:
        """Write what is pending, and what is being written."""
        while self._pending or self._flushing.locked():
            await self._flush()

    async def _flush(self) -> None:
        async with self._flushing:
            batch, self._pending = self._pending, []
            if not batch:
                return
            await self._append([item.record for item in batch])
            self._tell(batch)

    def _tell(self, batch: Sequence[_Pending]) -> None:
        owners: dict[Recorded, list[object]] = {}
        for item in batch:
            owners.setdefault(item.owner, []).append(item.token)
        for owner, tokens in owners.items():
            owner.recorded(tokens)
        for item in batch:
            self._events.emit(events_of.settled(item.outcome, item.message))

    async def _append(self, records: Sequence[NewRecord]) -> None:
        while True:
            try:
                await self._spool.append(records, urgent=True)
            except SpoolFull as error:
                if self._room.is_set():
                    _log.error("no room to record outcomes; deliveries stop until there is: %s", error)
                self._room.clear()
                await self._clock.sleep(_RETRY)
            else:
                self._room.set()
                return
