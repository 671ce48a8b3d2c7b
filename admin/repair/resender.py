"""Resending: a person sets a delivery to ``resend``, which raises its generation and makes it due now."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Collection, Sequence
from typing import Final, NamedTuple

from bus.domain.delivery.delivery import Origin, Outcome, Resend, Status, untried_row
from bus.domain.delivery.reasons import RESENT
from bus.domain.message import Message, encode_message
from bus.domain.tracing.trace import DeliveryTrace, Trace
from bus.errors import Conflict, NotFound
from bus.localized_text import localized
from bus.ports.clock import Clock
from bus.ports.store import DocumentWrite, Store
from bus.registry import Registry

HAND_OVER: Final = 0
"""Generation of a target that is not resent: a pending delivery, on no transport, goes to a dispatcher as it is."""


class Target(NamedTuple):
    """One delivery to resend, and the generation that the resend gives it."""

    subscription: str
    generation: int


class UntriedDelivery(NamedTuple):
    """One delivery that was never attempted."""

    message_id: str
    subscription: str


class Cause(NamedTuple):
    """Which job resends, for whom, and why."""

    job: str
    by: str
    reason: str


class Resender:
    """Makes the store writes of resends.

    Applying the same targets again changes nothing: the generation is fixed when the targets are chosen.

    Parameters
    ----------
    due
        Set once the resends are written, so that the compensator of this process looks for them at once.
    """

    def __init__(self, store: Store, registry: Registry, clock: Clock, due: asyncio.Event) -> None:
        self._store = store
        self._due = due
        self._registry = registry
        self._clock = clock
        self._all_due_at = 0.0

    def choose(self, trace: Trace, subscriptions: Sequence[str] | None, lost: Collection[str] = ()) -> list[Target]:
        """Return the deliveries of one message to resend: those named, or all that are not pending.

        Parameters
        ----------
        lost
            The subscriptions whose pending delivery is on no group of brokers any more: it is handed over as it is.

        Raises
        ------
        NotFound
            There is no subscription of that name.
        Conflict
            A named delivery, or every one, is still pending.
        """
        known = self._registry.catalog.names(trace.destination)
        names = known if subscriptions is None else subscriptions
        missing = [name for name in names if name not in known]
        if missing:
            raise NotFound(
                localized(
                    "there is no subscription {name} of {destination}",
                    name=repr(missing[0]),
                    destination=repr(trace.destination),
                ),
                hint=localized("see: bus subscription list {destination}", destination=trace.destination),
            )
        ready = [name for name in names if name in lost or not is_pending(trace, name)]
        if not ready or (subscriptions is not None and len(ready) < len(names)):
            raise Conflict(
                localized("a delivery of this message is still pending: it is on its way"),
                hint=f"bus trace {trace.id}",
            )
        return [Target(name, HAND_OVER) if name in lost else target_of(trace, name) for name in ready]

    async def apply(self, message_id: str, targets: Sequence[Target], cause: Cause) -> None:
        """Write the resends of targets that were not pending; durable when it returns, and may be repeated.

        Raises
        ------
        NotFound
            The message or a subscription is gone.
        """
        trace = await self._store.trace(message_id)
        message = await self._store.message(message_id)
        if trace is None or message is None:
            raise _no_message(message_id)
        outcomes = [self._outcome(message, target, trace, cause) for target in targets if _is_next(target, trace)]
        if outcomes:
            await self._store.write(outcomes)
            self._due.set()

    async def hand_over(self, deliveries: Sequence[UntriedDelivery]) -> set[UntriedDelivery]:
        """Have a dispatcher get deliveries as they are, in their order, unless they were attempted meanwhile.

        Durable when it returns, and may be repeated. Returns those whose message is gone.
        """
        found = await asyncio.gather(*(self._untried(key) for key in deliveries))
        looked_at = list(zip(deliveries, found, strict=True))
        untried = [(each, key.subscription) for key, each in looked_at if isinstance(each, Message)]
        if untried:
            first = self._first_due(len(untried))
            await self._store.compensate(
                [untried_row(*each, first + place, Origin.STUCK) for place, each in enumerate(untried)]
            )
            self._due.set()
        return {key for key, each in looked_at if each is None}

    def _first_due(self, count: int) -> int:
        """Return when the first of so many rows is due (ms), each a millisecond after the one before.

        Compensators go by due times, so that rows of a later call are due after those of an earlier one.
        """
        now = self._clock.monotonic()
        first = max(now, self._all_due_at)
        self._all_due_at = first + count / 1000
        return self._clock.now() + math.ceil((first - now) * 1000)

    async def _untried(self, key: UntriedDelivery) -> Message | Status | None:
        """Return the message of a pending delivery, the state of another one, None if the store lacks the message."""
        message_id, name = key
        trace, message = await self._store.trace(message_id), await self._store.message(message_id)
        if trace is None or message is None:
            return None
        found = trace.deliveries.get(name)
        if found is None or found.status is not Status.PENDING:
            return found.status if found is not None else None
        return message

    async def begin(
        self, trace: Trace, targets: Sequence[Target], cause: Cause, documents: Sequence[DocumentWrite]
    ) -> None:
        """Write the resends of targets that were chosen from a trace just now, together with documents.

        Durable when it returns. Once the documents are, ``apply`` does again what a crash has left out.

        Raises
        ------
        NotFound
            The message or a subscription is gone; nothing was written.
        """
        message = await self._store.message(trace.id)
        if message is None:
            raise _no_message(trace.id)
        again = [target for target in targets if target.generation > HAND_OVER]
        await self._store.write([self._outcome(message, target, trace, cause) for target in again], documents)
        await self.hand_over(
            [UntriedDelivery(trace.id, target.subscription) for target in targets if target not in again]
        )
        self._due.set()

    def _outcome(self, message: Message, target: Target, trace: Trace, cause: Cause) -> Outcome:
        now = self._clock.now()
        subscription = self._registry.subscription(message.destination, target.subscription)
        return Outcome(
            message_id=message.id,
            destination=message.destination,
            subscription=target.subscription,
            retention_days=message.retention_days,
            url=subscription.url,
            status=Status.RESEND,
            generation=target.generation,
            at=now,
            reason=cause.reason or RESENT,
            due_at=now,
            attempts=_attempts_begun(trace.deliveries.get(target.subscription), now),
            since=now,
            message=encode_message(message),
            resend=Resend(target.generation, cause.job, cause.by, cause.reason, now),
        )


def _no_message(message_id: str) -> NotFound:
    return NotFound(
        localized("there is no message {id}", id=message_id), hint=localized("it may be past its retention")
    )


def is_pending(trace: Trace, subscription: str) -> bool:
    """Whether the delivery is still on its way for the first time."""
    delivery = trace.deliveries.get(subscription)
    return delivery is not None and delivery.status is Status.PENDING


def target_of(trace: Trace, subscription: str) -> Target:
    """Return the target that resends a delivery, or replays the message to a later subscription."""
    delivery = trace.deliveries.get(subscription)
    return Target(subscription, 1 if delivery is None else delivery.generation + 1)


def _is_next(target: Target, trace: Trace) -> bool:
    """Whether neither this resend nor a later one was written yet."""
    delivery = trace.deliveries.get(target.subscription)
    return target.generation > HAND_OVER and (delivery is None or delivery.generation < target.generation)


def _attempts_begun(delivery: DeliveryTrace | None, now: int) -> int:
    """Return the number of attempts made or maybe under way, so that the next one has its own number."""
    if delivery is None:
        return 0
    may_be_under_way = delivery.status in (Status.RETRYING, Status.RESEND) and delivery.due_at <= now
    return delivery.attempts_made + may_be_under_way
