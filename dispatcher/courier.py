"""Delivers one subscription's messages: its own queue, permits, rate and breaker, so that it slows no other."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Final, NamedTuple

from bus.domain.breaker import Breaker, BreakerState
from bus.domain.delivery import Attempt, Delivery, Outcome, Status
from bus.domain.filters import Filter
from bus.domain.identity import id_time
from bus.domain.message import Message
from bus.domain.rate import TokenBucket
from bus.domain.retry import parse_retry_after
from bus.domain.routing_pattern import EVERY_KEY, matches
from bus.domain.subscription import Subscription
from bus.domain.verdict import GONE, Answer, judge, without_post
from bus.errors import EgressDenied, StoreError
from bus.ports.clock import Clock
from bus.ports.poster import Phases, Poster, PostFailure, PostResult
from bus.ports.store import DeliveryKey, TraceStore
from bus.ports.transport import Consumer, Incoming, Lag
from dispatcher.meter import Meter
from dispatcher.outcomes import OutcomeLog
from dispatcher.request import RequestMaker

_log = logging.getLogger(__name__)
_RESPONSE_KEPT: Final = 4096
_BROKEN_URL_PAUSE: Final = 1.0


class Means(NamedTuple):
    """What every courier of a dispatcher shares.

    ``gone`` hears of a subscription whose subscriber answered 410, ``passed`` of a handed-over delivery whose outcome
    is durable. While ``may_start`` says no, no request is started; whoever says yes again updates the couriers.
    """

    poster: Poster
    outcomes: OutcomeLog
    store: TraceStore
    clock: Clock
    noise: Callable[[], float]
    node: str
    started_at: int
    attempt_ids: Iterator[str]
    gone: Callable[[Subscription], None]
    passed: Callable[[Delivery], None]
    may_start: Callable[[], bool] = lambda: True


class _Parcel(NamedTuple):
    """A delivery, and what the road wants back for it; None when it was handed over.

    One that is leased must be started before ``until`` (monotonic seconds): afterwards it is somebody else's.
    """

    delivery: Delivery
    incoming: Incoming | None
    until: float = float("inf")


class Courier:
    """Delivers one subscription's messages until it is stopped.

    At most ``max_concurrency`` requests are in flight, and as many outcomes wait to be recorded. Workers live only
    while there is work, so an idle subscription costs one waiting task.
    """

    def __init__(self, subscription: Subscription, consumer: Consumer, means: Means) -> None:
        self._consumer = consumer
        self._means = means
        self._waiting: deque[_Parcel] = deque()
        # What is here by message id, each with the copies of it that came meanwhile, by another road as a rule.
        self._held: dict[str, list[Incoming]] = {}
        # Of those that came by a road, when they were received.
        self._carried: dict[str, int] = {}
        self._workers = 0
        self._in_flight = 0
        self._unrecorded = 0
        self._stopping = asyncio.Event()
        self._wake = asyncio.Event()
        self._group: asyncio.TaskGroup | None = None
        self._pumping: asyncio.Task[None] | None = None
        self._later: asyncio.Task[None] | None = None
        self._later_at = 0.0
        self._rate = TokenBucket(subscription.rate)
        self.breaker = Breaker()
        self.subscription = subscription
        self._meter = Meter(subscription)
        self.update(subscription)

    @property
    def in_flight(self) -> int:
        """Requests in flight now."""
        return self._in_flight

    @property
    def carried(self) -> Lag:
        """What it has of its roads, waiting or in flight: no other process can ask the road about it."""
        return Lag(len(self._carried), min(self._carried.values(), default=None))

    @property
    def room(self) -> int:
        """How many handed-over deliveries it takes now."""
        if self.subscription.paused or self._stopping.is_set():
            return 0
        if self.breaker.state is not BreakerState.CLOSED:
            return 0 if self._waiting or self._in_flight else 1
        return max(0, self._window - len(self._waiting) - self._in_flight)

    def update(self, subscription: Subscription) -> None:
        """Put another configuration of the same subscription in force."""
        self.subscription = subscription
        self._window = 2 * subscription.max_concurrency
        self._rate.change(subscription.rate)
        self._filter = Filter(subscription.filter) if subscription.filter else None
        self._renew()
        if subscription.paused:
            self._give_back()
        self._wake.set()
        self._spawn()

    def offer(self, delivery: Delivery, until: float = float("inf")) -> bool:
        """Take a handed-over delivery; False when there is no room or it is here already.

        It is forgotten when its POST could not start before ``until`` (monotonic seconds).
        """
        if delivery.message.id in self._held:
            self._forget_overdue()
        if not self.room or delivery.message.id in self._held:
            return False
        self._admit(_Parcel(delivery, None, until))
        self._spawn()
        return True

    async def run(self) -> None:
        """Deliver until ``stop``; returns when nothing is in flight and every outcome is on its way to the disk."""
        try:
            async with asyncio.TaskGroup() as group:
                self._group = group
                self._pumping = group.create_task(self._pump())
                self._spawn()
                try:
                    await self._stopping.wait()
                finally:
                    self._stopping.set()
                self._pumping.cancel()
                if self._later is not None:
                    self._later.cancel()
        finally:
            # Only now: a probe that failed meanwhile has put its message back.
            self._give_back()

    def listen_again(self) -> None:
        """Turn to the road anew: more than one may meet there now."""
        if self._group is not None and self._pumping is not None and not self._stopping.is_set():
            self._pumping.cancel()
            self._pumping = self._group.create_task(self._pump())

    def stop(self) -> None:
        """Start no further request."""
        self._stopping.set()

    async def close(self) -> None:
        """Leave the road; called after the last outcome was recorded."""
        await self._consumer.close()

    def recorded(self, tokens: Sequence[object]) -> None:
        """Ack on the road what is now durable in the outcome spool."""
        parcels = [token for token in tokens if isinstance(token, _Parcel)]
        self._unrecorded -= len(parcels)
        done: list[Incoming] = []
        for parcel in parcels:
            done += self._held.pop(parcel.delivery.message.id, ())
            self._carried.pop(parcel.delivery.message.id, None)
            if parcel.incoming is not None:
                done.append(parcel.incoming)
            else:
                self._means.passed(parcel.delivery)
        self._consumer.ack(done)
        self._wake.set()
        self._spawn()

    # --- taking in -------------------------------------------------------------------------------------------

    async def _pump(self) -> None:
        while True:
            free = self._window - len(self._waiting) - self._in_flight
            if self.subscription.paused or free < self.subscription.max_concurrency:
                if self.subscription.paused:
                    self._give_back()
                self._wake.clear()
                await self._wake.wait()
                continue
            incoming = await self._consumer.receive(free)
            try:
                fresh = await self._sift(incoming)
            except asyncio.CancelledError:
                self._consumer.release(incoming)
                raise
            for item in fresh:
                if not self._is_copy(item):
                    delivery = Delivery(item.message, self.subscription.name, since=self._means.clock.now())
                    self._admit(_Parcel(delivery, item))
            self._spawn()

    async def _sift(self, incoming: list[Incoming]) -> list[Incoming]:
        """Ack and leave out what was delivered before."""
        fresh: list[Incoming] = []
        done: list[Incoming] = []
        for item in incoming:
            (done if self._is_delivered(item) or self._is_routed_elsewhere(item) else fresh).append(item)
        suspects = [item for item in fresh if self._is_suspect(item)]
        if suspects:
            finished = await self._finished(suspects)
            done += [item for item in suspects if item.message.id in finished]
            fresh = [item for item in fresh if item.message.id not in finished]
        if done:
            self._consumer.ack(done)
        return fresh

    def _is_delivered(self, item: Incoming) -> bool:
        message = item.message
        return message.id not in self._held and self._means.outcomes.overtaken(
            message.destination, self.subscription.name, message.id, 0, 0
        )

    def _is_routed_elsewhere(self, item: Incoming) -> bool:
        """Whether the message is not for this subscription, on a road that does not route by itself."""
        pattern, message = self.subscription.routing_pattern, item.message
        return (
            pattern != EVERY_KEY
            and self.subscription.name not in message.expected
            and not matches(pattern, message.routing_key)
        )

    def _is_copy(self, item: Incoming) -> bool:
        """Whether the message is here already; its copy is acked or given back with it."""
        held = self._held.get(item.message.id)
        if held is None:
            return False
        held.append(item)
        return True

    def _is_suspect(self, item: Incoming) -> bool:
        """Whether an earlier life of this process, or somebody else, may have delivered it."""
        if item.suspect or id_time(item.message.id) < self._means.started_at:
            return True
        return item.message.received_at < self._means.clock.now() - self.subscription.stuck_after

    async def _finished(self, suspects: Iterable[Incoming]) -> set[str]:
        keys = [
            DeliveryKey(item.message.id, item.message.retention_days, self.subscription.name, 0) for item in suspects
        ]
        try:
            return {key.message_id for key in await self._means.store.finished(keys)}
        except StoreError:
            return set()

    def _admit(self, parcel: _Parcel) -> None:
        message = parcel.delivery.message
        self._held[message.id] = []
        if parcel.incoming is not None:
            self._carried[message.id] = message.received_at
        self._waiting.append(parcel)

    def _give_back(self) -> None:
        """Return to the road what was not started; what was handed over stays, as its lease does."""
        for parcel in self._waiting:
            if parcel.incoming is not None:
                self._let_go(parcel)
        self._waiting = deque(parcel for parcel in self._waiting if parcel.incoming is None)

    def _let_go(self, parcel: _Parcel) -> None:
        """Give a delivery that was not made back to its road, with its copies."""
        copies = self._held.pop(parcel.delivery.message.id, [])
        self._carried.pop(parcel.delivery.message.id, None)
        self._consumer.release(copies if parcel.incoming is None else [parcel.incoming, *copies])

    def _forget_overdue(self) -> None:
        """Drop what waited for longer than its lease allows; a copy that came by a road goes back there."""
        now = self._means.clock.monotonic()
        for parcel in [parcel for parcel in self._waiting if parcel.until < now]:
            self._waiting.remove(parcel)
            self._let_go(parcel)

    # --- working ---------------------------------------------------------------------------------------------

    def _spawn(self) -> None:
        """Start as many workers as there is work and permits."""
        if self._group is None or self._stopping.is_set() or self.subscription.paused:
            return
        for _ in range(min(len(self._waiting), self.subscription.max_concurrency - self._workers)):
            self._workers += 1
            self._group.create_task(self._work())

    async def _work(self) -> None:
        try:
            while self._may_start():
                await self._step()
        finally:
            self._workers -= 1
            self._wake.set()

    def _may_start(self) -> bool:
        """Whether the next parcel may be started; if not, who says so starts workers again."""
        if self._waiting and self._waiting[0].until < self._means.clock.monotonic():
            self._forget_overdue()
        if not self._waiting or self._stopping.is_set() or self.subscription.paused or not self._means.may_start():
            return False
        if self._workers > self.subscription.max_concurrency or self._unrecorded >= self.subscription.max_concurrency:
            return False
        if not self._means.outcomes.has_room:
            self._again(sys.float_info.max, self._means.outcomes.room)
            return False
        now = self._means.clock.monotonic()
        if self.subscription.rate is not None and (wait := self._rate.wait(now)) > 0:
            self._again_in(now, wait)
            return False
        if self.breaker.allows(now):
            return True
        if self.breaker.state is BreakerState.OPEN:
            self._again_in(now, self.breaker.probe_in(now))
        return False

    async def _step(self) -> None:
        """Deliver the next parcel."""
        parcel = self._waiting.popleft()
        self._in_flight += 1
        if len(self._waiting) < self.subscription.max_concurrency:
            self._wake.set()
        try:
            await self._deliver(parcel)
        except asyncio.CancelledError:
            self._let_go(parcel)
            self.breaker.abandoned(self._means.clock.monotonic())
            raise
        finally:
            self._in_flight -= 1

    async def _deliver(self, parcel: _Parcel) -> None:
        delivery = parcel.delivery
        if self._filter is not None and not self._wants(delivery):
            self.breaker.abandoned(self._means.clock.monotonic())
            outcome = without_post(delivery, self.subscription, Status.SKIPPED, "filter", self._means.clock.now())
            self._record(outcome, parcel)
            return
        self._rate.take(1)
        probing = self.breaker.state is BreakerState.HALF_OPEN
        attempt, answer, refused = await self._post(delivery)
        self._count(answer, refused=refused)
        if probing and answer.status is None:
            # Nobody answered, so no attempt is spent; the next probe is another message.
            self._meter.probe_failed()
            self._waiting.append(parcel)
            return
        now = self._means.clock.now()
        self._record(judge(delivery, self.subscription, attempt, answer, now=now, noise=self._means.noise()), parcel)
        if answer.status == GONE:
            self._means.gone(self.subscription)

    async def _post(self, delivery: Delivery) -> tuple[Attempt, Answer, bool]:
        """Make one attempt; network trouble is an answer as well."""
        clock, n = self._means.clock, delivery.attempts + 1
        started = clock.now()
        if self._requests is None or started >= self._requests.valid_until:
            self._renew()
        if self._requests is None:
            await clock.sleep(_BROKEN_URL_PAUSE)
            result = _unsent(self._broken)
        else:
            result = await self._send(self._requests, delivery.message, n, started)
        self._meter.attempted(result.duration)
        answer = Answer(result.status, result.error, parse_retry_after(result.retry_after, clock.now()))
        attempt = Attempt(
            id=next(self._means.attempt_ids),
            n=n,
            by=delivery.by,
            started_at=started,
            duration=result.duration,
            phases=result.phases,
            status_code=result.status,
            error=result.error,
            response=b"" if answer.succeeded else result.response[:_RESPONSE_KEPT],
            node=self._means.node,
        )
        return attempt, answer, result.failure is PostFailure.REFUSED

    async def _send(self, requests: RequestMaker, message: Message, n: int, now: int) -> PostResult:
        try:
            headers = requests.headers(message, n, now)
            return await self._means.poster.post(
                requests.target, headers, message.body, self.subscription.timeout / 1000
            )
        except ValueError as error:
            return _unsent(str(error))

    def _count(self, answer: Answer, *, refused: bool) -> None:
        now = self._means.clock.monotonic()
        if answer.succeeded:
            was_closed = self.breaker.state is BreakerState.CLOSED
            self.breaker.succeeded(now)
            if not was_closed:
                _log.info("subscription %s of %s answers again", self.subscription.name, self.subscription.destination)
                self._spawn()
            return
        self.breaker.failed(now, refused=refused)

    def _record(self, outcome: Outcome, parcel: _Parcel) -> None:
        self._unrecorded += 1
        self._means.outcomes.record(outcome, self, parcel)
        self._meter.decided(outcome, parcel.delivery.message.received_at)

    def _wants(self, delivery: Delivery) -> bool:
        if self._filter is None:
            return True
        try:
            return self._filter.wants(delivery.message)
        except ValueError as error:
            self._meter.filter_failed()
            _log.warning("%s; it is delivered", error, extra={"message_id": delivery.message.id})
            return True

    def _again_in(self, now: float, seconds: float) -> None:
        """Start workers after so many seconds: a probe of the breaker is due, or the rate has room."""
        self._again(now + seconds, partial(self._means.clock.sleep, seconds))

    def _again(self, at: float, wait: Callable[[], Awaitable[None]]) -> None:
        """Start workers when the wait is over, unless they are started earlier anyway."""
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

    def _renew(self) -> None:
        """Parse the URL and the secrets again; a URL that is denied now fails each attempt with the reason."""
        try:
            self._requests: RequestMaker | None = RequestMaker(
                self.subscription, self._means.poster, self._means.clock.now()
            )
            self._broken = ""
        except (EgressDenied, ValueError) as error:
            self._requests, self._broken = None, str(error)


def _unsent(error: str) -> PostResult:
    """Return the result of a POST whose URL is not allowed."""
    return PostResult(
        status=None,
        failure=PostFailure.DENIED,
        error=error,
        indeterminate=False,
        duration=0.0,
        phases=Phases(None, None, None, None, None, None),
        retry_after=None,
        response=b"",
    )
