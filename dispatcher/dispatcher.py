"""All workers of one dispatcher."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import partial
from typing import Final, NamedTuple

import msgspec

from bus import gc_tuning
from bus.cluster.activity import Activity
from bus.domain.catalog import Catalog
from bus.domain.delivery.breaker import BreakerState
from bus.domain.delivery.concurrency_shares import ShareChanges, Shares
from bus.domain.delivery.delivery import Delivery
from bus.domain.delivery.leases import start_within
from bus.domain.destination import Destination, Ordering
from bus.domain.health.vitals import BreakerFigures, WorkerFigures
from bus.domain.message import Message
from bus.domain.subscription import LONGEST_TIMEOUT, Subscription
from bus.ports.sampling import PERMIT_PATIENCE, SampleResult
from bus.ports.transport import Lag
from bus.transports.merged import MergedConsumer
from bus.transports.router import TransportRouter
from dispatcher.dependencies import Dependencies
from dispatcher.metrics import Permits, fill_permits
from dispatcher.moving import Hand, QueueMover
from dispatcher.worker import SubscriptionWorker

_log = logging.getLogger(__name__)
_AT_ONCE: Final = 32


async def _nobody(_: Subscription, __: Sequence[Message]) -> int:
    return 0


def _everything(_: str) -> bool:
    return True


def _once(_: str) -> int:
    return 0


def _key(name: str) -> tuple[str, str]:
    destination, _, subscription = name.partition("/")
    return destination, subscription


def _limit(catalog: Catalog, key: tuple[str, str]) -> int | None:
    found = catalog.subscriptions.get(key)
    return found.max_concurrency if found is not None else None


class _RunningWorker(NamedTuple):
    worker: SubscriptionWorker
    merged: MergedConsumer
    task: asyncio.Task[None]
    tenure: int


class _LeavingWorker(NamedTuple):
    """One that takes nothing more, and what has it leave its transports once nothing of it is under way."""

    running: _RunningWorker
    closing: asyncio.Task[None]


class Dispatcher:
    """Starts, changes and ends a worker for each subscription, as the configuration says.

    It is the ``LocalDispatcher`` to which the compensator of the same process hands leased deliveries. It uses its
    share of each subscription's slots; without a share it does not consume that subscription's queues of the brokers,
    and hands over (``hand``) the messages in its own queue to a dispatcher that has one. Where an order is kept, the
    dispatcher that ``leads`` the destination has all slots; with another ``tenure`` another process has led it in
    between, and its workers begin anew.
    """

    def __init__(
        self,
        router: TransportRouter,
        dependencies: Dependencies,
        shares: Shares,
        hand: Hand = _nobody,
        leads: Callable[[str], bool] = _everything,
        tenure: Callable[[str], int] = _once,
    ) -> None:
        self._router = router
        self._leads = leads
        self._tenure = tenure
        self._hand = hand
        self._dependencies = dependencies
        self._shares = shares
        self._catalog = Catalog()
        # Subscriptions whose workers do not follow the current catalog and shares yet.
        self._behind: set[tuple[str, str]] = set()
        self._reshared = ShareChanges(shares)
        self._running: dict[tuple[str, str], _RunningWorker] = {}
        # Subscriptions whose workers have deliveries, and those whose workers have become idle since the last look.
        self._active: set[tuple[str, str]] = set()
        self._leaving: dict[tuple[str, str], _LeavingWorker] = {}
        self._moving: dict[tuple[str, str], asyncio.Task[None]] = {}
        self._group: asyncio.TaskGroup | None = None
        self._changing = asyncio.Lock()

    async def run(self, catalog: Catalog, stopping: asyncio.Event) -> None:
        """Deliver until ``stopping``; then start nothing new, finish what is in flight, and leave the transports."""
        async with asyncio.TaskGroup() as group:
            log = group.create_task(self._dependencies.outcomes.run())
            self._group = group
            with gc_tuning.lasting():
                await self.apply(catalog)
            await stopping.wait()
            async with self._changing:
                self._group = None
                await self._stop_moving(list(self._moving))
            await self._stop_workers([*self._running.values(), *(one.running for one in self._leaving.values())])
            await self._dependencies.outcomes.drain()
            for running in self._running.values():
                await running.worker.close()
            log.cancel()

    async def apply(self, catalog: Catalog) -> None:
        """Put a configuration in force, without waiting for requests in flight of removed subscriptions."""
        async with self._changing:
            if self._group is None:
                return
            for key in (changed := catalog.since(self._catalog).subscriptions):
                self._reshared.limit("/".join(key), _limit(self._catalog, key), _limit(catalog, key))
            self._behind |= changed
            self._catalog = catalog
            await self._catch_up(self._group)

    async def _catch_up(self, group: asyncio.TaskGroup) -> None:
        """Have workers follow the catalog and the shares; a subscription for which that fails stays in ``_behind``."""
        self._leaving = {key: leaving for key, leaving in self._leaving.items() if not leaving.closing.done()}
        self._behind |= {_key(name) for name in self._reshared.concerned()}
        keys, failure = sorted(self._behind), None
        for count, key in enumerate(keys, 1):
            try:
                await self._bring_up(group, key)
                self._behind.discard(key)
            except Exception as error:  # noqa: BLE001 - raised below; it must not keep the others from their shares
                failure = error
            if not count % _AT_ONCE:
                await asyncio.sleep(0)  # of thousands, some in each turn of the loop
        if not self._reshared.is_current:
            self._behind.update(keys)  # some follow the shares of before: all again, when the change is announced
        if failure is not None:
            raise failure

    async def _bring_up(self, group: asyncio.TaskGroup, key: tuple[str, str]) -> None:
        """Start, change or end the worker of a subscription."""
        configured = self._catalog.subscriptions.get(key)
        if configured is None:
            if key in self._running:
                self._leave(group, key)
        elif (destination := self._catalog.destinations.get(configured.destination)) is None:
            _log.error("subscription %s has no destination %s", configured.name, configured.destination)
        elif not self._is_led(destination):
            # Who gets the task reads what is held up then, and not before.
            if key in self._running:
                self._leave(group, key)
        elif key in self._running and self._running[key].worker.ordering is destination.ordering:
            if self._running[key].tenure == self._tenure(destination.code):
                await self._change(self._running[key], destination, self._in_force(configured))
            else:
                self._leave(group, key)
                await self._start_worker(group, destination, self._in_force(configured))
        else:
            await self._start_worker(group, destination, self._in_force(configured))
        await self._move_or_not(group, key)

    def _leave(self, group: asyncio.TaskGroup, key: tuple[str, str]) -> None:
        """End a worker, without waiting for its requests in flight; then other processes may deliver what it held."""
        running = self._running.pop(key)
        running.worker.stop()
        self._leaving[key] = _LeavingWorker(running, group.create_task(self._end(running)))

    async def _end(self, running: _RunningWorker) -> None:
        await self._stop_workers([running])
        await running.worker.all_recorded()
        await running.worker.close()

    def _is_led(self, destination: Destination) -> bool:
        """Whether this process delivers a destination's messages at all."""
        return destination.ordering is Ordering.NONE or self._leads(destination.code)

    async def _move_or_not(self, group: asyncio.TaskGroup, key: tuple[str, str]) -> None:
        """Have what waits here for a subscription without a share moved, as long as it is without."""
        configured, destination = self._catalog.subscriptions.get(key), self._catalog.destinations.get(key[0])
        is_held = configured is None or destination is None or configured.paused or destination.paused
        if configured is None or is_held or self._share(configured):
            await self._stop_moving([key])
        elif key not in self._moving:
            consumer = await self._router.own(*key)
            mover = QueueMover(consumer, partial(self._hand_over, key), self._dependencies.clock)
            self._moving[key] = group.create_task(mover.run())

    async def _hand_over(self, key: tuple[str, str], messages: Sequence[Message]) -> int:
        configured = self._catalog.subscriptions.get(key)
        return await self._hand(configured, messages) if configured is not None else 0

    async def _stop_moving(self, keys: Iterable[tuple[str, str]]) -> None:
        tasks = [self._moving.pop(key) for key in keys if key in self._moving]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def reshare(self) -> None:
        """Put the current shares in force."""
        async with self._changing:
            if self._group is not None:
                await self._catch_up(self._group)

    async def follow_leaders(self) -> None:
        """Start and end the workers of destinations that keep an order, as this process leads them now."""
        async with self._changing:
            if self._group is not None:
                ordered = [
                    code for code, one in self._catalog.destinations.items() if one.ordering is not Ordering.NONE
                ]
                self._behind.update(found.key for code in ordered for found in self._catalog.of(code))
                await self._catch_up(self._group)

    @property
    def is_reshared(self) -> bool:
        """Whether no worker may use more than its current share."""
        return not self._running or (self._reshared.is_current and not any(map(self._may_exceed, self._behind)))

    def beyond(self) -> set[str]:
        """Return the subscriptions with more requests in flight, or allowed to start, than this dispatcher's share."""
        # A worker with its current share can exceed it only by requests that are still in flight.
        busy = (key for key, running in self._running.items() if running.worker.in_flight)
        suspects = {*self._behind, *busy}
        return {"/".join(key) for key in suspects if self._may_exceed(key) or self._exceeds(key)}

    def slower(self, seconds: float) -> set[str]:
        """Return the subscriptions a request to which may last for so long."""
        if seconds * 1000 > LONGEST_TIMEOUT:
            return set()
        found = self._catalog.subscriptions.items()
        return {"/".join(key) for key, one in found if one.timeout >= seconds * 1000}

    def _may_exceed(self, key: tuple[str, str]) -> bool:
        """Whether a worker may start more requests than its share allows."""
        running, configured = self._running.get(key), self._catalog.subscriptions.get(key)
        if running is None or configured is None:
            return False
        in_force = running.worker.subscription
        return not in_force.paused and in_force.max_concurrency > self._share(configured)

    def _exceeds(self, key: tuple[str, str]) -> bool:
        running, configured = self._running.get(key), self._catalog.subscriptions.get(key)
        return running is not None and configured is not None and running.worker.exceeds(self._share(configured))

    @property
    def is_local(self) -> bool:
        """Return True: handed-over deliveries are lost when this process ends."""
        return True

    async def room(self, keys: Collection[tuple[str, str]]) -> dict[tuple[str, str], int]:
        """Return how many handed-over deliveries each of these subscriptions takes now; 0 for those left out."""
        return {key: room for key in keys if (room := self.room_of(key))}

    def room_of(self, key: tuple[str, str]) -> int:
        """Return how many handed-over deliveries a subscription takes now."""
        running = self._running.get(key)
        return running.worker.room if running is not None else 0

    async def offer(self, deliveries: Sequence[Delivery]) -> list[bool]:
        """Take leased deliveries for which a worker has capacity; return for each whether its lease is to stay."""
        return [self.take(delivery) or self._holds(delivery) for delivery in deliveries]

    def delivers(self, key: tuple[str, str]) -> bool:
        """Whether a subscription has slots here, and its subscriber answers."""
        running = self._running.get(key)
        return (
            running is not None
            and not running.worker.subscription.paused
            and running.worker.breaker.state is BreakerState.CLOSED
        )

    def carried(self) -> dict[tuple[str, str], Lag]:
        """Return the number of unacked deliveries that workers hold, by subscription, where they hold any."""
        return {key: running.worker.carried for key, running in self._at_work() if running.worker.carries}

    def _at_work(self) -> list[tuple[tuple[str, str], _RunningWorker]]:
        """Return the workers that are not idle; idle ones cost nothing."""
        found = [(key, running) for key in self._active if (running := self._running.get(key)) is not None]
        at_work = [(key, running) for key, running in found if not running.worker.is_idle]
        self._active = {key for key, _ in at_work}
        return at_work

    def measure(self) -> Callable[[], None]:
        """Return the function that sets the gauges of slots and breakers; it may run in another thread."""
        return partial(self._fill, list(self._running.items()))

    def _fill(self, workers: Sequence[tuple[tuple[str, str], _RunningWorker]]) -> None:
        fill_permits(
            [
                Permits(key, running.worker.in_flight, self._part(configured), running.worker.breaker.state)
                for key, running in workers
                if (configured := self._catalog.subscriptions.get(key)) is not None
            ]
        )

    def breakers(self) -> dict[tuple[str, str], str]:
        """Return the breakers' states by name."""
        return {key: running.worker.breaker.state.name.lower() for key, running in self._running.items()}

    def open_breakers(self) -> dict[str, BreakerFigures]:
        """Return the breakers that are not closed, by ``destination/subscription``."""
        clock = self._dependencies.clock
        now, monotonic = clock.now(), clock.monotonic()
        return {
            "/".join(key): BreakerFigures(
                breaker.state.name.lower(),
                now - round((monotonic - breaker.opened_at) * 1000),
                now + round(breaker.probe_in(monotonic) * 1000),
                breaker.answered,
            )
            for key, running in self._at_work()
            if (breaker := running.worker.breaker).state is not BreakerState.CLOSED
        }

    def workers(self) -> Iterator[WorkerFigures]:
        """Yield the slots of each subscription, its waiting messages, and how long its rate holds them."""
        return self._figures(list(self._running.items()))

    def active_workers(self) -> list[WorkerFigures]:
        """Return the same of the workers that are not idle."""
        return list(self._figures(self._at_work()))

    def _figures(self, workers: Iterable[tuple[tuple[str, str], _RunningWorker]]) -> Iterator[WorkerFigures]:
        for key, running in workers:
            if (configured := self._catalog.subscriptions.get(key)) is not None:
                yield self._permits(running.worker, configured)

    def activity(self, destination: str, subscription: str) -> Activity:
        """Return the slots of one subscription, and the latest attempts."""
        key = (destination, subscription)
        running, configured = self._running.get(key), self._catalog.subscriptions.get(key)
        if running is None or configured is None:
            return Activity()
        return Activity(self._permits(running.worker, configured), running.worker.recent)

    def _permits(self, worker: SubscriptionWorker, configured: Subscription) -> WorkerFigures:
        return WorkerFigures(
            *configured.key,
            worker.in_flight,
            self._part(configured),
            configured.max_concurrency,
            worker.waiting,
            worker.rate_wait,
            worker.lacks_slot,
        )

    def _part(self, configured: Subscription) -> int:
        """Return the share of slots to show for this process, of those that it has together with other processes."""
        destination = self._catalog.destinations.get(configured.destination)
        is_alone = destination is not None and destination.ordering is not Ordering.NONE
        return self._share(configured) if is_alone else self._dependencies.slots.part(self._share(configured))

    async def sample(self, message: Message, subscription: str) -> SampleResult:
        """POST a message to a subscriber once, see ``bus.ports.sampling.SamplePoster``."""
        key = (message.destination, subscription)
        running, configured = self._running.get(key), self._catalog.subscriptions.get(key)
        if running is None or configured is None or not self._share(configured):
            return SampleResult(
                refused=f"the dispatcher on {self._dependencies.node} has no share of the permits of {'/'.join(key)}"
            )
        trial = await running.worker.sample(message)
        if trial is None:
            return SampleResult(refused=f"no permit of {'/'.join(key)} became free within {PERMIT_PATIENCE:g} s")
        result = trial.result
        return SampleResult(
            url=trial.url,
            headers=trial.headers,
            body=trial.body if configured.batch > 1 else None,
            status=result.status,
            failure=result.failure or "",
            error=result.error,
            duration=result.duration,
            phases=result.phases,
            answer_headers=trial.answer_headers,
            answer=result.response,
            answer_bytes=trial.answer_bytes,
            node=self._dependencies.node,
        )

    def take(self, delivery: Delivery, until: float | None = None) -> bool:
        """Take a leased delivery if a worker has capacity; it is dropped if it cannot start while the lease lasts.

        Parameters
        ----------
        until
            When (monotonic seconds) it can start last; None for a lease that began just now.
        """
        message = delivery.message
        running = self._running.get((message.destination, delivery.subscription))
        if running is None or self._dependencies.outcomes.recent.has_later(
            message.destination, delivery.subscription, message.id, delivery.generation, delivery.attempts
        ):
            return False
        if until is None:
            until = self._dependencies.clock.monotonic() + start_within(running.worker.subscription.timeout) / 1000
        return running.worker.offer(delivery, until)

    def _holds(self, delivery: Delivery) -> bool:
        """Whether a delivery that its worker did not take is there already, or overtaken, and has an outcome soon."""
        running = self._running.get((delivery.message.destination, delivery.subscription))
        return running is not None and running.worker.holds(delivery)

    def _in_force(self, configured: Subscription) -> Subscription:
        """Return the subscription as it is delivered here: with its share of slots, paused if its destination is."""
        destination = self._catalog.destinations.get(configured.destination)
        share = self._share(configured)
        if share == configured.max_concurrency and not (destination is not None and destination.paused):
            return configured
        return msgspec.structs.replace(
            configured,
            max_concurrency=max(share, 1),
            rate=configured.rate and configured.rate * max(share, 1) / configured.max_concurrency,
            paused=configured.paused or share == 0 or (destination is not None and destination.paused),
        )

    def _share(self, configured: Subscription) -> int:
        destination = self._catalog.destinations.get(configured.destination)
        if destination is not None and destination.ordering is not Ordering.NONE:
            return configured.max_concurrency if self._is_led(destination) else 0
        return self._shares.of("/".join(configured.key), configured.max_concurrency)

    async def _change(self, running: _RunningWorker, destination: Destination, subscription: Subscription) -> None:
        if running.worker.subscription != subscription:
            running.worker.update(subscription)
        else:
            running.worker.look_again()
        if await self._follow_transports(running.merged, destination, subscription):
            running.worker.listen_again()

    async def _start_worker(
        self, group: asyncio.TaskGroup, destination: Destination, subscription: Subscription
    ) -> None:
        if (leaving := self._leaving.pop(subscription.key, None)) is not None:
            leaving.running.task.cancel()
            await asyncio.wait([leaving.closing])
        if (former := self._running.pop(subscription.key, None)) is not None:
            # It keeps another order: what it holds comes again, to this one.
            await self._end(former)
        merged, tenure = MergedConsumer(), self._tenure(destination.code)
        await self._follow_transports(merged, destination, subscription)
        worker = SubscriptionWorker(
            subscription, merged, self._dependencies, destination.ordering, partial(self._note, subscription.key)
        )
        self._running[subscription.key] = _RunningWorker(worker, merged, group.create_task(worker.run()), tenure)

    def _note(self, key: tuple[str, str]) -> None:
        self._active.add(key)

    async def _follow_transports(
        self, merged: MergedConsumer, destination: Destination, subscription: Subscription
    ) -> bool:
        """Have the consumer follow the destination's transports; without a share only this process's direct queue."""
        configured = self._catalog.subscriptions[subscription.key]
        transports = destination.transports if self._share(configured) else (self._router.fallback.name,)
        return await self._router.meet(merged, destination, subscription.name, transports)

    async def _stop_workers(self, workers: Iterable[_RunningWorker]) -> None:
        leaving = list(workers)
        for running in leaving:
            running.worker.stop()
        if leaving:
            await asyncio.wait([running.task for running in leaving])
