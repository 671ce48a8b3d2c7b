"""Delivers one subscription's messages: its own queue, permits, rate and breaker, so that it slows no other."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from functools import partial
from typing import Any, Final

from bus.domain.delivery.breaker import Breaker, BreakerState
from bus.domain.delivery.delivery import Delivery, Outcome, Status
from bus.domain.delivery.filters import Filter
from bus.domain.delivery.rate import TokenBucket
from bus.domain.delivery.reasons import FILTERED
from bus.domain.delivery.verdict import GONE, Answer, judge, without_post
from bus.domain.message import Message
from bus.domain.subscription import Subscription
from bus.ports.poster import Trial
from bus.ports.transport import Consumer, Lag
from dispatcher.attempt import AttemptMaker, Exchange, Made
from dispatcher.delivered import AlreadyDelivered
from dispatcher.dependencies import Dependencies
from dispatcher.metrics import SubscriptionMetrics
from dispatcher.pending import Pending, PendingDeliveries
from dispatcher.sample_slot import SampleSlot

_log = logging.getLogger(__name__)
_LOOK_AGAIN: Final = 0.2
_AT_ONCE: Final = 32


class SubscriptionWorker:
    """Delivers one subscription's messages until it is stopped.

    At most ``max_concurrency`` requests are in flight, and as many outcomes wait to be recorded. Tasks live only
    while there is work, so an idle subscription costs one waiting task.
    """

    def __init__(self, subscription: Subscription, consumer: Consumer, dependencies: Dependencies) -> None:
        self._consumer = consumer
        self._dependencies = dependencies
        self._delivered = AlreadyDelivered(dependencies)
        self._pending = PendingDeliveries(consumer)
        # Deliveries under way by message, each with its exchange when it has one, else in a task.
        self._started: dict[str, tuple[Pending, Exchange | None]] = {}
        self._sampling = 0
        self._quiet = asyncio.Event()
        self._is_spawning = False
        self._is_canceled = False
        self._unrecorded = 0
        self._slot = SampleSlot(dependencies.clock)
        self._stopping = asyncio.Event()
        self._wake = asyncio.Event()
        self._group: asyncio.TaskGroup | None = None
        self._pumping: asyncio.Task[None] | None = None
        self._later: asyncio.Task[None] | None = None
        self._later_at = 0.0
        self._rate = TokenBucket(subscription.rate)
        self.breaker = Breaker()
        self.subscription = subscription
        self._metrics = SubscriptionMetrics(subscription)
        self._attempts = AttemptMaker(subscription, dependencies, self._metrics)
        self.update(subscription)

    @property
    def in_flight(self) -> int:
        """Requests in flight now."""
        return len(self._started) + self._sampling

    @property
    def waiting(self) -> int:
        """Deliveries that are here and not in flight."""
        return len(self._pending.waiting)

    @property
    def rate_wait(self) -> float:
        """For how many seconds the rate holds the waiting deliveries; 0 when it does not."""
        return self._rate.wait(self._dependencies.clock.monotonic()) if self._pending.waiting else 0.0

    @property
    def carried(self) -> Lag:
        """What it holds that is not acked on a transport: other processes cannot learn of it from the transport."""
        return self._pending.carried

    @property
    def carries(self) -> bool:
        """Whether it holds anything that is not acked on a transport."""
        return self._pending.carries

    @property
    def room(self) -> int:
        """How many handed-over deliveries it takes now."""
        if self.subscription.paused or self._stopping.is_set():
            return 0
        if self.breaker.state is not BreakerState.CLOSED:
            return 0 if self._pending.waiting or self.in_flight else 1
        return max(0, self._free)

    def update(self, subscription: Subscription) -> None:
        """Put another configuration of the same subscription in force."""
        self.subscription = subscription
        self._window = 2 * subscription.max_concurrency
        self._rate.change(subscription.rate)
        self._filter = Filter(subscription.filter) if subscription.filter else None
        self._attempts.update(subscription)
        if subscription.paused:
            self._pending.release_waiting()
        self.look_again()

    def look_again(self) -> None:
        """Start the deliveries that may start now: the reason to hold them may be over."""
        self._wake.set()
        self._spawn()

    def offer(self, delivery: Delivery, until: float = float("inf")) -> bool:
        """Take a handed-over delivery; False when there is no room or it is here already.

        It is dropped if its POST cannot start before ``until`` (monotonic seconds).
        """
        if delivery.message.id in self._pending:
            self._pending.drop_overdue(self._dependencies.clock.monotonic())
        if not self.room or delivery.message.id in self._pending:
            return False
        self._pending.add(Pending(delivery, None, until))
        self._spawn()
        return True

    async def sample(self, message: Message) -> Trial | None:
        """POST a message beside the deliveries, within the permits; None when none became free in time.

        It goes before waiting deliveries, also while the breaker is open, and counts only for the rate.
        """
        if self._stopping.is_set() or not self._dependencies.may_start():
            return None
        try:
            is_in = await self._slot.enter(lambda: len(self._started) < self.subscription.max_concurrency)
            return await self._sample(message) if is_in else None
        finally:
            self._wake.set()
            self._spawn()

    async def _sample(self, message: Message) -> Trial:
        self._rate.take(1)
        self._sampling += 1
        try:
            return await self._attempts.sample(message)
        finally:
            self._sampling -= 1
            self._slot.leave()

    async def run(self) -> None:
        """Deliver until ``stop``; returns when nothing is in flight and every outcome is on its way to the disk."""
        try:
            async with asyncio.TaskGroup() as group:
                self._group = group
                self._pumping = group.create_task(self._pump())
                self._spawn()
                try:
                    await self._stopping.wait()
                    self._pumping.cancel()
                    if self._later is not None:
                        self._later.cancel()
                    while self._started:
                        self._quiet.clear()
                        await self._quiet.wait()
                except asyncio.CancelledError:
                    self._is_canceled = True
                    raise
                finally:
                    self._stopping.set()
        finally:
            for entry, exchange in list(self._started.values()):
                if exchange is not None:
                    exchange.cancel()
                self._give_up(entry)
            # Only now: a probe that failed meanwhile has put its message back.
            self._pending.release_waiting()

    def listen_again(self) -> None:
        """Call the consumer's ``receive`` anew: the transports that it merges may have changed."""
        if self._group is not None and self._pumping is not None and not self._stopping.is_set():
            self._pumping.cancel()
            self._pumping = self._group.create_task(self._pump())

    def stop(self) -> None:
        """Start no further request."""
        self._stopping.set()

    async def close(self) -> None:
        """Leave the transport; called after the last outcome was recorded."""
        await self._consumer.close()

    def recorded(self, tokens: Sequence[object]) -> None:
        """Ack on the transport what is now durable in the outcome spool."""
        entries = [token for token in tokens if isinstance(token, Pending)]
        self._unrecorded -= len(entries)
        self._pending.ack(entries)
        for entry in entries:
            if entry.incoming is None:
                self._dependencies.passed(entry.delivery)
        self._wake.set()
        self._spawn()

    @property
    def _free(self) -> int:
        return self._window - len(self._pending.waiting) - self.in_flight

    async def _pump(self) -> None:
        while True:
            free = self._free
            if self.subscription.paused or free < self.subscription.max_concurrency:
                if self.subscription.paused:
                    self._pending.release_waiting()
                self._wake.clear()
                await self._wake.wait()
                continue
            incoming = await self._consumer.receive(free)
            try:
                done, fresh = await self._delivered.split(self.subscription, incoming, self._pending)
            except asyncio.CancelledError:
                self._consumer.release(incoming)
                raise
            if done:
                self._consumer.ack(done)
            for item in fresh:
                if not self._pending.add_copy(item):
                    delivery = Delivery(item.message, self.subscription.name, since=self._dependencies.clock.now())
                    self._pending.add(Pending(delivery, item))
            self._spawn()

    def _spawn(self) -> None:
        """Start as many deliveries as there is work and permits; of many, some in each turn of the loop."""
        if self._group is None or self._stopping.is_set() or self.subscription.paused:
            return
        for _ in range(_AT_ONCE):
            if not self._may_start():
                return
            self._start(self._group, self._pending.waiting.popleft())
        if not self._is_spawning:
            self._is_spawning = True
            self._group.create_task(self._spawn_more())

    async def _spawn_more(self) -> None:
        self._is_spawning = False
        self._spawn()

    def _start(self, group: asyncio.TaskGroup, entry: Pending) -> None:
        """Start a delivery: on a kept connection without a task, else in one."""
        if len(self._pending.waiting) < self.subscription.max_concurrency:
            self._wake.set()
        if self._filter is not None and not self._wants(entry.delivery):
            self._skip(entry)
            return
        self._rate.take(1)
        key = entry.delivery.message.id
        self._started[key] = entry, None
        probing = self.breaker.state is BreakerState.HALF_OPEN
        exchange = self._attempts.begin(entry.delivery, partial(self._told, entry, probing), self._go_on)
        if exchange is None:
            group.create_task(self._attempt(entry, probing))
        else:
            self._started[key] = entry, exchange

    def _go_on(self, rest: Coroutine[Any, Any, None]) -> None:
        """Await the rest of an attempt; a worker that is being cancelled gives its delivery back."""
        if self._group is None or self._is_canceled:
            rest.close()
        else:
            self._group.create_task(rest)

    async def _attempt(self, entry: Pending, probing: bool) -> None:
        try:
            made = await self._attempts.attempt(entry.delivery)
        except asyncio.CancelledError:
            self._give_up(entry)
            raise
        self._made(entry, probing, made)

    def _told(self, entry: Pending, probing: bool, made: Made) -> None:
        """Go on with an attempt from a callback; a defect, which would only be logged there, ends the worker."""
        try:
            self._made(entry, probing, made)
        except Exception as error:  # noqa: BLE001 - raised in the group
            self._go_on(_raising(error))

    def _made(self, entry: Pending, probing: bool, made: Made) -> None:
        """Judge an attempt that was made, record what came of it, and start the next one."""
        self._end(entry)
        self._conclude(entry, made, probing=probing)
        self._slot.look_again()
        self._wake.set()
        self._spawn()

    def _end(self, entry: Pending) -> None:
        del self._started[entry.delivery.message.id]
        if not self._started:
            self._quiet.set()

    def _give_up(self, entry: Pending) -> None:
        """Give a delivery back that was cut off."""
        self._end(entry)
        self._pending.release(entry)
        self.breaker.abandoned(self._dependencies.clock.monotonic())

    def _may_start(self) -> bool:
        """Whether the next delivery may start; if not, tasks are started again once the reason is over."""
        waiting, now = self._pending.waiting, self._dependencies.clock.monotonic()
        if waiting and waiting[0].until < now:
            self._pending.drop_overdue(now)
        if not waiting or self._stopping.is_set() or self.subscription.paused or not self._dependencies.may_start():
            return False
        most = self.subscription.max_concurrency
        if len(self._started) + self._slot.count >= most or self._unrecorded >= most:
            return False
        if not self._may_record(now):
            return False
        if self.subscription.rate is not None and (wait := self._rate.wait(now)) > 0:
            self._spawn_in(now, wait)
            return False
        if self.breaker.allows(now):
            return True
        if self.breaker.state is BreakerState.OPEN:
            self._spawn_in(now, self.breaker.probe_in(now))
        return False

    def _may_record(self, now: float) -> bool:
        """Whether an outcome could be recorded; if not, tasks are started again once it can be."""
        outcomes = self._dependencies.outcomes
        if not outcomes.has_room:
            self._spawn_when(sys.float_info.max, outcomes.room)
            return False
        if not outcomes.has_room_for(self.subscription.destination):
            self._spawn_in(now, _LOOK_AGAIN)
            return False
        return True

    def _skip(self, entry: Pending) -> None:
        """Record that the subscription's filter does not want a message."""
        self.breaker.abandoned(self._dependencies.clock.monotonic())
        now = self._dependencies.clock.now()
        self._record(without_post(entry.delivery, self.subscription, Status.SKIPPED, FILTERED, now), entry)

    def _conclude(self, entry: Pending, made: Made, *, probing: bool) -> None:
        attempt, answer, refused = made
        self._count(answer, refused=refused)
        if probing and answer.status is None:
            # Nobody answered, so no attempt is spent; the next probe is another message.
            self._metrics.probe_failed()
            self._pending.waiting.append(entry)
            return
        now, noise = self._dependencies.clock.now(), self._dependencies.noise()
        self._record(judge(entry.delivery, self.subscription, attempt, answer, now=now, noise=noise), entry)
        if answer.status == GONE:
            self._dependencies.gone(self.subscription)

    def _count(self, answer: Answer, *, refused: bool) -> None:
        now = self._dependencies.clock.monotonic()
        if answer.succeeded:
            was_closed = self.breaker.state is BreakerState.CLOSED
            self.breaker.succeeded(now)
            if not was_closed:
                _log.info("subscription %s of %s answers again", self.subscription.name, self.subscription.destination)
                self._spawn()
            return
        self.breaker.failed(now, refused=refused, status=answer.status)

    def _record(self, outcome: Outcome, entry: Pending) -> None:
        self._unrecorded += 1
        # With half of them unrecorded, the next request may have to wait for that.
        hurries = 2 * self._unrecorded >= self.subscription.max_concurrency
        self._dependencies.outcomes.record(outcome, entry.delivery.message, self, entry, hurries=hurries)
        self._metrics.decided(outcome, entry.delivery.message.received_at)

    def _wants(self, delivery: Delivery) -> bool:
        if self._filter is None:
            return True
        try:
            return self._filter.wants(delivery.message)
        except ValueError as error:
            self._metrics.filter_failed()
            _log.warning("%s; it is delivered", error, extra={"message_id": delivery.message.id})
            return True

    def _spawn_in(self, now: float, seconds: float) -> None:
        """Start tasks after some seconds, when the breaker's probe is due, or the rate or the spool may have room."""
        self._spawn_when(now + seconds, partial(self._dependencies.clock.sleep, seconds))

    def _spawn_when(self, at: float, wait: Callable[[], Awaitable[None]]) -> None:
        """Start tasks when the wait is over, unless they are started earlier anyway."""
        if self._group is None or (self._later is not None and not self._later.done() and self._later_at <= at):
            return
        if self._later is not None:
            self._later.cancel()
        self._later_at = at
        self._later = self._group.create_task(self._spawn_after(wait))

    async def _spawn_after(self, wait: Callable[[], Awaitable[None]]) -> None:
        await wait()
        self._later = None
        self._spawn()


async def _raising(error: Exception) -> None:
    raise error
