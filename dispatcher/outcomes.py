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
from bus.errors import SpoolError, SpoolFull
from bus.ports.clock import Clock
from bus.ports.events import Events
from bus.ports.spool import NewRecord, Record, Spool
from dispatcher.recent_outcomes import RecentOutcomes

_log = logging.getLogger(__name__)
RETRY: Final = "retry"
"""The consumer that holds unfinished outcomes until the store has them or their next attempt is recorded."""
FEED: Final = "store"
"""The consumer that brings outcomes to the store."""
_RETRY: Final = 0.2


class OutcomeOwner(Protocol):
    """Called back when the outcomes that it recorded are durable."""

    def recorded(self, tokens: Sequence[object]) -> None:
        """Ack the deliveries that these tokens identify."""
        ...


class _PendingOutcome(NamedTuple):
    record: NewRecord
    outcome: Outcome
    message: Message
    owner: OutcomeOwner
    token: object
    until: float


class _OutcomeCommit:
    """Outcomes that are being written to disk; reports the result to the log."""

    __slots__ = ("_batch", "_log")

    def __init__(self, log: OutcomeLog, batch: list[_PendingOutcome]) -> None:
        self._log = log
        self._batch = batch

    def done(self) -> bool:
        return False

    def set_result(self, _: list[int], /) -> None:
        try:
            self._log.stored(self._batch)
        except Exception as error:  # noqa: BLE001 - the caller would only log it
            self._log.fail(error)

    def set_exception(self, error: Exception, /) -> None:
        self._log.refused(self._batch, error)


class OutcomeLog:
    """Gathers outcomes of all subscriptions into shared commits of the dispatcher's spool.

    ``share_of`` says what part of the spool the outcomes of a destination may fill.

    Attributes
    ----------
    superseded
        Called with an outcome and the time until which its POST could start; returns the record that ``RETRY`` holds of
        an earlier outcome of the same delivery. It is acked in the commit of the later outcome, so that no crash leaves
        both.
    """

    def __init__(
        self, spool: Spool, events: Events, clock: Clock, share_of: Callable[[str], float] = lambda _: 1.0
    ) -> None:
        self._spool = spool
        self._share_of = share_of
        self._events = events
        self._clock = clock
        self._pending: list[_PendingOutcome] = []
        self._is_scheduled = False
        self._hurries = False
        self._writing = 0
        self._told = asyncio.Event()
        self._trouble = asyncio.Event()
        self._failure: Exception | None = None
        self._room = asyncio.Event()
        self._room.set()
        self._unfinished: set[str] = set()
        # By stream, how many outcomes were ever recorded, and how many of them are durable.
        self._recorded: dict[str, int] = {}
        self._durable: dict[str, int] = {}
        self.recent = RecentOutcomes(clock)
        self.superseded: Callable[[Outcome, float], Record | None] = lambda _, __: None

    def record(
        self,
        outcome: Outcome,
        message: Message,
        owner: OutcomeOwner,
        token: object,
        *,
        hurries: bool = True,
        until: float = float("inf"),
    ) -> None:
        """Take the outcome of a message's delivery; ``owner.recorded`` follows once it is durable.

        Unless it ``hurries`` it waits for the commit of others, for a twentieth of a second at most. ``until`` is when
        (monotonic seconds) its POST could start last, before the lease of its row ends; infinite without a lease.
        """
        record = NewRecord(self._lane(outcome), encode_outcome(outcome), outcome.at)
        self._recorded[record.lane] = self._recorded.get(record.lane, 0) + 1
        self._pending.append(_PendingOutcome(record, outcome, message, owner, token, until))
        self.recent.add(outcome)
        self._hurries |= hurries
        self._schedule()

    def _schedule(self) -> None:
        """Have what is pending written at the end of this turn of the loop."""
        if self._room.is_set() and not self._is_scheduled:
            self._is_scheduled = True
            asyncio.get_running_loop().call_soon(self._write)

    def _lane(self, outcome: Outcome) -> str:
        """Return the stream of an outcome; unfinished ones have their own, where ``RETRY`` holds them too."""
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

    def unstored(self, destination: str, subscription: str) -> Callable[[], int]:
        """Return a function that counts the present outcomes, durable or not, that the store still lacks.

        They are those of a subscription, or of its destination that are final. Later ones do not count.
        """
        lanes = (destination, unfinished_lane(destination, subscription))
        begin = [self._recorded.get(lane, 0) for lane in lanes]

        def left() -> int:
            return sum(self._left(lane, before) for lane, before in zip(lanes, begin, strict=True))

        return left

    def _left(self, lane: str, before: int) -> int:
        """Return how many of a stream's first outcomes the store lacks; it takes them in order."""
        recorded = self._recorded.get(lane, 0)
        lacking = self._spool.pending(FEED, lane) + recorded - self._durable.get(lane, 0)
        return max(0, lacking - (recorded - before))

    async def room(self) -> None:
        """Return when the disk takes outcomes again."""
        await self._room.wait()

    async def run(self) -> None:
        """Write again what the spool has refused, until cancelled; raises when its disk or an owner has failed."""
        while True:
            await self._trouble.wait()
            self._trouble.clear()
            if self._failure is not None:
                raise self._failure
            await self._clock.sleep(_RETRY)
            self._write()

    async def drain(self) -> None:
        """Return when all that was recorded is durable; `run` must be running."""
        while self._pending or self._writing:
            self._hurries = True
            self._schedule()
            self._told.clear()
            await self._told.wait()

    def _write(self) -> None:
        self._is_scheduled = False
        batch, self._pending = self._pending, []
        hurries, self._hurries = self._hurries, False
        if not batch:
            return
        self._writing += 1
        records, waiter = [item.record for item in batch], _OutcomeCommit(self, batch)
        done = [record for item in batch if (record := self.superseded(item.outcome, item.until)) is not None]
        try:
            self._spool.append_with(records, waiter, urgent=True, lingers=not hurries, consumer=RETRY, done=done)
        except SpoolError as error:
            self.refused(batch, error)

    def stored(self, batch: Sequence[_PendingOutcome]) -> None:
        """Report outcomes that are durable."""
        self._writing -= 1
        self._room.set()
        if self._pending:
            self._schedule()
        owners: dict[OutcomeOwner, list[object]] = {}
        for item in batch:
            self._durable[item.record.lane] = self._durable.get(item.record.lane, 0) + 1
            owners.setdefault(item.owner, []).append(item.token)
        for owner, tokens in owners.items():
            owner.recorded(tokens)
        for item in batch:
            self._events.emit(events_of.settled(item.outcome, item.message))
        self._told.set()

    def fail(self, error: Exception) -> None:
        """Have `run` raise a defect, or a disk's failure."""
        self._failure = error
        self._trouble.set()

    def refused(self, batch: list[_PendingOutcome], error: Exception) -> None:
        """Keep outcomes that the spool did not take; deliveries stop while its disk is full."""
        self._writing -= 1
        self._pending[:0] = batch
        if not isinstance(error, SpoolFull):
            self.fail(error)
        elif self._room.is_set():
            _log.error("no room to record outcomes; deliveries stop until there is: %s", error)
        self._room.clear()
        self._trouble.set()
        self._told.set()
