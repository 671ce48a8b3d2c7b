"""An unfinished outcome that a dispatcher holds, and what is known of the attempt after it."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from bus.domain.delivery.delivery import Delivery, Origin, Outcome, Status
from bus.domain.message import decode_message
from bus.ports.spool import Record
from bus.ports.store import DeliveryKey

Key = tuple[str, str, str]
Lane = tuple[str, str]
Place = tuple[str, int]


class State(enum.Enum):
    """Whether the store has an outcome."""

    HERE = enum.auto()
    """The store does not have it, as far as is known."""
    LEAVING = enum.auto()
    """A write of it is under way: the store may have it."""
    STORED = enum.auto()


@dataclass(slots=True, eq=False)
class HeldOutcome:
    """An unfinished outcome, and the state of the attempt after it.

    Attributes
    ----------
    record
        What ``RETRY`` claimed of it; None before, and once the store has it.
    is_suspect
        It is from an earlier life.
    is_ready
        It is due, and waits for capacity in its worker.
    is_offered
        Its worker took it.
    until
        Until when (monotonic seconds) this dispatcher may start the next attempt, by the first lease that the store may
        have of it; None without one.
    due
        When (monotonic seconds) it is looked at next.
    """

    outcome: Outcome
    place: Place
    is_suspect: bool
    record: Record | None = None
    state: State = State.HERE
    is_ready: bool = False
    is_offered: bool = False
    until: float | None = None
    due: float = 0.0

    @property
    def key(self) -> Key:
        """The key of its delivery."""
        return key_of(self.outcome)

    @property
    def lane(self) -> Lane:
        """Of which subscription."""
        return self.key[:2]

    @property
    def stage(self) -> tuple[int, int]:
        """The stage of its delivery."""
        return stage_of(self.outcome)

    @property
    def delivery_key(self) -> DeliveryKey:
        """By what the store is asked for it."""
        outcome = self.outcome
        return DeliveryKey(outcome.message_id, outcome.retention_days, outcome.subscription, outcome.generation)

    def is_over(self, now: float) -> bool:
        """Whether its lease has ended."""
        return self.until is not None and self.until < now

    def delivery(self) -> Delivery:
        """Return the delivery for its next attempt."""
        outcome = self.outcome
        return Delivery(
            message=decode_message(outcome.message),
            subscription=outcome.subscription,
            generation=outcome.generation,
            attempts=outcome.attempts,
            tries=outcome.tries,
            since=outcome.since,
            by=Origin.RESEND if outcome.status is Status.RESEND else Origin.RETRY,
            handed_over=True,
            order_key=outcome.order_key,
            place=outcome.place,
            is_suspect=self.is_suspect,
        )


def key_of(outcome: Outcome) -> Key:
    """Return the key of an outcome's delivery."""
    return (outcome.destination, outcome.subscription, outcome.message_id)


def stage_of(outcome: Outcome) -> tuple[int, int]:
    """Return the stage of a delivery after an outcome."""
    return (outcome.generation, outcome.attempts)


def place_of(record: Record) -> Place:
    """Return the key that identifies a record among all others."""
    return (record.lane, record.position)
