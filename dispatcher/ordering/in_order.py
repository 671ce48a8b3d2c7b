"""Keeps the order of a subscription's deliveries: in memory, and in the store what is held up for long."""

from __future__ import annotations

import asyncio
import itertools
import logging
import math
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Final, NamedTuple

import msgspec

from bus.async_helpers import first_of
from bus.domain.delivery.delivery import Compensation, Delivery, Outcome, Status
from bus.domain.destination import Ordering
from bus.domain.ordering.key_order import NEVER, BlockedKey, KeyOrder, WantedRows
from bus.domain.subscription import Subscription
from bus.errors import StoreError
from bus.ports.transport import IncomingMessage
from bus.telemetry.outage import Outage
from dispatcher.dependencies import Dependencies
from dispatcher.ordering.rows import after, decided, delivery_of, names_of, row_outcome
from dispatcher.pending_deliveries import PendingDeliveries, PendingDelivery
from dispatcher.reminder import Reminder

_log = logging.getLogger(__name__)
_KEYS: Final = 10_000
_LOADED: Final = 64
_WRITTEN: Final = 512
_WATCHED: Final = 64
_LOOKED_BACK: Final = 256
_READ: Final = 256
_INTERVAL: Final = 1.0
_SOON: Final = 10.0
_LOOK: Final = 0.05
_STANDS_STILL: Final = 30.0
_CROWDED: Final = 0.5
_READ_UNTIL: Final = 0.75
_TAKEN: Final = frozenset({Status.DELIVERED, Status.SKIPPED})


class _EndedDelivery(NamedTuple):
    generation: int
    attempts: int


class InOrder:
    """The deliveries of one subscription that keep an order; what may go out is put among those that wait.

    No message is sent before the store has returned which keys are held up from before, and has all outcomes of an
    earlier life of this process. From then on the store may be unreachable: only keys that are held up need it, once
    they are for more than a moment or fill the window.

    Attributes
    ----------
    subscription
        As it is in force.
    is_ready
        Whether anything may go out.

    Parameters
    ----------
    fill
        How much of the worker's window is taken, as a share. Over half, what is held up should not be in it.
    start
        Starts what may go out.
    """

    def __init__(
        self,
        subscription: Subscription,
        ordering: Ordering,
        pending: PendingDeliveries,
        dependencies: Dependencies,
        fill: Callable[[], float],
        start: Callable[[], None],
    ) -> None:
        self.subscription = subscription
        self.is_ready = False
        self._ordering = ordering
        self._pending = pending
        self._dependencies = dependencies
        self._fill = fill
        self._start = start
        self._order: KeyOrder[PendingDelivery] = KeyOrder()
        self._reminder = Reminder(dependencies.clock, self._go_on)
        self._place = 0
        self._ending: set[str] = set()
        # By key and place, what came of deliveries that had a row: a person may have resent one while it was out.
        self._ended: dict[tuple[str, int], _EndedDelivery] = {}
        self._work = asyncio.Event()
        self._outage = Outage(_log, "keys that are held up wait for the store")

    @property
    def needs_window(self) -> bool:
        """Whether half of the window is to be left to rows, which are older than what the transport has."""
        return self._order.is_wanting

    def take(self, item: IncomingMessage) -> None:
        """Take what came by the transport."""
        key, since = self._ordering.key_of(item.message.key), self._dependencies.clock.now()
        if key is None:
            self._pending.add(PendingDelivery(Delivery(item.message, self.subscription.name, since=since), item))
            return
        self._place += 1
        delivery = Delivery(item.message, self.subscription.name, since=since, order_key=key, place=self._place)
        entry = PendingDelivery(delivery, item)
        self._pending.hold(entry)
        self._put_out(key, self._order.take(key, entry))

    def offer(self, delivery: Delivery, until: float) -> bool:
        """Take a handed-over delivery, unless its key is held up: it comes out of order, and holds up no other."""
        key = self._ordering.key_of(delivery.message.key)
        if not self.is_ready or delivery.place or not (key is None or self._order.flows(key)):
            return False
        if key is None:
            self._pending.add(PendingDelivery(delivery, None, until))
        else:
            late = msgspec.structs.replace(delivery.message, is_late=True)
            entry = PendingDelivery(msgspec.structs.replace(delivery, message=late, order_key=key), None, until)
            self._pending.hold(entry)
            self._put_out(key, self._order.take(key, entry))
        return True

    def concluded(self, entry: PendingDelivery, outcome: Outcome) -> bool:
        """Send the key's next message after an outcome, or let the outcome hold up its key; return whether it does.

        A given-up message holds it up until that is durable: else a crash could bring it again behind later ones.
        """
        key = self._key_of(entry)
        if key is None:
            return False
        if not (outcome.place and outcome.message):
            if entry.place and (entry.delivery.attempts or entry.delivery.generation):
                self._ended[key, entry.place] = _EndedDelivery(outcome.generation, outcome.attempts)
            if outcome.status in _TAKEN:
                self._put_out(key, self._order.passed(key))
            else:
                self._ending.add(outcome.message_id)
            return False
        wait = (outcome.due_at - outcome.at) / 1000 if outcome.due_at else NEVER
        until = self._dependencies.clock.monotonic() + max(0.0, wait)
        self._order.held_up(key, PendingDelivery(after(entry.delivery, outcome), None, unstored=outcome), until)
        self._look_ahead()
        return True

    def recorded(self, entries: Iterable[PendingDelivery]) -> None:
        """Send the next messages of keys after a given-up one, now that giving up is durable."""
        if self._order.needs_store:
            self._work.set()
        for entry in entries if self._ending else ():
            key, message_id = self._key_of(entry), entry.delivery.message.id
            if key is not None and message_id in self._ending:
                self._ending.discard(message_id)
                self._put_out(key, self._order.passed(key))

    def dropped(self, entries: Iterable[PendingDelivery]) -> None:
        """Send the next messages of keys after one that could not start in time."""
        for entry in entries:
            if (key := self._key_of(entry)) is not None:
                self._put_out(key, self._order.passed(key))

    def stop(self) -> None:
        """Send no more deliveries; outcomes of those in flight are still taken. Called before `run` is cancelled."""
        self._reminder.end()

    def release(self) -> None:
        """Give back to the transport what waits in memory."""
        for entry in self._order.in_memory():
            self._pending.release(entry)

    async def run(self) -> None:
        """Read what is held up from before; then store what is for long, read it again, and see what people decide."""
        async with asyncio.TaskGroup() as group:
            self._reminder.start(group)
            while not await self._persisted(self._restore):
                await self._dependencies.clock.sleep(_INTERVAL)
            self.is_ready = True
            self._start()
            while True:
                if await self._persisted(self._step):
                    await first_of(self._work.wait(), self._dependencies.clock.sleep(_INTERVAL))
                    self._work.clear()
                else:
                    await self._dependencies.clock.sleep(_INTERVAL)

    async def _persisted(self, step: Callable[[], Awaitable[None]]) -> bool:
        """Call the store; False while it is unreachable."""
        try:
            await step()
        except StoreError as error:
            self._outage.goes_on(error)
            return False
        self._outage.is_over()
        return True

    async def _restore(self) -> None:
        """Take note of all keys with rows, once no outcome of an earlier life is still on its way to the store."""
        await self._wait_for_outcomes()
        found, last = await self._dependencies.store.ordered_keys(*self.subscription.key, limit=_KEYS), None
        while found:
            for one in found:
                self._order.restore(one.order_key)
                self._place = max(self._place, one.last)
            last = found[-1].order_key
            found = await self._dependencies.store.ordered_keys(*self.subscription.key, after=last, limit=_KEYS)

    async def _wait_for_outcomes(self) -> None:
        clock, unstored = self._dependencies.clock, self._dependencies.outcomes.unstored(*self.subscription.key)
        least, since = math.inf, clock.monotonic()
        while left := unstored():
            if left < least:
                least, since = left, clock.monotonic()
            elif clock.monotonic() - since > _STANDS_STILL:
                await self._dependencies.store.next_due()  # raises while the store is unreachable
                _log.error("the store refuses %d outcomes of %s/%s; their keys go on", left, *self.subscription.key)
                return
            await clock.sleep(_LOOK)

    async def _step(self) -> None:
        if not self._is_ours:
            return
        now = self._dependencies.clock.monotonic()
        self._pending.ack(self._order.relieve(now if self._is_crowded else now + _SOON))
        await self._write()
        await self._read()
        for held in self._order.held(_WATCHED):
            await self._ask(held)
        await self._look_back()

    async def _read(self) -> None:
        """Read rows of keys that may continue, some at a time, so that people who decide about others need not wait."""
        for _ in range(_READ):
            if self._fill() >= _READ_UNTIL or (wanted := self._order.next_wanted()) is None:
                return
            await self._load(wanted)
            if self._is_crowded:
                await self._write()
        self._work.set()

    async def _write(self) -> None:
        while chosen := self._order.to_store(_WRITTEN):
            at = self._dependencies.clock.now()
            await self._dependencies.store.write([row_outcome(entry, self.subscription, at) for _, entry in chosen])
            if not self._is_ours:
                return  # the process that has the destination may have read the rows before
            self._pending.ack(self._order.stored(chosen))

    async def _load(self, wanted: WantedRows) -> None:
        """Read the next rows of a key, but those whose delivery is finished."""
        store, rows = self._dependencies.store, list[Compensation]()
        try:
            rows = await store.ordered_rows(*self.subscription.key, wanted.key, after=wanted.after, limit=_LOADED)
            finished = await store.finished(names_of(rows))
            await store.finish([row for row, name in zip(rows, names_of(rows), strict=True) if name in finished])
        except BaseException:
            self._order.want(wanted.key)
            raise
        left = [row for row, name in zip(rows, names_of(rows), strict=True) if name not in finished]
        is_all, until = len(rows) < _LOADED, self._until(left[0]) if left else 0.0
        if until > 0 and len(left) > 1:
            # Those behind it need not be in memory meanwhile, and many keys may be held up.
            left, is_all = left[:1], False
        entries = [PendingDelivery(delivery_of(row), None) for row in left]
        for entry in entries:
            self._pending.hold(entry)
        self._put_out(wanted.key, self._order.loaded(wanted.key, entries, until, is_all=is_all))
        self._look_ahead()
        self._start()

    def _until(self, row: Compensation) -> float:
        """Return before when the first row of a key must not go out; 0 when it may at once.

        It waits no longer than it was to wait from the beginning, even if the clock was put back.
        """
        if not row.due_at:
            return NEVER
        wait = min(row.due_at - self._dependencies.clock.now(), row.due_at - row.set_at) / 1000
        return self._dependencies.clock.monotonic() + wait if row.attempts and wait > 0 else 0.0

    async def _ask(self, held: BlockedKey[PendingDelivery]) -> None:
        """Check whether a person has resent or set aside the delivery that holds up a key."""
        entry = held.by
        trace = await self._dependencies.store.trace(entry.delivery.message.id)
        known = trace.deliveries.get(self.subscription.name) if trace is not None else None
        if known is None or not self._order.is_held_by(held.key, entry):
            return
        again = decided(entry.delivery, known)
        if again is None:
            return
        if not self._order.is_in_memory(held.key):
            self._put_out(held.key, self._order.read_again(held.key))
        elif again is entry.delivery:
            self._pending.ack([entry])
            self._put_out(held.key, self._order.skip(held.key))
        else:
            self._put_out(held.key, self._order.resume(held.key, PendingDelivery(again, None)))
        self._start()

    async def _look_back(self) -> None:
        """Check if ended deliveries were resent while they were out, some at a time; waiting keys then continue."""
        before = len(self._ended)
        for (key, place), ended in list(itertools.islice(self._ended.items(), _LOOKED_BACK)):
            is_over, known = await self._is_over(key, place, ended), self._ended.pop((key, place))
            if not is_over:
                self._ended[key, place] = known
        if self._ended and len(self._ended) < before:
            self._work.set()

    async def _is_over(self, key: str, place: int, ended: _EndedDelivery) -> bool:
        """Have a delivery that was resent while it was out go out again; whether it does, or its row is gone."""
        rows = await self._dependencies.store.ordered_rows(*self.subscription.key, key, after=place - 1, limit=1)
        row = next((row for row in rows if row.place == place), None)
        if row is not None and row.generation > ended.generation and self._may_come_again(key, row):
            delivery = delivery_of(msgspec.structs.replace(row, attempts=max(row.attempts, ended.attempts)))
            entry = PendingDelivery(delivery, None)
            self._pending.hold(entry)
            self._put_out(key, self._order.take(key, entry))
            self._start()
            return True
        return row is None

    def _may_come_again(self, key: str, row: Compensation) -> bool:
        """Whether a row can be put behind what its key has in memory; behind other rows it would not be read again."""
        return row.message_id not in self._pending and not self._order.has_rows(key)

    def _go_on(self) -> None:
        for key, entries in self._order.due(self._dependencies.clock.monotonic()):
            self._put_out(key, entries)
        self._look_ahead()
        self._start()

    def _look_ahead(self) -> None:
        """Have the store worked on where it is needed, and be reminded of the next that is due."""
        now, due = self._dependencies.clock.monotonic(), self._order.next_due
        if due < NEVER:
            self._reminder.after(now, max(0.0, due - now))
        if self._order.needs_store or self._is_crowded:
            self._work.set()

    def _put_out(self, key: str, entries: Sequence[PendingDelivery]) -> None:
        """Have deliveries wait that may go out, but for those with a later outcome, a copy of which came again."""
        out = deque(entries)
        while out:
            entry = out.popleft()
            delivery = entry.delivery
            if self._dependencies.outcomes.recent.has_later(
                *self.subscription.key, delivery.message.id, delivery.generation, delivery.attempts
            ):
                self._pending.ack([entry])
                out.extend(self._order.passed(key))
            else:
                self._pending.waiting.append(entry)
        if self._order.needs_store:
            self._work.set()

    @property
    def _is_ours(self) -> bool:
        """Whether this process still keeps the order; the loss of it is reported a while later."""
        return self._dependencies.keeps(self.subscription.destination)

    @property
    def _is_crowded(self) -> bool:
        return self._fill() > _CROWDED

    def _key_of(self, entry: PendingDelivery) -> str | None:
        return self._ordering.key_of(entry.delivery.message.key)
