"""The next attempt of a delivery that failed: who makes it, and when this dispatcher does."""

from __future__ import annotations

import asyncio
import contextlib
import heapq
import itertools
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from msgspec.structs import replace

from bus.domain.delivery.delivery import Delivery, Outcome, decode_outcome
from bus.domain.delivery.leases import lease_time, start_within, starting
from bus.domain.message import Message
from bus.errors import StoreError
from bus.ports.clock import Clock
from bus.ports.spool import Record, Spool, decoded
from bus.ports.store import DeliveryKey, Store
from bus.stores.brief_questions import BriefQuestions
from dispatcher.outcomes import FEED, RETRY, OutcomeLog
from dispatcher.retries.held_outcomes import HeldOutcome, Key, Lane, Place, State, key_of, place_of, stage_of

_LOOK: Final = 0.25
_SWEEP: Final = 5.0
_SHORTEST: Final = 0.005
_PATIENCE: Final = 2.0
_BATCH: Final = 256
_FEWEST: Final = 16
# Seconds after its due time for which a retry without a lease is left to the process that has leased its row.
_GRACE: Final = 1.0
# Retries that are due later (ms) are left to the compensators, and so are more than so many, with their bytes.
_SOON: Final = 30_000
_MOST: Final = 10_000
_MOST_BYTES: Final = 16 * 1024 * 1024
# Entries of ``_due`` that may be obsolete before it is cleaned up, besides as many as are held.
_SPARE: Final = 64

_NEVER: Final = float("inf")

_Due = tuple[float, int, Key]  # looked at then (monotonic seconds), position of its record, key


class _UrgentOutcomes(NamedTuple):
    """The latest outcome of a delivery of which the store has an earlier one, whose lease ends at ``until``.

    The store must have it before: it may wait there for longer than the one before it did, in another stream.
    """

    outcome: Outcome
    until: float


class Retrier:
    """Makes the next attempt of a delivery while the store lacks its outcome, and if it is due soon also afterwards.

    A retry has one owner. It is this dispatcher until the store has the outcome. The row that the store makes of it is
    leased to this dispatcher if the retry is due soon, or was started, or has an outcome that the store lacks; any
    process may make the others. An outcome is durable in the spool until the store has it, and in the store from then
    on: when this process ends, others make its retries once their leases are over, or it has started again.

    What is due is handed to its worker; but not what keeps an order, which stays in the worker. What an earlier life
    has left is suspect: the store may have had it, and another process may have finished it.

    Parameters
    ----------
    spool
        The dispatcher's; its streams of unfinished outcomes have the consumer ``RETRY``.
    room
        Returns how many deliveries the worker of a subscription takes.
    offer
        Hands a delivery to its worker, which drops it if its POST cannot start before a time (monotonic seconds), and
        says whether it was taken.
    timeout
        Returns how long (ms) a POST to a subscription may last; None for one that is not configured.
    owner
        Names the leases of this dispatcher, after a restart as well.
    lead
        Returns by how much (ms) other processes' clocks are ahead of this one's.
    """

    def __init__(
        self,
        spool: Spool,
        outcomes: OutcomeLog,
        room: Callable[[Lane], int],
        offer: Callable[[Delivery, float], bool],
        clock: Clock,
        store: Store,
        timeout: Callable[[Lane], int | None],
        owner: str,
        lead: Callable[[], int] = lambda: 0,
    ) -> None:
        self._spool = spool
        self._outcomes = outcomes
        self._room = room
        self._offer = offer
        self._clock = clock
        self._store = store
        self._timeout = timeout
        self._owner = owner
        self._lead = lead
        self._held: dict[Key, HeldOutcome] = {}
        self._keys: dict[Place, Key] = {}
        self._due: list[_Due] = []
        self._ready: defaultdict[Lane, deque[HeldOutcome]] = defaultdict(deque)
        self._leased = 0
        self._leased_bytes = 0
        self._unasked: deque[HeldOutcome] = deque()
        self._has_unasked = asyncio.Event()
        self._overtaking: dict[Key, _UrgentOutcomes] = {}
        self._leaving: dict[Place, Outcome] = {}  # those of ``_overtaking`` that the feed writes
        self._early_at_once = _BATCH
        self._questions = BriefQuestions(clock)
        self._is_recovering = True
        self._has_reclaimed = False
        self._is_closing = False
        outcomes.superseded = self._superseded

    # What becomes of outcomes on their way to the store

    async def prepare(self) -> None:
        """End the leases that an earlier life made at its start, before there are such of this one."""
        await self._store.reclaim(starting(self._owner))

    def leaving(self, record: Record, write: Message | Outcome) -> Message | Outcome:
        """Return an outcome with the lease that its row is to have, if its retry is this dispatcher's."""
        if not isinstance(write, Outcome):
            return write
        if self._overtaking and key_of(write) in self._overtaking:
            self._leaving[place_of(record)] = write
        if not write.message or write.place:
            return write
        held = self._holding(record, write)
        if held is not None:
            held.state = State.LEAVING
        return self._leased_to_me(write, held)

    def _leased_to_me(self, write: Outcome, held: HeldOutcome | None) -> Outcome:
        timeout = self._timeout((write.destination, write.subscription))
        if timeout is None or not (held is None or self._may_lease(held)):
            return write
        wait = self._wait(write)
        if held is not None:
            self._lease(held, self._clock.monotonic() + (wait + start_within(timeout)) / 1000)
        until = max(self._clock.now(), write.at) + self._lead() + wait + lease_time([timeout])
        # What is reclaimed is of an earlier life.
        owner = self._owner if self._has_reclaimed else starting(self._owner)
        return replace(write, owner=owner, lease_until=until)

    def _holding(self, record: Record, outcome: Outcome) -> HeldOutcome | None:
        """Return what is held of an outcome; None when a later one of its delivery is durable."""
        if self._spool.acked(RETRY, record):
            return None
        held = self._held.get(key_of(outcome))
        if held is None or held.stage < stage_of(outcome):
            return self._add(outcome, place_of(record))
        return held if held.place == place_of(record) else None

    def _may_lease(self, held: HeldOutcome) -> bool:
        """Whether a retry is made here: it was started, or is due soon and one of not too many."""
        if self._is_overtaken(held):
            return True
        if self._is_closing:
            return False
        if held.is_offered or held.until is not None:
            return held.is_offered or not held.is_over(self._clock.monotonic())
        has_room = self._leased < _MOST and self._leased_bytes + len(held.outcome.message) <= _MOST_BYTES
        return has_room and self._wait(held.outcome) <= _SOON

    def _lease(self, held: HeldOutcome, until: float) -> None:
        if held.until is not None:
            return  # the store may have the lease of an earlier write, whose answer was lost
        held.until = until
        self._leased += 1
        self._leased_bytes += len(held.outcome.message)
        if not (held.is_ready or held.is_offered):
            self._schedule(held, self._wait(held.outcome) / 1000)

    def written(self, records: Sequence[Record]) -> None:
        """Ack outcomes that the store has, and keep here whose rows are leased."""
        for record in records:
            if self._leaving and (write := self._leaving.pop(place_of(record), None)) is not None:
                self._forget_overtaking(write)
            key = self._keys.pop(place_of(record), None)
            if key is None:
                continue
            held = self._held[key]
            held.state = State.STORED
            if held.until is None or self._is_free(held, self._clock.monotonic()):
                self._release(held)
            elif held.record is not None:
                self._spool.ack(RETRY, [held.record])
                held.record = None

    def returned(self, records: Sequence[Record]) -> None:
        """Note that the store did not take outcomes."""
        for record in records:
            self._leaving.pop(place_of(record), None)
            key = self._keys.get(place_of(record))
            if key is not None:
                self._held[key].state = State.HERE

    def passed(self, delivery: Delivery) -> None:
        """Forget the held outcome of a delivery whose newer outcome is durable, and free its place for the next one."""
        lane = (delivery.message.destination, delivery.subscription)
        held = self._held.get((*lane, delivery.message.id))
        if held is not None and held.stage <= (delivery.generation, delivery.attempts):
            self._release(held)
        if lane in self._ready:
            self._serve(lane)

    def _superseded(self, outcome: Outcome, until: float) -> Record | None:
        """Return the record that is held of an earlier outcome of the same delivery.

        Note until when the store must have this one: the row may also be leased to a compensator, which handed it over.
        """
        if not self._held and until == _NEVER:
            return None
        key = key_of(outcome)
        held, before = self._held.get(key), self._overtaking.get(key)
        if held is not None and held.stage > stage_of(outcome):
            return None
        if held is not None and held.until is not None:
            until = held.until
        elif before is not None:
            until = before.until
        is_latest = before is None or stage_of(before.outcome) <= stage_of(outcome)
        if until < _NEVER and is_latest and (before is not None or len(self._overtaking) < _MOST):
            self._overtaking[key] = _UrgentOutcomes(outcome, until)
        return held.record if held is not None else None

    # The retries

    async def run(self) -> None:
        """Claim unfinished outcomes, and hand over those that are due, until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._claim())
            group.create_task(self._reclaim())
            group.create_task(self._ask())
            group.create_task(self._overtake())
            look = sweep = 0.0
            while True:
                now = self._clock.monotonic()
                soonest = self._due[0][0] - now if self._due else _LOOK
                await self._clock.sleep(min(max(soonest, _SHORTEST), _LOOK))
                self._hand_over_due()
                if now >= look:
                    # Capacity comes without a sign where a subscription is changed or gets slots.
                    look = now + _LOOK
                    for lane in list(self._ready):
                        self._serve(lane)
                if now >= sweep:
                    sweep = now + _SWEEP
                    self._sweep(now)

    def stop(self) -> None:
        """Keep no retry from now on; nothing is posted any more."""
        self._is_closing = True

    async def give_up(self) -> None:
        """Let others make the retries; called when the store has all outcomes."""
        with contextlib.suppress(StoreError):  # then they wait for the end of the leases
            for owner in (self._owner, starting(self._owner)):
                await self._store.reclaim(owner)

    async def _reclaim(self) -> None:
        """End the leases of an earlier life, whose retries no process holds; the store may have its outcomes by now."""
        while not self._has_reclaimed:
            try:
                await self._store.reclaim(self._owner)
                self._has_reclaimed = True
            except StoreError:
                await self._clock.sleep(_SWEEP)

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
        held = self._held.get(key_of(outcome))
        is_new = held is None or held.place != place_of(record)
        if self._spool.acked(FEED, record) or (held is not None and is_new and stage_of(outcome) <= held.stage):
            self._spool.ack(RETRY, [record])
            return
        if held is None or is_new:
            held = self._add(outcome, place_of(record))
        held.record = record

    def _add(self, outcome: Outcome, place: Place) -> HeldOutcome:
        key = key_of(outcome)
        if key in self._held:
            self._release(self._held[key])
        held = self._held[key] = HeldOutcome(outcome, place, self._is_recovering)
        self._keys[place] = key
        if not outcome.place:  # else its worker keeps it in its place, or reads its row
            self._schedule(held, self._wait(outcome) / 1000 + _GRACE)
        return held

    def _schedule(self, held: HeldOutcome, wait: float) -> None:
        held.due = self._clock.monotonic() + wait
        heapq.heappush(self._due, (held.due, held.place[1], held.key))

    def _wait(self, outcome: Outcome) -> int:
        """Return in how many ms an outcome is due; never more than its own wait, even if the clock was put back."""
        return max(0, min(outcome.due_at - self._clock.now(), outcome.due_at - outcome.at))

    def _hand_over_due(self) -> None:
        now, lanes = self._clock.monotonic(), set[Lane]()
        while self._due and self._due[0][0] <= now:
            item = heapq.heappop(self._due)
            if not self._is_current(item):
                continue
            held = self._held[item[2]]
            held.is_offered = False
            if self._questions.may_ask and (held.state is State.STORED or held.is_over(now)):
                self._unasked.append(held)
                self._has_unasked.set()
            else:
                lanes.add(self._add_ready(held))
        for lane in lanes:
            self._serve(lane)

    def _add_ready(self, held: HeldOutcome) -> Lane:
        held.is_ready = True
        self._ready[held.lane].append(held)
        return held.lane

    async def _ask(self) -> None:
        """Ask the store for due retries that it has, or may have: a person may have resent or discarded them."""
        while True:
            await self._has_unasked.wait()
            self._has_unasked.clear()
            while self._unasked:
                asked = [self._unasked.popleft() for _ in range(min(_BATCH, len(self._unasked)))]
                finished, lanes = await self._finished(asked), set[Lane]()
                for held in asked:
                    if self._held.get(held.key) is not held:
                        continue
                    if held.delivery_key in finished and held.state is State.STORED:
                        self._release(held)
                    elif held.delivery_key in finished:
                        self._schedule(held, _SWEEP)  # until the store has this outcome as well
                    else:
                        lanes.add(self._add_ready(held))
                for lane in lanes:
                    self._serve(lane)

    async def _finished(self, asked: Sequence[HeldOutcome]) -> set[DeliveryKey]:
        if not self._questions.may_ask:
            return set()
        try:
            (found,) = await self._questions.answer([self._store.finished([held.delivery_key for held in asked])])
        except StoreError:
            return set()
        return found

    async def _overtake(self) -> None:
        """Write outcomes to the store before the leases of those before them end, however long its feed takes."""
        while True:
            await self._clock.sleep(_SWEEP)
            end = self._clock.monotonic() + 2 * _SWEEP
            ending = [one for one in self._overtaking.values() if one.until < end]
            for begin in range(0, len(ending), self._early_at_once):
                if not await self._write_early(ending[begin : begin + self._early_at_once]):
                    self._early_at_once = max(self._early_at_once // 2, _FEWEST)
                    break
            else:
                self._early_at_once = min(self._early_at_once * 2, _BATCH)

    async def _write_early(self, part: Sequence[_UrgentOutcomes]) -> bool:
        """Write outcomes, but for those that the store refuses permanently; return whether it takes any now."""
        try:
            await self._store.write([self._leased_now(one.outcome) for one in part])
        except StoreError as error:
            if error.retriable or len(part) == 1:
                return not error.retriable
            middle = len(part) // 2
            return await self._write_early(part[:middle]) and await self._write_early(part[middle:])
        for one in part:
            self._forget_overtaking(one.outcome)
        return True

    def _forget_overtaking(self, outcome: Outcome) -> None:
        key = key_of(outcome)
        known = self._overtaking.get(key)
        if known is not None and stage_of(known.outcome) <= stage_of(outcome):
            del self._overtaking[key]

    def _leased_now(self, outcome: Outcome) -> Outcome:
        held = self._held.get(key_of(outcome))
        is_held = held is not None and held.stage == stage_of(outcome)
        return self._leased_to_me(outcome, held) if is_held else outcome

    def _sweep(self, now: float) -> None:
        """Forget outcomes that wait for capacity and may be attempted by another process by now."""
        waiting = itertools.chain.from_iterable(self._ready.values())
        for held in [held for held in waiting if held.is_ready and self._is_free(held, now)]:
            self._release(held)

    def _serve(self, lane: Lane) -> None:
        """Hand over due deliveries of a subscription as far as its worker has capacity."""
        ready = self._ready[lane]
        while ready and (not ready[0].is_ready or self._room(lane)):
            held = ready.popleft()
            if held.is_ready:
                held.is_ready = False
                self._start(held, self._clock.monotonic())
        if not ready:
            del self._ready[lane]

    def _start(self, held: HeldOutcome, now: float) -> None:
        """Hand a due retry to its worker, unless another process may make it, or has made it."""
        timeout = self._timeout(held.lane)
        if self._is_free(held, now):
            self._release(held)
        elif timeout is None or self._is_overtaken(held):
            self._schedule(held, _SWEEP)
        elif held.state is State.LEAVING and (held.until is None or held.is_over(now)):
            self._schedule(held, _LOOK)
        else:
            until = now + start_within(timeout) / 1000
            if held.until is not None:
                # Over is the lease of a write that failed: if the store has it after all, others may make the retry.
                until = now + _PATIENCE if held.is_over(now) else min(until, held.until)
            held.is_offered = self._offer(held.delivery(), until)
            # If its worker drops it, or has it by another way, it is looked at again.
            self._schedule(held, until - now + timeout / 1000 if held.is_offered else _LOOK)

    def _is_free(self, held: HeldOutcome, now: float) -> bool:
        """Whether the store has it and its row is leased no more, or only until a later outcome is there as well."""
        return held.state is State.STORED and (held.is_over(now) or self._is_overtaken(held))

    def _is_overtaken(self, held: HeldOutcome) -> bool:
        """Whether an outcome of the attempt after it is recorded."""
        return self._outcomes.recent.has_later(*held.key, *held.stage)

    def _release(self, held: HeldOutcome) -> None:
        del self._held[held.key]
        self._keys.pop(held.place, None)
        held.is_ready = False
        if held.record is not None:
            self._spool.ack(RETRY, [held.record])
        if held.until is not None:
            self._leased -= 1
            self._leased_bytes -= len(held.outcome.message)
        if len(self._due) > 2 * len(self._held) + _SPARE:
            # Obsolete entries may be due only in hours, and there may be millions until then.
            self._due = [item for item in self._due if self._is_current(item)]
            heapq.heapify(self._due)

    def _is_current(self, item: _Due) -> bool:
        held = self._held.get(item[2])
        return held is not None and (held.due, held.place[1]) == item[:2]
