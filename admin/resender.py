"""Resending: a person sets a delivery to ``resend``, which raises its generation and makes it due now."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from bus.domain.delivery import Outcome, Status
from bus.domain.message import Message, encode_message
from bus.domain.trace import Trace
from bus.errors import Conflict, NotFound
from bus.ports.clock import Clock
from bus.ports.store import Store
from bus.registry import Registry


class Target(NamedTuple):
    """One delivery to resend: the generation that the resend gives it, and the attempts made before."""

    subscription: str
    generation: int
    attempts: int


class Resender:
    """Makes the store writes of resends.

    Applying the same targets again changes nothing: the generation is fixed when the targets are chosen.
    """

    def __init__(self, store: Store, registry: Registry, clock: Clock) -> None:
        self._store = store
        self._registry = registry
        self._clock = clock

    async def choose(self, message_id: str, subscriptions: Sequence[str] | None) -> list[Target]:
        """Return the deliveries of one message to resend: all those not pending, or the named.

        Raises
        ------
        NotFound
            The message, or a subscription named, is not there.
        Conflict
            A delivery named, or every one, is still pending: it is on its way.
        """
        trace = await self._store.trace(message_id)
        if trace is None:
            raise NotFound(f"there is no message {message_id}", hint="it may be past its retention")
        return self._choose(trace, subscriptions)

    async def apply(self, message_id: str, targets: Sequence[Target], reason: str) -> None:
        """Write the resends of chosen targets; durable when it returns, and may be repeated.

        Raises
        ------
        NotFound
            The message is gone, or a subscription.
        """
        message = await self._store.message(message_id)
        if message is None:
            raise NotFound(f"there is no message {message_id}", hint="it may be past its retention")
        await self._store.write([self._outcome(message, target, reason) for target in targets])

    def _choose(self, trace: Trace, subscriptions: Sequence[str] | None) -> list[Target]:
        known = self._registry.catalog.expected(trace.destination)
        names = known if subscriptions is None else subscriptions
        missing = [name for name in names if name not in known]
        if missing:
            raise NotFound(f"there is no subscription {missing[0]!r} of {trace.destination!r}")
        ready = [name for name in names if not is_pending(trace, name)]
        if not ready or (subscriptions is not None and len(ready) < len(names)):
            raise Conflict("a delivery of this message is still pending: it is on its way")
        return [target_of(trace, name) for name in ready]

    def _outcome(self, message: Message, target: Target, reason: str) -> Outcome:
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
            reason=reason or "resent by a person",
            due_at=now,
            attempts=target.attempts,
            since=now,
            message=encode_message(message),
        )


def is_pending(trace: Trace, subscription: str) -> bool:
    """Whether the delivery is still on its way for the first time."""
    delivery = trace.deliveries.get(subscription)
    return delivery is not None and delivery.status is Status.PENDING


def target_of(trace: Trace, subscription: str) -> Target:
    """Return the target that resends a delivery, or replays the message to a later subscription."""
    delivery = trace.deliveries.get(subscription)
    if delivery is None:
        return Target(subscription, 1, 0)
    return Target(subscription, delivery.generation + 1, delivery.attempts_made)
