"""A dispatcher's surroundings in memory, on a clock that the test moves."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

from bus.domain.delivery.delivery import Delivery, Outcome, Status, decode_outcome
from bus.domain.delivery.retry import RetryPolicy, Schedule
from bus.domain.destination import Destination, Ordering
from bus.domain.message import Message, encode_message
from bus.domain.subscription import Subscription
from bus.ports.transport import OutgoingMessage
from bus.security.egress import EgressPolicy
from bus.testing.clock import ManualClock
from bus.testing.events import MemoryEvents
from bus.testing.poster import MemoryPoster, Reply
from bus.testing.store import MemoryStore
from bus.testing.transport import MemoryTransport
from bus.testing.writes import DESTINATION, NOON, message
from dispatcher.dependencies import Dependencies
from dispatcher.outcomes import OutcomeLog
from dispatcher.worker import SubscriptionWorker
from tests.harness.gated_spool import GatedSpool

URL = "http://127.0.0.1:8000/hook"
FAST = RetryPolicy(Schedule((1000,)), 3_600_000, None)


def subscription(name: str = "billing", **changes: Any) -> Subscription:
    fields: dict[str, Any] = {"destination": DESTINATION, "name": name, "url": URL, "retry": FAST}
    return Subscription(**fields | changes)


def fresh(number: int, clock: ManualClock, **changes: Any) -> Message:
    """Make a message that this life of the process received just now."""
    now = clock.now()
    made = message(now - NOON + number, received_at=now, sent_at=now, biz_id=f"order-{number}")
    return Message(**{name: getattr(made, name) for name in made.__struct_fields__} | changes)


class World:
    """One process; ``beside`` another one it has the same clock, and the same subscribers."""

    def __init__(self, beside: World | None = None) -> None:
        self.clock = beside.clock if beside else ManualClock()
        self.store = MemoryStore()
        self.spool = GatedSpool("store", "watch")
        self.transport = MemoryTransport()
        egress = EgressPolicy(allow_loopback=True)
        self.poster = beside.poster if beside else MemoryPoster(egress, sleep=self.clock.sleep)
        self.events = MemoryEvents()
        self.log = OutcomeLog(self.spool, self.events, self.clock)
        self.gone: list[Subscription] = []
        self.passed: list[Delivery] = []
        self.made = itertools.count()

    def dependencies(self, **changes: Any) -> Dependencies:
        fields: dict[str, Any] = {
            "poster": self.poster,
            "outcomes": self.log,
            "store": self.store,
            "clock": self.clock,
            "noise": lambda: 0.5,
            "node": "node-1",
            "since": partial(int, self.clock.now()),
            "attempt_ids": (f"attempt-{n}" for n in itertools.count(1)),
            "gone": self.gone.append,
            "passed": self.passed.append,
        }
        return Dependencies(**fields | changes)

    async def publish(self, count: int = 1, **changes: Any) -> list[Message]:
        messages = [fresh(next(self.made), self.clock, **changes) for _ in range(count)]
        await self.transport.publish([OutgoingMessage(one, encode_message(one)) for one in messages])
        return messages

    async def ensure(self, *names: str) -> None:
        await self.transport.ensure(
            Destination(code=DESTINATION), [subscription(name) for name in names or ("billing",)]
        )

    @asynccontextmanager
    async def worker(
        self, of: Subscription | None = None, ordering: Ordering = Ordering.NONE, **dependencies: Any
    ) -> AsyncIterator[SubscriptionWorker]:
        """Run a worker and the outcome log; stopped in order at the end."""
        chosen = of or subscription()
        await self.ensure(chosen.name)
        consumer = await self.transport.consume(*chosen.key)
        worker = SubscriptionWorker(chosen, consumer, self.dependencies(**dependencies), ordering)
        recording = asyncio.create_task(self.log.run())
        running = asyncio.create_task(worker.run())
        await self.clock.settle()
        try:
            yield worker
        finally:
            worker.stop()
            self.spool.gate.set()
            await self.clock.until(running.done)
            await self.log.drain()
            recording.cancel()
            await asyncio.gather(recording, return_exceptions=True)
            await worker.close()
            running.result()

    async def feed(self) -> None:
        """Move what is durable in the outcome spool into the store."""
        for lane in self.spool.lanes("store"):
            records = await self.spool.claim("store", 10_000, lane)
            await self.store.write([decode_outcome(record.payload) for record in records])
            self.spool.ack("store", records)

    async def outcomes(self) -> list[Outcome]:
        """Return what is durable in the outcome spool and was not returned before."""
        found: list[Outcome] = []
        for lane in self.spool.lanes("watch"):
            records = await self.spool.claim("watch", 10_000, lane)
            found += [decode_outcome(record.payload) for record in records]
        return found

    def holds(self, name: str = "billing") -> int:
        """Return how many messages the transport still holds."""
        lags = self.transport.lags()
        assert lags is not None
        return lags[DESTINATION, name].records

    def bodies(self) -> list[bytes]:
        return [posted.body for posted in self.poster.posted]


def handed(of: Message, **changes: Any) -> Delivery:
    """Make what a compensator hands over after the first failure."""
    fields: dict[str, Any] = {"attempts": 1, "tries": 1, "since": of.received_at, "handed_over": True}
    return Delivery(of, "billing", **fields | changes)


def statuses(outcomes: Sequence[Outcome]) -> list[Status]:
    return [outcome.status for outcome in outcomes]


def held() -> tuple[Reply, asyncio.Event]:
    """Make a reply that waits until the event is set."""
    event = asyncio.Event()
    return Reply(hold=event), event
