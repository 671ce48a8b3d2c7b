"""Keys that are held up: which there are, and what people decide about what holds them up."""

from __future__ import annotations

from typing import NamedTuple

from admin.repair.runner import JobRunner
from bus.domain.delivery.delivery import Compensation, Status
from bus.domain.message import decode_message
from bus.domain.ordering.holding import HOLDS_UP, set_aside
from bus.domain.subscription import Subscription
from bus.domain.tracing import events as events_of
from bus.domain.tracing.trace import DeliveryTrace, Trace
from bus.errors import NotFound
from bus.localized_text import localized
from bus.ports.clock import Clock
from bus.ports.events import Events
from bus.ports.store import Store
from bus.stores.rollups import Rollups


class HeldKey(NamedTuple):
    """A key that is held up.

    Attributes
    ----------
    waiting
        How many deliveries wait in the store behind the one that holds it up.
    row, trace, delivery
        What holds it up: its row in the store, its message, and its state.
    """

    key: str
    waiting: int
    row: Compensation
    trace: Trace
    delivery: DeliveryTrace

    @property
    def since(self) -> int:
        """The first attempt (ms) of the message that holds it up."""
        return min((attempt.started_at for attempt in self.delivery.attempts.values()), default=self.delivery.at)


class HeldKeys:
    """Reads the keys that are held up from the store, and writes the decisions of people.

    The dispatcher that keeps the order reads a decision from the store, within seconds.
    """

    def __init__(self, store: Store, runner: JobRunner, rollups: Rollups, events: Events, clock: Clock) -> None:
        self._store = store
        self._runner = runner
        self._rollups = rollups
        self._events = events
        self._clock = clock

    async def page(
        self, subscription: Subscription, *, after: str | None, limit: int
    ) -> tuple[list[HeldKey], str | None]:
        """Return the held-up keys among the next ``limit`` keys with rows, and the last of these; None at the end."""
        keys = await self._store.ordered_keys(*subscription.key, after=after, limit=limit + 1)
        found = [await self._held(subscription, one.order_key, one.rows) for one in keys[:limit]]
        return [one for one in found if one is not None], keys[limit - 1].order_key if len(keys) > limit else None

    async def resume(self, subscription: Subscription, key: str, by: str) -> str:
        """Resend what holds up a key, and return its message's id; durable when it returns, and watched as a job.

        What was resent already and not attempted since stays as it is: done twice, it would be delivered twice.

        Raises
        ------
        NotFound
            Nothing holds it up.
        """
        held = await self._require(subscription, key)
        if held.delivery.status is not Status.RESEND:
            await self._runner.resend_one(held.trace, [subscription.name], by)
        return held.trace.id

    async def skip(self, subscription: Subscription, key: str, by: str, why: str) -> str:
        """Set aside what holds up a key, and return its message's id; durable when it returns.

        Raises
        ------
        NotFound
            Nothing holds it up.
        """
        held = await self._require(subscription, key)
        now = self._clock.now()
        outcome = set_aside(held.row, held.delivery, subscription, by=by, why=why, now=now)
        await self._store.write([outcome])
        self._rollups.count([outcome])
        self._events.emit(events_of.settled(outcome, decode_message(held.row.message)))
        return held.trace.id

    async def _require(self, subscription: Subscription, key: str) -> HeldKey:
        held = await self._held(subscription, key, 1)
        if held is None:
            code, name = subscription.key
            raise NotFound(
                localized("nothing holds up the key {key} of {code}/{name}", key=repr(key), code=code, name=name),
                hint=localized("see which are held up: bus ordering show {code} {name}", code=code, name=name),
            )
        return held

    async def _held(self, subscription: Subscription, key: str, rows: int) -> HeldKey | None:
        first = await self._store.ordered_rows(*subscription.key, key, limit=1)
        trace = await self._store.trace(first[0].message_id) if first else None
        delivery = trace.deliveries.get(subscription.name) if trace is not None else None
        if trace is None or delivery is None or delivery.status not in HOLDS_UP:
            return None
        return HeldKey(key, rows - 1, first[0], trace, delivery)
