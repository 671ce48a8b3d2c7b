"""Delivers one subscription's messages: its own queue, slots, rate and breaker, so that it slows no other."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final

from bus.domain.delivery.breaker import BreakerState
from bus.domain.delivery.delivery import Delivery, Outcome, Status
from bus.domain.delivery.filters import Filter
from bus.domain.delivery.reasons import FILTERED
from bus.domain.delivery.verdict import GONE, Answer, judge, refuses_message, without_post
from bus.domain.destination import Ordering
from bus.domain.health.vitals import RecentAttempt
from bus.domain.message import Message
from bus.domain.subscription import Subscription
from bus.domain.tracing.spans import PostSummary
from bus.ports.concurrency_slots import OWN_SLOTS
from bus.ports.poster import PostFailure, Trial
from bus.ports.transport import Consumer, Lag
from dispatcher.already_delivered import AlreadyDelivered
from dispatcher.attempt import AttemptMaker
from dispatcher.batching import HELD_BYTES, Window, gather
from dispatcher.concurrency_gate import LOOK_AGAIN, Gate, ProbeTurns
from dispatcher.dependencies import Dependencies
from dispatcher.discard_check import DiscardCheck
from dispatcher.exchange import Exchange, Load, PostResults
from dispatcher.metrics import SubscriptionMetrics
from dispatcher.ordering.in_order import InOrder
from dispatcher.pending_deliveries import PendingDeliveries, PendingDelivery
from dispatcher.reminder import Reminder
from dispatcher.sample_slot import SampleSlot

_log = logging.getLogger(__name__)
_AT_ONCE: Final = 32
_REMEMBERED: Final = 10


class SubscriptionWorker:
    """Delivers one subscription's messages until it is stopped.

    At most ``max_concurrency`` requests are in flight, each with ``batch`` messages at most; with the outcomes that
    wait to be recorded these are twice as many messages at most. Tasks live only while there is work, so an idle
    subscription costs one waiting task. ``filled`` is called when deliveries come while it has none.
    """

    def __init__(
        self,
        subscription: Subscription,
        consumer: Consumer,
        dependencies: Dependencies,
        ordering: Ordering = Ordering.NONE,
        filled: Callable[[], None] = lambda: None,
    ) -> None:
        self._consumer = consumer
        self._dependencies = dependencies
        self._delivered = AlreadyDelivered(dependencies)
        self._pending = PendingDeliveries(consumer, filled)
        # POSTs under way, by the first message of each, and how many messages they have.
        self._started: dict[str, Exchange] = {}
        self._sent = 0
        self._sampling = 0
        self._quiet = asyncio.Event()
        self._is_spawning = False
        self._is_canceled = False
        self._unrecorded = 0
        self._lately: deque[Outcome] = deque(maxlen=_REMEMBERED)
        self._slot = SampleSlot(dependencies.clock)
        self._stopping = asyncio.Event()
        self._wake = asyncio.Event()
        self._group: asyncio.TaskGroup | None = None
        self._pumping: asyncio.Task[None] | None = None
        self._reminder = Reminder(dependencies.clock, self._spawn)
        # One process alone delivers where an order is kept.
        pool = dependencies.slots if ordering is Ordering.NONE else OWN_SLOTS
        self._gate = Gate(subscription, dependencies, self._reminder, pool, self._freed)
        self.breaker = self._gate.breaker
        self._probes = ProbeTurns(self.breaker, self._pending.waiting)
        self.ordering = ordering
        self._in_order: InOrder | None = None
        if ordering is not Ordering.NONE:
            self._in_order = InOrder(subscription, ordering, self._pending, dependencies, self._fill, self.look_again)
        self._discards = DiscardCheck(subscription.name, self._pending, dependencies, self._discarded, self._spawn)
        self.subscription = subscription
        self._metrics = SubscriptionMetrics(subscription)
        self._attempts = AttemptMaker(subscription, dependencies, self._metrics, self._told, self._go_on)
        self.update(subscription)

    @property
    def in_flight(self) -> int:
        """Requests in flight now."""
        return len(self._started) + self._sampling

    def exceeds(self, limit: int) -> bool:
        """Whether requests are in flight that a smaller limit leaves no slot."""
        return self.in_flight > limit or self._gate.slots.exceeds(limit)

    @property
    def lacks_slot(self) -> bool:
        """Whether no slot was free when it looked last, and others have some."""
        return self._gate.slots.is_waiting

    @property
    def is_idle(self) -> bool:
        """Whether it has no delivery, not even one whose outcome is not durable, and its breaker is closed."""
        return not len(self._pending) and self.breaker.state is BreakerState.CLOSED

    @property
    def waiting(self) -> int:
        """Deliveries that are here and not in flight."""
        return len(self._pending.waiting)

    @property
    def rate_wait(self) -> float:
        """For how many seconds the rate holds the waiting deliveries; 0 when it does not."""
        return self._gate.rate_wait(self._dependencies.clock.monotonic()) if self._pending.waiting else 0.0

    @property
    def recent(self) -> list[RecentAttempt]:
        """The attempts that it made last, in that order."""
        return [
            RecentAttempt(
                outcome.message_id,
                attempt.n,
                attempt.started_at,
                attempt.duration,
                attempt.status_code,
                attempt.error,
                outcome.status,
                attempt.node,
            )
            for outcome in self._lately
            if (attempt := outcome.attempt) is not None
        ]

    @property
    def carried(self) -> Lag:
        """The unacked deliveries that it holds: other processes cannot see them on the transport."""
        return self._pending.carried

    @property
    def carries(self) -> bool:
        """Whether it holds anything that is not acked on a transport."""
        return self._pending.carries

    @property
    def room(self) -> int:
        """Number of handed-over deliveries that it takes now."""
        if self.subscription.paused or self._stopping.is_set():
            return 0
        if not self._is_ready:
            return 0
        if self.breaker.state is not BreakerState.CLOSED:
            return self._probes.room(self._dependencies.clock.monotonic(), self._window.half)
        return self._window.room(self._free, self._pending)

    def update(self, subscription: Subscription) -> None:
        """Put another configuration of the same subscription in force."""
        self.subscription = subscription
        self._window = Window(subscription, is_ordered=self._in_order is not None)
        if self._in_order is not None:
            self._in_order.subscription = subscription
        self._at_once = max(1, _AT_ONCE // subscription.batch)
        self._gate.update(subscription)
        self._discards.doubted_until = subscription.doubted_until
        self._filter = Filter(subscription.filter) if subscription.filter else None
        self._attempts.update(subscription)
        if subscription.paused:
            self._release_waiting()
        self.look_again()

    def look_again(self) -> None:
        """Start the deliveries that may start now: the reason to hold them may be over."""
        self._wake.set()
        self._spawn()

    def offer(self, delivery: Delivery, until: float = float("inf")) -> bool:
        """Take a handed-over delivery; False when there is no capacity or it is here already.

        It is dropped if its POST cannot start before ``until`` (monotonic seconds). One whose transport brought it
        again, as if it had not failed before, is here once, and continues from its present state.
        """
        if delivery.message.id in self._pending:
            self._drop_overdue(self._dependencies.clock.monotonic())
            if self._in_order is None and self._pending.renew(delivery):
                return True
        if not self.room or delivery.message.id in self._pending:
            return False
        if self._in_order is None:
            self._pending.add(PendingDelivery(delivery, None, until))
        elif not self._in_order.offer(delivery, until):
            return False
        self._spawn()
        return True

    def holds(self, delivery: Delivery) -> bool:
        """Whether this worker decides about a handed-over delivery: it has capacity, or holds it in that stage.

        What a transport brought again, as if it had not failed before, is of an earlier stage while it is in flight.
        """
        return self.room > 0 and not self._pending.is_carried(delivery.message.id)

    def _drop_overdue(self, now: float) -> None:
        dropped = self._pending.drop_overdue(now)
        if self._in_order is not None:
            self._in_order.dropped(dropped)

    def _discarded(self, entries: Sequence[PendingDelivery]) -> None:
        """Send the next messages of keys after those that a person has discarded."""
        if self._in_order is not None:
            self._in_order.dropped(entries)
        self._wake.set()

    def _release_waiting(self) -> None:
        """Give back what waits while the subscription is paused; what keeps an order stays, or it would come twice."""
        if self._in_order is None:
            self._pending.release_waiting()

    async def sample(self, message: Message) -> Trial | None:
        """POST a message beside the deliveries, within the slots; None when none became free in time.

        It goes before waiting deliveries, also while the breaker is open, and counts only for the rate.
        """
        if self._stopping.is_set() or not self._dependencies.may_start():
            return None
        try:
            is_in = await self._slot.enter(self._has_slot)
            return await self._sample(message) if is_in else None
        finally:
            self._wake.set()
            self._spawn()

    def _has_slot(self) -> bool:
        """Whether a sample may go out; its slot is taken."""
        limit = self.subscription.max_concurrency
        may_start = self._dependencies.may_start() and len(self._started) < limit
        return may_start and not self._gate.slots.take(limit)

    async def _sample(self, message: Message) -> Trial:
        self._gate.take(1)
        self._sampling += 1
        try:
            return await self._attempts.sample(message)
        finally:
            self._sampling -= 1
            self._slot.leave()
            self._gate.slots.give_back()

    async def run(self) -> None:
        """Deliver until ``stop``; returns when nothing is in flight and every outcome is on its way to the disk."""
        try:
            async with asyncio.TaskGroup() as group:
                self._group = group
                self._reminder.start(group)
                self._pumping = group.create_task(self._pump())
                ordering = group.create_task(self._in_order.run()) if self._in_order is not None else None
                self._spawn()
                try:
                    await self._stopping.wait()
                    self._pumping.cancel()
                    if self._in_order is not None and ordering is not None:
                        self._in_order.stop()
                        ordering.cancel()
                    self._reminder.stop()
                    while self._started:
                        self._quiet.clear()
                        await self._quiet.wait()
                except asyncio.CancelledError:
                    self._is_canceled = True
                    raise
                finally:
                    self._stopping.set()
        finally:
            left = list(self._started.values())
            for exchange in left:  # each, before anything of them is given back: a transport may have trouble with that
                exchange.cancel()
            for exchange in left:
                self._give_up(exchange)
            # Only now: a probe that failed meanwhile has put its message back.
            self._pending.release_waiting()
            if self._in_order is not None:
                self._in_order.release()
            self._gate.slots.close()

    def listen_again(self) -> None:
        """Call the consumer's ``receive`` anew: the transports that it merges may have changed."""
        if self._group is not None and self._pumping is not None and not self._stopping.is_set():
            self._pumping.cancel()
            self._pumping = self._group.create_task(self._pump())

    def stop(self) -> None:
        """Start no further request."""
        self._stopping.set()

    async def all_recorded(self) -> None:
        """Return once every outcome is durable, and acked on the transport."""
        while self._unrecorded:
            self._wake.clear()
            await self._wake.wait()

    async def close(self) -> None:
        """Leave the transport; called after the last outcome was recorded."""
        await self._consumer.close()

    def recorded(self, tokens: Sequence[object]) -> None:
        """Ack on the transport what is now durable in the outcome spool."""
        entries = [token for token in tokens if isinstance(token, PendingDelivery)]
        self._unrecorded -= len(entries)
        self._pending.ack([entry for entry in entries if not entry.holds_up])
        settle = self._pending.keep if self.ordering is Ordering.STRICT else self._pending.settle
        settle([entry for entry in entries if entry.holds_up])
        if self._in_order is not None:
            self._in_order.recorded(entries)
        for entry in entries:
            if entry.is_retry:
                self._dependencies.passed(entry.delivery)
        self._wake.set()
        self._spawn()

    @property
    def _is_ready(self) -> bool:
        return self._in_order is None or self._in_order.is_ready

    @property
    def _free(self) -> int:
        if self._in_order is not None:
            reserve = self._window.most // 2 if self._in_order.needs_window else 0
            return self._window.most - reserve - len(self._pending) - self._sampling
        return self._window.most - len(self._pending.waiting) - self._sent - self._sampling

    async def _pump(self) -> None:
        while True:
            is_held = self.subscription.paused or not self._is_ready
            wanted = 0 if is_held else self._window.pull(self._free, self._pending)
            if not wanted:
                if self.subscription.paused:
                    self._release_waiting()
                self._wake.clear()
                await self._wake.wait()
                continue
            incoming = await self._consumer.receive(wanted)
            try:
                done, fresh = await self._delivered.split(self.subscription, incoming, self._pending)
            except asyncio.CancelledError:
                self._consumer.release(incoming)
                raise
            if done:
                self._consumer.ack(done)
            for item in fresh:
                if self._pending.add_copy(item):
                    continue
                if self._in_order is not None:
                    self._in_order.take(item)
                    continue
                delivery = Delivery(item.message, self.subscription.name, since=self._dependencies.clock.now())
                self._pending.add(PendingDelivery(delivery, item))
            self._spawn()

    def _fill(self) -> float:
        """Return the share of the window that is taken."""
        return max(len(self._pending) / self._window.most, self._pending.body_bytes / HELD_BYTES)

    def _spawn(self) -> None:
        """Start as many deliveries as there are messages and slots; of many, some in each turn of the loop."""
        if self._group is None or self._stopping.is_set() or self.subscription.paused:
            return
        for _ in range(self._at_once):
            if not self._may_start():
                return
            self._start(self._group, self._pending.waiting.popleft())
        if not self._is_spawning:
            self._is_spawning = True
            self._group.create_task(self._spawn_more())

    def _freed(self) -> None:
        """Use a slot that another process gave back."""
        self._slot.look_again()
        self._spawn()

    async def _spawn_more(self) -> None:
        self._is_spawning = False
        self._spawn()

    def _start(self, group: asyncio.TaskGroup, entry: PendingDelivery) -> None:
        """Start a POST of a delivery, and of others with it: on a kept connection without a task, else in one."""
        if len(self._pending.waiting) < self._window.half:
            self._wake.set()
        if self._filter is not None and not self._wants(entry):
            self._gate.slots.give_back()
            return
        load: Load = (entry,) if self.subscription.batch == 1 else self._gather(entry)
        self._gate.take(len(load))
        is_probe = self.breaker.state is BreakerState.HALF_OPEN
        if is_probe:
            self._probes.started(entry)
        exchange = self._attempts.prepare(load, is_probe=is_probe)
        self._started[entry.delivery.message.id] = exchange
        self._sent += len(load)
        if not exchange.begin(self._dependencies.poster):
            group.create_task(self._attempt(exchange))

    def _gather(self, first: PendingDelivery) -> Load:
        now = self._dependencies.clock.monotonic()
        return gather(first, self._pending, self._gate.most(now), now, self._wants, self._discards.is_doubtful)

    def _go_on(self, rest: Coroutine[Any, Any, None]) -> None:
        """Await the rest of an attempt; a worker that is being cancelled gives its delivery back."""
        if self._group is None or self._is_canceled:
            rest.close()
        else:
            self._group.create_task(rest)

    async def _attempt(self, exchange: Exchange) -> None:
        try:
            made = await self._attempts.attempt(exchange)
        except asyncio.CancelledError:
            self._give_up(exchange)
            raise
        self._made(exchange, made)

    def _told(self, exchange: Exchange, made: PostResults) -> None:
        """Handle a POST's result from a callback; a defect, which would only be logged there, ends the worker."""
        try:
            self._made(exchange, made)
        except Exception as error:  # noqa: BLE001 - raised in the group
            self._go_on(_raising(error))

    def _made(self, exchange: Exchange, made: PostResults) -> None:
        """Judge a POST that was made, record what came of it, and start the next one."""
        self._end(exchange)
        self._conclude(exchange, made)
        self._slot.look_again()
        self._wake.set()
        self._spawn()

    def _end(self, exchange: Exchange) -> None:
        load = exchange.load
        del self._started[load[0].delivery.message.id]
        self._sent -= len(load)
        self._gate.slots.give_back()
        if not self._started:
            self._quiet.set()

    def _give_up(self, exchange: Exchange) -> None:
        """Give deliveries back whose POST was cut off."""
        self._end(exchange)
        for entry in exchange.load:
            self._pending.release(entry)
        self.breaker.abandoned(self._dependencies.clock.monotonic())

    def _may_start(self) -> bool:
        """Whether the next POST may start; if not, it is looked at again once the reason is over."""
        waiting, now = self._pending.waiting, self._dependencies.clock.monotonic()
        if self._probes.is_due(now):
            self._drop_overdue(now)
            self._probes.choose()
        elif waiting and waiting[0].until < now:
            self._drop_overdue(now)
        if not waiting or self._stopping.is_set() or self.subscription.paused:
            return False
        if not self._dependencies.may_start():
            self._reminder.after(now, LOOK_AGAIN)
            return False
        if self._discards.is_doubtful(waiting[0]):
            if self._group is not None:
                self._discards.start(self._group)
            return False
        if self._in_order is not None and not self._dependencies.keeps(self.subscription.destination):
            return False
        if len(self._started) + self._slot.count >= self.subscription.max_concurrency:
            return False
        # At least one: the next POST does not wait for the commit of the outcome before it.
        return self._unrecorded < max(2, self._window.half) and self._gate.opens(now)

    def _conclude(self, exchange: Exchange, made: PostResults) -> None:
        attempts, answer, failure = made
        self._count(answer, refused=failure is PostFailure.REFUSED)
        if exchange.is_probe and answer.status is None:
            # No subscriber answered, so no attempt is spent.
            self._metrics.probe_failed()
            self._tell(exchange, made, [""] * len(attempts))
            self._pending.waiting.extend(entry._replace(was_probe=True) for entry in exchange.load)
            return
        now, statuses = self._dependencies.clock.now(), list[str]()
        for entry, (attempt, own) in zip(exchange.load, attempts, strict=True):
            noise = self._dependencies.noise()
            outcome = judge(entry.delivery, self.subscription, attempt, own, now=now, noise=noise)
            statuses.append(outcome.status)
            self._lately.append(outcome)
            self._record(outcome, entry)
        self._tell(exchange, made, statuses)
        if answer.status == GONE:
            self._dependencies.gone(self.subscription)

    def _tell(self, exchange: Exchange, made: PostResults, statuses: Sequence[str]) -> None:
        """Report a POST to its span, where it has one."""
        if exchange.span is None:
            return
        attempts = [attempt for attempt, _ in made.attempts]
        message_id = exchange.load[0].delivery.message.id if exchange.mark is None else ""
        what = PostSummary(attempts, statuses, made.answer, made.failure or "")
        self._dependencies.spans.posted(exchange.span, self.subscription, what, message_id)

    def _count(self, answer: Answer, *, refused: bool) -> None:
        now = self._dependencies.clock.monotonic()
        if answer.succeeded or refuses_message(answer, self.subscription):
            was_closed = self.breaker.state is BreakerState.CLOSED
            self.breaker.succeeded(now)
            if not was_closed:
                _log.info("subscription %s of %s answers again", self.subscription.name, self.subscription.destination)
                self._spawn()
            return
        self.breaker.failed(now, refused=refused, status=answer.status)

    def _record(self, outcome: Outcome, entry: PendingDelivery) -> None:
        self._unrecorded += 1
        # With half of them unrecorded, the next request may have to wait for that.
        hurries = 2 * self._unrecorded >= self._window.half
        token = entry
        if self._in_order is not None and self._in_order.concluded(entry, outcome):
            token = entry._replace(holds_up=True)
        message, until = entry.delivery.message, entry.until
        self._dependencies.outcomes.record(outcome, message, self, token, hurries=hurries, until=until)
        self._metrics.decided(outcome, entry.delivery.message.received_at)

    def _wants(self, entry: PendingDelivery) -> bool:
        """Whether the subscription's filter wants a message; that it does not is recorded."""
        if self._filter is None:
            return True
        try:
            if self._filter.wants(entry.delivery.message):
                return True
        except ValueError as error:
            self._metrics.filter_failed()
            _log.warning("%s; it is delivered", error, extra={"message_id": entry.delivery.message.id})
            return True
        self.breaker.abandoned(self._dependencies.clock.monotonic())
        now = self._dependencies.clock.now()
        self._record(without_post(entry.delivery, self.subscription, Status.SKIPPED, FILTERED, now), entry)
        return False


async def _raising(error: Exception) -> None:
    raise error
